"""Aggregates by expression over tumbling and sliding windows: one row for each key and window.

Windows, lateness and late records are those of the operators for rows (`operators/windowing/slices.py`): a record is
in one slice, and a window that fires is made of its slices.

A call on columns costs the same for one row and for a thousand, so rows **wait** until a watermark makes a window fire
that they are in; what comes between watermarks that have nothing fire is worked on as one::

    rows         a b  |  c  |  d e f  |  g        |  watermarks
    windows      [=============)[==============)
    waiting      a b    abc    abcdef*   g        *  a window fires: abc make a slice, d e f wait on

Windows without lateness that tumble, and of which no slice is there yet, fire all at once, by a key that begins with
the window. Waiting rows are put into slices before a checkpoint, and when there are many of them. A late record that
makes a window fire again is taken by itself.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa

from millstream.base.errors import ConfigurationError
from millstream.base.time import MAX_TIMESTAMP, MIN_TIMESTAMP
from millstream.operators.base import (
    Operator,
    OperatorContext,
    OperatorReport,
    OperatorSpec,
    Output,
    OwnEntries,
    Reach,
    RestoreScope,
)
from millstream.operators.columnar.aggregate import describe
from millstream.operators.columnar.aggregates import Aggregate
from millstream.operators.columnar.combining import (
    ColumnCombiner,
    can_combine,
    is_combined,
    read_rows,
    records_of_each,
    report_combined,
)
from millstream.operators.columnar.groups import Groups, KeyedRows, Kinds
from millstream.operators.columnar.key_index import numbered
from millstream.operators.columnar.marks import process_whole, seen_by_each
from millstream.operators.columnar.reading import ColumnReader, stamps_of, taken
from millstream.operators.columnar.running import RunningGroups
from millstream.operators.columnar.slices import SliceGrid
from millstream.operators.columnar.slot_values import plain
from millstream.operators.columnar.touched_slots import TouchedSlots
from millstream.operators.columnar.waiting_rows import WaitingRows
from millstream.operators.combining import Combiner
from millstream.operators.portions import Pace
from millstream.operators.windowing.assigners import no_timestamp
from millstream.operators.windowing.base import LATE_RECORDS_DROPPED, DueTimes
from millstream.operators.windowing.passing import PassingTime
from millstream.operators.windowing.slices import SLICES
from millstream.spi.batch import Batch, Columns, Marks
from millstream.state.snapshots import Entries, StateChanges
from millstream.state.touched import pays

__all__ = ["WINDOW_END", "WINDOW_START", "ColumnWindowSpec"]

WINDOW_START, WINDOW_END = "window_start", "window_end"
"""Names of the columns with a window's bounds, epoch milliseconds."""

_PORTION = 32_768
_MOST_WAITING = 32_768
_NEVER = MAX_TIMESTAMP + 1


@dataclass(frozen=True)
class ColumnWindowSpec(OperatorSpec):
    """Declares aggregates over windows.

    Attributes:
        keys: Names of the key fields.
        aggregates: Names of the results, and what they are.
        grid: The windows.
        event_time: Whether they follow event time, or the clock.
        allowed_lateness_ms: How long a window is kept after its end.
        late_tag_id: Side output of late records; None drops and counts them.
        names: Names of the fields of plain tuples, in order; None if they have none.

    Raises:
        ConfigurationError: If the lateness is negative.
    """

    keys: tuple[str, ...]
    aggregates: tuple[tuple[str, Aggregate], ...]
    grid: SliceGrid
    event_time: bool = True
    allowed_lateness_ms: int = 0
    late_tag_id: str | None = None
    names: tuple[str, ...] | None = None
    is_keyed = True
    takes_columns = True

    def __post_init__(self) -> None:
        if self.allowed_lateness_ms < 0:
            raise ConfigurationError(f"the allowed lateness of a window is {self.allowed_lateness_ms} ms")

    @property
    def state_form(self) -> str:
        """Which windows by which time, and what is kept of their records."""
        grid, time = self.grid, "event time" if self.event_time else "processing time"
        windows = (
            f"slices of windows of {grid.size_ms} ms every {grid.slide_ms} ms, offset {grid.offset_ms} ms"
        )
        return f"{windows}, {time}, {describe(self.aggregates)}"

    @property
    def waits_ms(self) -> int | None:
        """The length of its windows by event time."""
        return self.grid.size_ms if self.event_time else None

    def build(self) -> Operator:
        """Make the running half."""
        return ColumnWindowOperator(self)

    def build_combiner(self) -> Combiner | None:
        """Make what begins the aggregates where records come from, if each late record need not be there itself."""
        aggregates = [aggregate for _, aggregate in self.aggregates]
        late_matter = self.allowed_lateness_ms or self.late_tag_id is not None
        if late_matter or not self.event_time or self.grid.has_gaps or not can_combine(self.keys, aggregates):
            return None
        return ColumnCombiner(self.keys, aggregates, self.grid)


class _Slice:
    """The aggregates of the records of one slice."""

    def __init__(self, groups: Groups, *, known: bool) -> None:
        self.groups = groups
        self.touched = TouchedSlots(known=known)


class ColumnWindowOperator(PassingTime):
    """Slices by start, and due times of windows."""

    def __init__(self, spec: ColumnWindowSpec) -> None:
        self._spec = spec
        self._grid = spec.grid
        self._event_time = spec.event_time
        # Windows by the clock are cleaned up as they end, as in Flink.
        self._lateness_ms = spec.allowed_lateness_ms if spec.event_time else 0
        self._aggregates = [aggregate for _, aggregate in spec.aggregates]
        self._reader = ColumnReader([*spec.keys, *(each.field for each in self._aggregates)], spec.names)
        self._names = [*spec.keys, WINDOW_START, WINDOW_END, *(name for name, _ in spec.aggregates)]
        self._slices: dict[int, _Slice] = {}
        self._ended_slices: set[int] = set()
        self._windows: set[int] = set()
        self._due = DueTimes()
        self._waiting = WaitingRows()
        self._waiting_due_ms = _NEVER  # the last millisecond of the first window that rows wait for
        self._kinds = self._make_groups()
        self._running = RunningGroups(self._make_groups)
        self._known = False
        self._late_dropped = 0
        self._combined = 0
        self._results: list[pa.RecordBatch] = []
        self._result_stamps: list[Any] = []
        self._result_count = 0

    def setup(self, context: OperatorContext, output: Output) -> None:
        """Be told where it runs and where results go."""
        super().setup(context, output)
        self._pace = Pace(context.budget)

    def process(self, batch: Batch) -> None:
        """Add a batch to its windows; late records may fire at once.

        Raises:
            JobDefinitionError: If the records have no timestamps.
            TypeMismatchError: If a field is missing, or of a type that cannot be aggregated so.
        """
        if not len(batch):
            return
        rows = read_rows(self._reader, batch, len(self._spec.keys))
        if rows.combined:
            self._combined += int(records_of_each(batch).sum())
        stamps = self._stamps(batch)
        starts = self._grid.starts(stamps)
        if not self._grid.has_gaps and self._grid.first_ends(int(starts.min())) > self._passed_ms:
            self._wait(starts, rows)
            return
        grid, last_kept_ms = self._grid, self._passed_ms - self._lateness_ms
        gone = self._are_gone(starts, last_kept_ms)
        behind = ~gone & (grid.first_ends(starts) <= self._passed_ms)
        on_time = np.flatnonzero(~(gone | behind))
        if len(on_time):
            self._wait(starts[on_time], rows.take(on_time))
        if behind.any():
            self._add_all_behind(np.flatnonzero(behind), starts, rows)
        late = np.flatnonzero(gone & (stamps <= last_kept_ms))
        if len(late):
            self._part_with(batch, late)
        self._flush()

    def process_marked(self, batch: Batch, reach: Reach) -> int | None:
        """Add a batch that has watermarks between its records.

        Each of them tells which records are late. But it needs to be there, for windows to fire, only before a record
        of which it has a window fire and another not; all others are added at once, before the last watermark.
        """
        stamps = stamps_of(batch)
        if not self._event_time or stamps is None:
            process_whole(self, batch, reach)
            return None
        assert batch.marks is not None
        marks, plain, count = batch.marks, batch.unmarked(), len(batch)
        before = marks.positions[-1]
        stamps = stamps[:before]
        starts, seen = self._grid.starts(stamps), seen_by_each(marks, before, self._passed_ms)
        last_kept_ms = np.maximum(seen, MIN_TIMESTAMP + self._lateness_ms) - self._lateness_ms
        gone = self._are_gone(starts, last_kept_ms)
        late = gone & (stamps <= last_kept_ms)
        behind = ~gone & (self._grid.first_ends(starts) <= seen)
        start = 0
        for index in _marks_before(marks, np.flatnonzero(behind)):
            stop = marks.positions[index]
            self._process_some(plain.cut(start, stop), gone[start:stop], late[start:stop])
            if not reach(marks.watermarks[index]):
                return index
            start = stop
        self.process(plain.cut(start, count))
        return None

    def _process_some(self, batch: Batch, gone: Any, late: Any) -> None:
        """Add a batch of which some records are in no window any more, or late, by watermarks between them."""
        if late.any():
            self._part_with(batch, np.flatnonzero(late))
        self.process(taken(batch, np.flatnonzero(~gone)) if gone.any() else batch)

    def _are_gone(self, starts: Any, last_kept_ms: Any) -> Any:
        """Return whether no window of a slice is kept, or no window is there."""
        ends = self._grid.last_ends(starts)
        return (ends <= last_kept_ms) | (ends < starts)

    def _wait(self, starts: Any, rows: KeyedRows) -> None:
        """Let rows wait of which no window has ended."""
        # Not behind a batch that is large: a watermark that follows may let most of its rows fire at once.
        if self._waiting.count >= _MOST_WAITING or not self._waiting.takes(rows):
            self._put_into_slices()
        self._waiting.add(starts, rows)
        self._waiting_due_ms = min(self._waiting_due_ms, self._grid.first_ends(int(starts.min())))

    def _take_waiting(self, chosen: Callable[[Any], Any]) -> tuple[Any, KeyedRows] | None:
        """Take some of the rows that wait, if there are any; the others wait on.

        Args:
            chosen: Tells by the starts of the slices which rows.
        """
        starts, rows = self._waiting.take()
        self._waiting_due_ms = _NEVER
        are_chosen = chosen(starts)
        if are_chosen.all():
            return starts, rows
        now, later = np.flatnonzero(are_chosen), np.flatnonzero(~are_chosen)
        self._wait(starts[later], rows.take(later))
        return (starts[now], rows.take(now)) if len(now) else None

    def _put_into_slices(self, until_ms: int = MAX_TIMESTAMP, newest: int = MAX_TIMESTAMP) -> None:
        """Put rows that wait into their slices: of windows that end until a time, of slices up to one."""
        if self._waiting_due_ms > until_ms:
            return
        first_ends = self._grid.first_ends
        taken = self._take_waiting(lambda starts: (first_ends(starts) <= until_ms) & (starts <= newest))
        if taken is not None:
            starts, rows = taken
            for start, places in _runs(starts):
                self._add_rows(start, places, rows)

    def _make_ready(self, passed_ms: int) -> None:
        """Put rows that wait for windows of a time that is to pass into slices, but those that fire without."""
        if self._lateness_ms or not self._grid.tumbles:
            self._put_into_slices(passed_ms)
        elif self._slices:
            self._put_into_slices(passed_ms, max(self._slices))

    def _pass(self, passed_ms: int) -> None:
        self._make_ready(passed_ms)
        super()._pass(passed_ms)

    def _pass_some(self, passed_ms: int) -> bool:
        self._make_ready(passed_ms)
        if self._waiting_due_ms <= passed_ms and not self.context.budget.take(1, "windows"):
            return False
        return super()._pass_some(passed_ms)

    def _fire_waiting(self, passed_ms: int) -> None:
        """Take the results of windows of which all rows wait, all at once.

        Keys are looked up nowhere: equal ones of these rows are put together, and named by their first row.
        """
        last = self._grid.size_ms - 1
        taken = self._take_waiting(lambda starts: starts + last <= passed_ms)
        if taken is None:
            return
        starts, rows = taken
        keys = [plain(key) for key in rows.keys]
        # NaNs are one key, and only an index knows.
        has_floats = any(pa.types.is_floating(key.type) for key in keys)
        numbers = None if has_floats else numbered([*keys, pa.array(starts)])
        if numbers is None:
            index = Groups([WINDOW_START, *self._spec.keys], [])
            numbers = index.add([pa.array(starts), *keys], [])
        groups = Groups([WINDOW_START], self._aggregates)
        groups.learn((None, self._kinds.kinds[1]))
        slots = groups.add_rows(rows._replace(keys=[pa.array(numbers)]))
        self._kinds.learn(([key.type for key in keys], groups.kinds[1]))
        first = np.empty(len(groups), np.int64)
        first[slots[::-1]] = np.arange(len(slots))[::-1]
        windows = starts[first]
        order = np.argsort(windows, kind="stable")
        kinds = self._kinds.kinds[0]
        assert kinds is not None, "types that were just learnt"
        for begin in range(0, len(order), _PORTION):
            portion = order[begin : begin + _PORTION]
            places = pa.array(first[portion])
            columns = [key.take(places).cast(kind) for key, kind in zip(keys, kinds, strict=True)]
            self._add_results(windows[portion], [*columns, *groups.columns(portion)[1:]])

    def _stamps(self, batch: Batch) -> Any:
        if not self._event_time:
            # A clock that was set back does not reopen windows.
            return np.full(len(batch), max(self.context.time.now_ms, self._passed_ms + 1))
        stamps = stamps_of(batch)
        if stamps is None:
            raise no_timestamp((batch.to_rows() if isinstance(batch, Columns) else batch).values[0])
        return stamps

    def _ending_after(self, start: int, time_ms: int) -> list[int]:
        """Return the windows of a slice whose last millisecond is behind a time, the newest first."""
        size = self._grid.size_ms
        return [window for window in self._grid.windows_of(start) if window + size - 1 > time_ms]

    def _add_all_behind(self, places: Any, starts: Any, rows: KeyedRows) -> None:
        """Add records of which some windows have ended: to the others, and to those that are kept and fire again."""
        self._put_into_slices()
        again: list[tuple[int, int, list[int]]] = []
        for start, of_slice in _runs(starts[places]):
            kept = self._ending_after(start, self._passed_ms - self._lateness_ms)
            fired = kept[len(self._ending_after(start, self._passed_ms)) :]
            if fired:
                again += [(place, start, fired) for place in places[of_slice].tolist()]
            else:
                self._add_rows(start, places[of_slice], rows)
        for place, start, fired in sorted(again):
            self._add_behind(start, place, fired, rows)

    def _add_behind(self, start: int, place: int, fired: list[int], rows: KeyedRows) -> None:
        """Add one record of which windows have fired that are kept: they fire again, for its key."""
        slot = self._add_rows(start, np.array([place]), rows)
        keys = self._slices[start].groups.keys(slot)
        for window in fired:
            self._fire(window, keys)

    def _add_rows(self, start: int, places: Any, rows: KeyedRows) -> Any:
        self._running.touch(start)
        held = self._slice(start)
        slots = held.groups.add_rows(rows.take(places) if len(places) < len(rows.keys[0]) else rows)
        held.touched.note(slots, len(held.groups))
        return slots

    def _make_groups(self) -> Groups:
        return Groups(self._spec.keys, self._aggregates)

    def _slice(self, start: int) -> _Slice:
        held = self._slices.get(start)
        if held is None:
            held = self._slices[start] = _Slice(self._make_groups(), known=self._known)
            self._plan(start)
        return held

    def _plan(self, start: int) -> None:
        """Plan the windows of a new slice."""
        passed_ms, size = self._passed_ms, self._grid.size_ms
        for window in self._grid.windows_of(start):
            last_ms = window + size - 1
            if window in self._windows or last_ms + self._lateness_ms <= passed_ms:
                continue
            self._windows.add(window)
            if last_ms > passed_ms:
                self._due.add(last_ms, window, DueTimes.FIRE)
            else:
                self._due.add(last_ms + self._lateness_ms, window, DueTimes.CLEAN_UP)

    def _part_with(self, batch: Batch, late: Any) -> None:
        """Hand late records to their side output, or count them."""
        if is_combined(batch):  # with a side output it is from a checkpoint of a program that had none
            self._late_dropped += int(records_of_each(batch)[late].sum())
        elif self._spec.late_tag_id is None:
            self._late_dropped += len(late)
        else:
            self.output.emit_side(self._spec.late_tag_id, taken(batch, late))

    def next_due(self) -> int | None:
        """Return when the next window that has slices is due, or None."""
        return self._due.next()

    def next_processing_time(self) -> int | None:
        """Return when the next window by the clock fires."""
        due_ms = super().next_processing_time()
        if self._event_time or self._waiting_due_ms == _NEVER:
            return due_ms
        return self._waiting_due_ms + 1 if due_ms is None else min(due_ms, self._waiting_due_ms + 1)

    def _advance(self, passed_ms: int) -> None:
        for window, what in self._due.pop_due(passed_ms):
            if what == DueTimes.FIRE:
                self._fire(window)
                if self._lateness_ms:
                    clean_up_ms = window + self._grid.size_ms - 1 + self._lateness_ms
                    self._due.add(clean_up_ms, window, DueTimes.CLEAN_UP)
                    continue
            self._clean_up(window)
        if self._waiting_due_ms <= passed_ms:
            self._fire_waiting(passed_ms)

    def _clean_up(self, window: int) -> None:
        """Forget a window, and the slices of which it was the last."""
        self._windows.discard(window)
        for start in self._grid.slices_of(window):
            if start in self._slices and self._grid.windows_of(start)[0] == window:
                self._kinds.learn(self._slices.pop(start).groups.kinds)
                self._ended_slices.add(start)

    def _flush(self) -> None:
        """Hand on what fired."""
        if not self._results:
            return
        results, stamps = self._results, self._result_stamps
        self._results, self._result_stamps, self._result_count = [], [], 0
        self.output.emit(Columns(_concat(results), pa.array(np.concatenate(stamps))))

    def _fire(self, window: int, keys: list[Any] | None = None) -> None:
        """Take the results of a window, of all its keys or of some; hand them on as soon as they are a portion."""
        slices = self._slices_of(window)
        if keys is None:
            groups = self._running.window(slices)
            slots = groups.every()
        else:
            groups = self._make_groups()
            for _, held in slices:
                groups.merge(held)
            slots = groups.slots_of(keys)
        for first in range(0, len(slots), _PORTION):
            self._take_results(window, groups, slots[first : first + _PORTION])

    def _slices_of(self, window: int) -> list[tuple[int, Groups]]:
        """Return the slices of a window that have records, in order of time."""
        starts = self._grid.slices_of(window)
        return [(start, self._slices[start].groups) for start in starts if start in self._slices]

    def _take_results(self, window: int, groups: Groups, slots: Any) -> None:
        self._add_results(np.full(len(slots), window), groups.columns(slots))

    def _add_results(self, windows: Any, columns: Sequence[pa.Array]) -> None:
        """Add results, to be handed on with the next portion.

        Args:
            windows: The start of each one's window.
            columns: Key columns, then the aggregates.
        """
        keys, ends = len(self._spec.keys), windows + self._grid.size_ms
        columns = [*columns[:keys], pa.array(windows), pa.array(ends), *columns[keys:]]
        self._results.append(pa.RecordBatch.from_arrays(columns, self._names))
        self._result_stamps.append(ends - 1)
        self._result_count += len(windows)
        if self._result_count >= _PORTION:
            self._flush()
            self._pace.pause()

    def end_epoch(self, report: OperatorReport, *, checkpoint: bool) -> None:
        """Report how many late records were dropped in the epoch, and how many came combined."""
        report_combined(report, self._combined)
        self._combined = 0
        if self._late_dropped:
            counters = report.counters
            counters[LATE_RECORDS_DROPPED] = counters.get(LATE_RECORDS_DROPPED, 0) + self._late_dropped
            self._late_dropped = 0

    def snapshot_state(self) -> tuple[int, Kinds]:
        """Return the time passed, by which it is known which windows had fired, and the types of what is kept."""
        self._put_into_slices()
        for held in self._slices.values():
            self._kinds.learn(held.groups.kinds)
        return self._passed_ms, self._kinds.kinds

    def restore_state(self, snapshot: tuple[int, Kinds], scope: RestoreScope) -> None:
        """Take over time and types."""
        passed_ms, kinds = snapshot
        self._restore_time(passed_ms)
        self._kinds.learn(kinds)

    def snapshot_entries(self) -> Iterator[OwnEntries]:
        """Return what each key has, by start of the slice."""
        self._put_into_slices()
        for start, held in self._slices.items():
            groups, every = held.groups, held.groups.every()
            yield SLICES, start, zip(groups.keys(every), groups.entries(every), strict=True)

    def changed_entries(self, changes: StateChanges) -> bool:
        """Add what keys have that came since the last checkpoint, and the slices that are gone."""
        self._put_into_slices()
        changed = [(start, held, held.touched.slots()) for start, held in self._slices.items()]
        total = sum(len(held.groups) for held in self._slices.values())
        if not self._known or not pays(sum(len(slots) for _, _, slots in changed), total):
            return False
        if self._ended_slices:
            changes.dropped[SLICES] = sorted(self._ended_slices)
        for start, held, slots in changed:
            for key, entry in zip(held.groups.keys(slots), held.groups.entries(slots), strict=True):
                changes.put(SLICES, start, key, entry)
        return True

    def forget_changes(self) -> None:
        """Take the slices as they are as known."""
        self._known = True
        self._ended_slices.clear()
        for held in self._slices.values():
            held.touched.forget()

    def restore_entries(self, name: str, entries: Entries) -> None:
        """Take over what keys have."""
        by_start: dict[int, list[tuple[Any, Any]]] = {}
        for start, key, entry in entries:
            by_start.setdefault(start, []).append((key, entry))
        for start, held in by_start.items():
            groups = self._slice(start).groups
            groups.learn(self._kinds.kinds)
            groups.restore([key for key, _ in held], [entry for _, entry in held])


def _runs(starts: Any) -> Iterator[tuple[int, Any]]:
    """Yield each slice with its rows, in order of time."""
    first = int(starts[0])
    if (starts == first).all():
        yield first, np.arange(len(starts))
        return
    order = np.argsort(starts, kind="stable")
    sorted_starts = starts[order]
    bounds = np.flatnonzero(np.diff(sorted_starts)) + 1
    for rows in np.split(order, bounds):
        yield int(starts[rows[0]]), rows


def _marks_before(marks: Marks, rows: Any) -> list[int]:
    """Return the index of the watermark before each of some rows, if there is one, and that of the last of all."""
    indices = np.searchsorted(np.asarray(marks.positions, np.int64), rows, side="right") - 1
    return sorted({*indices[indices >= 0].tolist(), len(marks.positions) - 1})


def _concat(batches: list[pa.RecordBatch]) -> pa.RecordBatch:
    """Return batches as one; a column of which one has only nulls so far has the type that others have."""
    if len(batches) == 1:
        return batches[0]
    tables = [pa.Table.from_batches([batch]) for batch in batches]
    return pa.concat_tables(tables, promote_options="permissive").combine_chunks().to_batches()[0]
