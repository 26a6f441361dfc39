"""Session windows by expression.

Sessions, lateness and late records are those of the operator for rows (`operators/windowing/sessions.py`). Rows that
wait are cut into sessions by a sort (`session_cuts.py`), when a session is due that they may be part of; rows behind
the watermark at once, for they may be late, or make a session fire again. What sessions come to is in columns
(`session_table.py`).
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa

from millstream.base.time import MAX_TIMESTAMP
from millstream.operators.base import OwnEntries, Reach
from millstream.operators.columnar.groups import KeyedRows, Kinds
from millstream.operators.columnar.marks import marks_before, process_whole, seen_by_each
from millstream.operators.columnar.reading import stamps_of
from millstream.operators.columnar.session_cuts import Parts, cut_into_parts
from millstream.operators.columnar.session_steps import Fired, Piece, Steps
from millstream.operators.columnar.session_table import Found, SessionTable
from millstream.operators.columnar.window_base import NEVER, ColumnWindowOperator
from millstream.operators.columnar.window_results import portions
from millstream.operators.windowing.sessions import SESSIONS
from millstream.spi.batch import Batch
from millstream.state.snapshots import Entries, StateChanges

__all__ = ["SessionWindowOperator"]


class _Rows(NamedTuple):
    """Rows that are put into sessions.

    Attributes:
        numbers: The number of each one's key.
        stamps: Its time.
        columns: What is aggregated.
        first_order: The order of creation of a session that begins with the first of them.
    """

    numbers: Any
    stamps: Any
    columns: KeyedRows
    first_order: int


class SessionWindowOperator(ColumnWindowOperator):
    """Sessions of each key.

    Args:
        gap_ms: Silence that ends a session.
        shared: For `ColumnWindowOperator`.
    """

    def __init__(self, gap_ms: int, **shared: Any) -> None:
        super().__init__(**shared)
        self._gap_ms = gap_ms
        self._table = SessionTable(self._key_names, self._aggregates)
        self._next_order = 0

    def _add_batch(self, batch: Batch, rows: KeyedRows, stamps: Any) -> None:
        if int(stamps.min()) + self._gap_ms - 1 > self._passed_ms:
            self._wait(stamps, rows)
            return
        self._put_into_sessions()
        late = self._add(stamps, rows)
        if len(late):
            self._part_with(batch, late)
        self._flush()

    def process_marked(self, batch: Batch, reach: Reach) -> int | None:
        """Add a batch that has watermarks between its records.

        One of them matters to a record that may touch a session which has ended by then, and to no other.
        """
        stamps = stamps_of(batch)
        if not self._event_time or stamps is None:
            process_whole(self, batch, reach)
            return None
        assert batch.marks is not None
        marks, plain, count = batch.marks, batch.unmarked(), len(batch)
        before = marks.positions[-1]
        touching = np.empty(0, np.int64)
        if before and self._first_end(int(stamps[:before].min())) <= marks.watermarks[-1]:
            seen = seen_by_each(marks, before, self._passed_ms)
            touching = np.flatnonzero(stamps[:before] <= np.minimum(seen, MAX_TIMESTAMP - 1) + 1)
        start = 0
        for index in marks_before(marks, touching):
            stop = marks.positions[index]
            self.process(plain.cut(start, stop))
            if not reach(marks.watermarks[index]):
                return index
            start = stop
        self.process(plain.cut(start, count))
        return None

    def _first_end(self, lowest_ms: int) -> int:
        """Return the last millisecond of the session that ends first, those of rows not before a time among them."""
        ends = [lowest_ms + self._gap_ms - 1, self._waiting_due_ms, self._table.next_due()]
        return min(end for end in ends if end is not None)

    def _wait(self, stamps: Any, rows: KeyedRows) -> None:
        """Let rows wait that would end behind the watermark, each by itself."""
        if self._waiting.is_full() or not self._waiting.takes(rows):
            self._put_into_sessions()
        self._waiting.add(stamps, rows)
        self._waiting_due_ms = min(self._waiting_due_ms, int(stamps.min()) + self._gap_ms - 1)

    def _put_into_sessions(self) -> None:
        """Put the rows that wait into sessions: none of them is late, or makes one fire."""
        taken = self._waiting.take()
        if taken is not None:
            self._waiting_due_ms = NEVER
            self._add(*taken)

    def _add(self, stamps: Any, columns: KeyedRows) -> Any:
        """Put rows into sessions; return which of them are late."""
        rows = _Rows(self._table.numbers_of(columns.keys), stamps, columns, self._next_order)
        self._next_order += len(stamps)
        found = self._table.find(rows.numbers, int(stamps.min()), int(stamps.max()) + self._gap_ms)
        parts = cut_into_parts(rows.numbers, stamps, self._gap_ms, found)
        smooth, late = self._judge(parts, stamps, found)
        slots = self._add_smooth(parts, smooth, rows, found)[parts.of_rows]
        rough = ~(smooth | late) & (parts.first_rows >= 0)
        if not rough.any():
            self._add_to(slots, np.flatnonzero(slots >= 0), rows)
            return np.flatnonzero(late[parts.of_rows])
        steps = self._add_rough(parts, rough, rows, found, slots)
        return np.sort(np.append(np.flatnonzero(late[parts.of_rows]), np.array(steps.late, np.int64)))

    def _judge(self, parts: Parts, stamps: Any, found: Found) -> tuple[Any, Any]:
        """Return which parts can be added at once, and which are late as a whole."""
        has_sessions = np.zeros(len(parts.starts), bool)
        has_sessions[parts.of_found] = True
        late = ~has_sessions & (parts.ends - 1 <= self._passed_ms - self._lateness_ms)
        # Where the first row leaves a session that goes on, so do the others, and none fires.
        reached = stamps[parts.first_rows] + self._gap_ms
        single = np.flatnonzero(parts.sessions >= 0)
        reached[single] = np.maximum(reached[single], found.ends[parts.sessions[single]])
        return parts.smooth & (parts.first_rows >= 0) & (reached - 1 > self._passed_ms), late

    def _add_smooth(self, parts: Parts, smooth: Any, rows: _Rows, found: Found) -> Any:
        """Make the sessions of parts what they become but for their rows; return the slot of each part, or -1."""
        slots = np.full(len(smooth), -1)
        known = np.flatnonzero(smooth & (parts.sessions >= 0))
        new = np.flatnonzero(smooth & (parts.sessions < 0))
        slots[known] = found.slots[parts.sessions[known]]
        slots[new] = self._table.open(parts.numbers[new], rows.first_order + parts.first_rows[new])
        places = np.flatnonzero(smooth)
        self._place(slots[places], parts.starts[places], parts.ends[places])
        return slots

    def _place(self, slots: Any, starts: Any, ends: Any) -> None:
        self._table.set_bounds(slots, starts, ends)
        self._table.set_fired(slots, ends - 1 <= self._passed_ms, self._lateness_ms)

    def _add_to(self, slots: Any, places: Any, rows: _Rows) -> None:
        """Add the rows in some places to sessions."""
        if len(places):
            whole = len(places) == len(slots)
            columns = rows.columns if whole else rows.columns.take(places)
            self._table.accumulators.add(slots[places], columns.values)

    def _add_rough(self, parts: Parts, rough: Any, rows: _Rows, found: Found, slots: Any) -> Steps:
        """Add the rows of parts one by one, and those of the others; sessions that end behind them fire."""
        own: defaultdict[int, list[Piece]] = defaultdict(list)
        sessions = np.flatnonzero(rough[parts.of_found])
        for place in sessions[np.argsort(found.starts[sessions])].tolist():
            piece = Piece(int(found.starts[place]), int(found.ends[place]), place)
            own[int(parts.of_found[place])].append(piece)
        steps = Steps(
            gap_ms=self._gap_ms,
            passed_ms=self._passed_ms,
            lateness_ms=self._lateness_ms,
            first_place=len(found.slots),
        )
        taken = np.flatnonzero(rough[parts.of_rows])
        columns = taken.tolist(), parts.of_rows[taken].tolist(), rows.stamps[taken].tolist()
        for row, part, stamp in zip(*columns, strict=True):
            steps.add(own[part], row, stamp)
        if not self._table.accumulators.depends_on_order(rows.columns.values):
            steps.take_one_round()
        begun = np.array(steps.begun, np.int64)
        named = np.append(found.slots, self._table.open(rows.numbers[begun], rows.first_order + begun))
        # Each has grown: a row that overlaps or touches a session is not late.
        grown = [piece for of_part in own.values() for piece in of_part]
        self._take_steps(steps, named, rows, slots)
        self._table.remove(named[np.array(steps.gone, np.int64)])
        bounds = np.array([(piece.place, piece.start, piece.end) for piece in grown], np.int64).reshape(-1, 3)
        self._place(named[bounds[:, 0]], bounds[:, 1], bounds[:, 2])
        return steps

    def _take_steps(self, steps: Steps, named: Any, rows: _Rows, slots: Any) -> None:
        """Merge sessions, add rows and take results, round by round; the first has all rows of other parts, too.

        Args:
            steps: What is to be done.
            named: The slots of the sessions that they name.
            rows: The rows.
            slots: Of those of other parts; -1 for these.
        """
        accumulators, places, fired = self._table.accumulators, np.flatnonzero(slots >= 0), []
        for merges, adds, fires in zip(steps.merges, steps.adds, steps.fires, strict=True):
            if merges:
                into, other = named[np.array(merges).T]
                accumulators.merge(into, accumulators, other)
            if adds:
                taken, names = np.array(adds).T
                slots[taken] = named[names]
                places = np.sort(np.append(places, taken))
            self._add_to(slots, places, rows)
            places = np.empty(0, np.int64)
            if fires:
                fired.append((fires, self._table.columns(named[[each.place for each in fires]])))
        for fires, columns in fired:
            self._fire_now(fires, columns)

    def _fire_now(self, fires: list[Fired], columns: list[pa.Array]) -> None:
        order = np.argsort([each.row for each in fires])
        starts, ends = np.array([(each.start, each.end) for each in fires]).T[:, order]
        self._results.add(starts, ends, [column.take(pa.array(order)) for column in columns])

    def next_due(self) -> int | None:
        """Return when the next session is due, or None."""
        return self._table.next_due()

    def _make_ready(self, passed_ms: int) -> None:
        """Put rows that wait into sessions, if one may be due in a time that is to pass."""
        if self._waiting.count and self._first_end(MAX_TIMESTAMP) <= passed_ms:
            self._put_into_sessions()

    def _pass(self, passed_ms: int) -> None:
        self._make_ready(passed_ms)
        super()._pass(passed_ms)

    def _pass_some(self, passed_ms: int) -> bool:
        self._make_ready(passed_ms)
        return super()._pass_some(passed_ms)

    def _advance(self, passed_ms: int) -> None:
        table = self._table
        due = table.due(passed_ms)
        if not len(due):
            return
        firing = due[~table.have_fired(due)]
        for portion in portions(firing):
            self._results.add(*table.bounds(portion), table.columns(portion))
        table.set_fired(firing, np.full(len(firing), True), self._lateness_ms)
        table.remove(table.due(passed_ms))
        table.tidy()

    def snapshot_state(self) -> tuple[int, Kinds]:
        """Return the time passed, and the types of what is kept."""
        self._put_into_sessions()
        self._kinds.learn(self._table.kinds)
        return self._passed_ms, self._kinds.kinds

    def snapshot_entries(self) -> Iterator[OwnEntries]:
        """Return by key [(start, end, one part for each aggregate, fired)]."""
        self._put_into_sessions()
        yield SESSIONS, None, self._table.entries()

    def changed_entries(self, changes: StateChanges) -> bool:
        """Add the sessions of keys of which one changed."""
        self._put_into_sessions()
        changed = self._table.changed()
        if changed is None:
            return False
        entries, gone = changed
        for key, kept in entries:
            changes.put(SESSIONS, None, key, kept)
        for key in gone:
            changes.remove(SESSIONS, None, key)
        return True

    def forget_changes(self) -> None:
        """Take the sessions as they are as known."""
        self._table.forget_changes()

    def restore_entries(self, name: str, entries: Entries) -> None:
        """Take over sessions."""
        self._table.learn(self._kinds.kinds)
        if entries:
            keys, kept = [key for _, key, _ in entries], [each for _, _, each in entries]
            self._table.restore(keys, kept, self._lateness_ms)
            self._next_order += sum(map(len, kept))
