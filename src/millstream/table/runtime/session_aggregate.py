"""Aggregates over sessions: rows of a key with no gap between them that is too long.

An epoch's rows and the sessions that their keys have are put in order of time; where one begins behind the end of all
before it, a session begins. Sessions that come to be one are put together::

    sessions   [----]        [---]
    rows          x   x  x          x        each is a session from its time to its time + gap
    now        [------------------]  [--]
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import numpy as np

from millstream.base.time import MAX_TIMESTAMP
from millstream.operators.base import OwnEntries
from millstream.state.snapshots import Entries, StateChanges
from millstream.state.touched import pays
from millstream.table.runtime.aggregates.table import AggregateTable
from millstream.table.runtime.epoch_operator import LATE_ROWS_DROPPED, Input
from millstream.table.runtime.growing import Lane
from millstream.table.runtime.key_slots import KeySlots
from millstream.table.runtime.multimap import Multimap
from millstream.table.runtime.ordering import stable_order
from millstream.table.runtime.touched import Touched
from millstream.table.runtime.window_base import WindowOperator

if TYPE_CHECKING:
    from millstream.table.runtime.aggregate_specs import WindowAggregateSpec

__all__ = ["SESSIONS", "SessionAggregateOperator"]

SESSIONS = "sessions"
"""Entries of sessions: key -> [(start, end, (rows, one part for each aggregate)), ...]."""

_LEAST_DEAD = 4_096


class SessionAggregateOperator(WindowOperator):
    """Keeps accumulators by session."""

    def __init__(self, spec: WindowAggregateSpec) -> None:
        super().__init__(spec)
        self._keys = KeySlots([self._input_kinds[place] for place in spec.keys])
        self._table = AggregateTable(spec.calls, spec.input, retracts=spec.retracts)
        self._key_of, self._starts, self._ends = (Lane(np.int64) for _ in range(3))
        self._live = Lane(bool, fill=False)
        self._count = 0
        self._of_key = Multimap()
        self._touched = Touched()
        self._next_ms = MAX_TIMESTAMP

    def open(self) -> None:
        """Open users' functions."""
        self._table.open(self.context)

    def close(self) -> None:
        """Close users' functions."""
        self._table.close()

    def work(self, inputs: list[Input | None]) -> None:
        """Add rows to sessions; rows behind a watermark that sessions may have ended at are taken by themselves."""
        (rows,) = inputs
        assert rows is not None
        rows, walls = self.timed(rows)
        if not rows.count:
            return
        if self._spec.processing or not isinstance(rows.seen, np.ndarray):
            self._add(rows, walls)
            return
        for mark in np.unique(rows.seen).tolist():
            self._fire_until(mark)
            places = np.flatnonzero(rows.seen == mark)
            self._add(rows.take(places), walls[places])

    def _add(self, rows: Input, walls: Any) -> None:
        keys = self._keys.of([rows.columns[place] for place in self._spec.keys], rows.count)
        touched = np.unique(keys)
        who, sessions = self._of_key.fetch(touched)
        there = self._live.array[sessions]
        owners, sessions = touched[who[there]], sessions[there]
        held = len(sessions)
        key_of = np.concatenate([owners, keys])
        starts = np.concatenate([self._starts.array[sessions], walls])
        ends = np.concatenate([self._ends.array[sessions], walls + self._spec.size_ms])
        group, first, last = _sessions(key_of, starts, ends)
        group_key = np.empty(len(first), np.int64)
        group_key[group] = key_of
        # The session that a group goes on in: the first of those that are there, else a new one.
        target = np.full(len(first), -1, np.int64)
        target[group[:held][::-1]] = sessions[::-1]
        kept = self._in_time(rows, group[held:], last, target)
        if kept is not None:
            rows, row_groups = rows.take(kept), group[held:][kept]
        else:
            row_groups = group[held:]
        used = np.zeros(len(first), bool)
        used[row_groups] = True
        fresh = np.flatnonzero(used & (target < 0))
        target[fresh] = self._open(group_key[fresh])
        self._join(sessions, target[group[:held]])
        grown = np.flatnonzero(target >= 0)
        self._starts.array[target[grown]] = first[grown]
        self._ends.array[target[grown]] = last[grown]
        self._table.add(target[row_groups], rows.weights, rows.columns)
        self._touched.note(touched, len(self._keys))
        if len(grown):
            self._next_ms = min(self._next_ms, int(self.last_instants(last[grown]).min()))

    def _in_time(self, rows: Input, groups: Any, ends: Any, target: Any) -> Any | None:
        """Return the places of rows that are not late; None if all are in time."""
        if self._spec.processing:
            return None
        seen = np.maximum(np.max(rows.seen), self.fired_ms)
        late = ((self.last_instants(ends) <= seen) & (target < 0))[groups]
        if not late.any():
            return None
        self.count(LATE_ROWS_DROPPED, int(np.count_nonzero(late)))
        return np.flatnonzero(~late)

    def _open(self, keys: Any) -> Any:
        """Return new sessions of keys."""
        start, self._count = self._count, self._count + len(keys)
        new = np.arange(start, self._count)
        for lane in (self._key_of, self._starts, self._ends, self._live):
            lane.reach(self._count)
        self._key_of.array[new] = keys
        self._live.array[new] = True
        self._of_key.append(keys, new)
        self._table.reach(self._count)
        return new

    def _join(self, sessions: Any, targets: Any) -> None:
        """Put sessions together with those that they go on in."""
        moved = sessions != targets
        sessions, targets = sessions[moved], targets[moved]
        if len(sessions):
            self._table.add_partials(targets, self._table.partials(sessions))
            self._table.clear(sessions)
            self._live.array[sessions] = False

    def fire(self, before_ms: int, time_ms: int) -> None:
        """Emit sessions that ended."""
        if self._next_ms > time_ms:
            return
        live = np.flatnonzero(self._live.array[: self._count])
        last_ms = self.last_instants(self._ends.array[live])
        due = last_ms <= time_ms
        gone = live[due]
        full = gone[self._table.rows.array[gone] > 0]
        self.hand_on(
            self._keys.columns(self._key_of.array[full]),
            self._table.results(full),
            self._starts.array[full],
            self._ends.array[full],
        )
        self._touched.note(self._key_of.array[gone], len(self._keys))
        self._table.clear(gone)
        self._live.array[gone] = False
        rest = last_ms[~due]
        self._next_ms = int(rest.min()) if len(rest) else MAX_TIMESTAMP

    def end_epoch(self, report: Any, *, checkpoint: bool) -> None:
        """End the epoch; now and then give back the room of sessions that are gone."""
        super().end_epoch(report, checkpoint=checkpoint)
        live = np.flatnonzero(self._live.array[: self._count])
        if self._count < _LEAST_DEAD or 2 * len(live) >= self._count:
            return
        self._table.keep(live)
        for lane in (self._key_of, self._starts, self._ends, self._live):
            lane.keep(live)
        self._count = len(live)
        self._of_key = Multimap()
        self._of_key.append(self._key_of.array[: self._count], np.arange(self._count))
        if checkpoint and len(self._keys) > _LEAST_DEAD:
            kept = np.unique(self._key_of.array[: self._count])
            if 2 * len(kept) < len(self._keys):
                self._renumber_keys(kept)

    def _renumber_keys(self, kept: Any) -> None:
        self._keys.keep(kept)
        self._key_of.array[: self._count] = np.searchsorted(kept, self._key_of.array[: self._count])
        self._of_key = Multimap()
        self._of_key.append(self._key_of.array[: self._count], np.arange(self._count))
        self._touched.begin_again()

    def next_processing_time(self) -> int | None:
        """Return when the next session ends by the clock."""
        return self._next_ms if self._spec.processing and self._next_ms != MAX_TIMESTAMP else None

    def snapshot_entries(self) -> Iterator[OwnEntries]:
        """Return the sessions of each key."""
        slots = np.unique(self._key_of.array[: self._count][self._live.array[: self._count]])
        yield SESSIONS, None, zip(self._keys.keys(slots), self._entries(slots), strict=True)

    def _entries(self, slots: Any) -> list[list[tuple[int, int, Any]]]:
        who, sessions = self._of_key.fetch(slots)
        there = self._live.array[sessions]
        who, sessions = who[there], sessions[there]
        entries: list[list[tuple[int, int, Any]]] = [[] for _ in range(len(slots))]
        for place, start, end, entry in zip(
            who.tolist(),
            self._starts.array[sessions].tolist(),
            self._ends.array[sessions].tolist(),
            self._table.entries(sessions),
            strict=True,
        ):
            entries[place].append((start, end, entry))
        return entries

    def changed_entries(self, changes: StateChanges) -> bool:
        """Add the sessions of keys that changed."""
        slots = self._touched.slots()
        if not self._touched.known or not pays(len(slots), len(self._keys)):
            return False
        for key, entry in zip(self._keys.keys(slots), self._entries(slots), strict=True):
            if entry:
                changes.put(SESSIONS, None, key, entry)
            else:
                changes.remove(SESSIONS, None, key)
        return True

    def forget_changes(self) -> None:
        """Take what is there as known."""
        self._touched.forget()

    def restore_entries(self, name: str, entries: Entries) -> None:
        """Take over the sessions of keys."""
        if not entries:
            return
        slots = self._keys.of_keys([key for _, key, _ in entries])
        flat = [session for _, _, sessions in entries for session in sessions]
        opened = self._open(np.repeat(slots, [len(sessions) for _, _, sessions in entries]))
        self._starts.array[opened] = [start for start, _, _ in flat]
        self._ends.array[opened] = [end for _, end, _ in flat]
        self._table.restore(opened, [entry for _, _, entry in flat])
        self._next_ms = min(self._next_ms, int(self.last_instants(self._ends.array[opened]).min()))


def _sessions(keys: Any, starts: Any, ends: Any) -> tuple[Any, Any, Any]:
    """Return the number of the session that each of some intervals is in, and starts and ends of sessions.

    Args:
        keys: The key of each interval.
        starts: Where it begins.
        ends: Where it ends; the next one may begin there.
    """
    order = stable_order([keys, starts])
    key_of, begin, end = keys[order], starts[order], ends[order]
    new_key = np.concatenate([[True], key_of[1:] != key_of[:-1]])
    # The largest end so far within each key: each key is lifted above the one before.
    segment = np.cumsum(new_key) - 1
    low = int(begin.min())
    span = int(end.max()) - low + 1
    reached = np.maximum.accumulate(end - low + segment * span) - segment * span + low
    fresh = new_key.copy()
    fresh[1:] |= begin[1:] > reached[:-1]
    number = np.cumsum(fresh) - 1
    first = begin[fresh]
    last = reached[np.concatenate([np.flatnonzero(fresh)[1:] - 1, [len(order) - 1]])]
    group = np.empty(len(order), np.int64)
    group[order] = number
    return group, first, last
