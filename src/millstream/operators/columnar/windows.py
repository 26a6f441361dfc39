"""Aggregates by expression over tumbling and sliding windows: one row for each key and window.

Windows, lateness and late records are those of the operators for rows (`operators/windowing/slices.py`): a record is
added to the one slice that it is in, a window that fires is made of its slices. Records of a batch are added slice by
slice, all at once; only a late record that makes a window fire again is taken by itself.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa

from millstream.base.errors import ConfigurationError
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
from millstream.operators.columnar.groups import Groups, Kinds
from millstream.operators.columnar.marks import seen_by_each
from millstream.operators.columnar.reading import ColumnReader, stamps_of, taken
from millstream.operators.columnar.running import RunningGroups
from millstream.operators.columnar.slices import SliceGrid
from millstream.operators.columnar.touched_slots import TouchedSlots
from millstream.operators.portions import Pace
from millstream.operators.windowing.assigners import no_timestamp
from millstream.operators.windowing.base import LATE_RECORDS_DROPPED, DueTimes
from millstream.operators.windowing.passing import PassingTime
from millstream.operators.windowing.slices import SLICES
from millstream.spi.batch import Batch, Columns
from millstream.state.snapshots import Entries, StateChanges
from millstream.state.touched import pays

__all__ = ["WINDOW_END", "WINDOW_START", "ColumnWindowSpec"]

WINDOW_START, WINDOW_END = "window_start", "window_end"
"""Names of the columns with a window's bounds, epoch milliseconds."""

_PORTION = 32_768


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
        self._kinds = self._make_groups()
        self._running = RunningGroups(self._make_groups)
        self._known = False
        self._late_dropped = 0
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
        columns = self._reader.read(batch)
        stamps = self._stamps(batch)
        late = np.zeros(len(stamps), bool)
        behind: list[tuple[int, int, list[int]]] = []
        for start, rows in _runs(self._grid.starts(stamps)):
            last_kept_ms = self._passed_ms - self._lateness_ms
            kept = self._ending_after(start, last_kept_ms)
            fired = kept[len(self._ending_after(start, self._passed_ms)) :]
            if not kept:
                late[rows] = stamps[rows] <= last_kept_ms
            elif fired:
                behind += [(row, start, fired) for row in rows.tolist()]
            else:
                self._add_rows(start, rows, columns)
        for row, start, fired in sorted(behind):
            self._add_behind(start, row, fired, columns)
        if late.any():
            self._part_with(batch, np.flatnonzero(late))
        self._flush()

    def process_marked(self, batch: Batch, reach: Reach) -> int | None:
        """Add a batch that has watermarks between its records.

        Where a record is in one window only, which is gone once it has fired, the watermarks tell nothing but which
        records are late: the others are added all at once, before the last watermark has windows fire.
        """
        stamps = stamps_of(batch)
        if not self._event_time or stamps is None or self._lateness_ms or not self._grid.tumbles:
            return super().process_marked(batch, reach)
        assert batch.marks is not None
        marks, plain, count = batch.marks, batch.unmarked(), len(batch)
        before = marks.positions[-1]
        last_ms = self._grid.starts(stamps[:before]) + self._grid.size_ms - 1
        late = last_ms <= seen_by_each(marks, before, self._passed_ms)
        head = plain.cut(0, before)
        if late.any():
            self._part_with(head, np.flatnonzero(late))
            head = taken(head, np.flatnonzero(~late))
        rest = self._fire_passing(head, marks.watermarks[-1])
        self.process(rest)
        self._flush()
        if len(rest) < len(head):
            # Windows have fired by this watermark, so it has to be there when the epoch ends: what is behind it might
            # be dealt anew, without the watermarks, and begin them once more.
            self.process_watermark(marks.watermarks[-1])
        elif not reach(marks.watermarks[-1]):
            return len(marks.watermarks) - 1
        self.process(plain.cut(before, count))
        return None

    def _fire_passing(self, batch: Batch, passed_ms: int) -> Batch:
        """Take the results of the windows that begin and end within a batch, all at once; return the other records.

        Args:
            batch: Records of which none is late.
            passed_ms: The watermark behind them.
        """
        if not len(batch):
            return batch
        starts = self._grid.starts(stamps_of(batch))
        passing = starts + self._grid.size_ms - 1 <= passed_ms
        passing &= ~np.isin(starts, np.fromiter(self._slices, np.int64, len(self._slices)))
        if not passing.any():
            return batch
        rows, count = np.flatnonzero(passing), len(self._spec.keys)
        columns = self._reader.read(taken(batch, rows))
        keys, kept = self._kinds.kinds
        groups = Groups([WINDOW_START, *self._spec.keys], self._aggregates)
        groups.learn((None if keys is None else [pa.int64(), *keys], kept))
        groups.add([pa.array(starts[rows]), *columns[:count]], columns[count:])
        keys, kept = groups.kinds
        assert keys is not None, "groups with records have keys"
        self._kinds.learn((keys[1:], kept))
        slots = groups.every()
        order = np.argsort(groups.columns(slots)[0].to_numpy(), kind="stable")
        for first in range(0, len(order), _PORTION):
            window, *rest = groups.columns(order[first : first + _PORTION])
            self._add_results(window.to_numpy(), rest)
        return taken(batch, np.flatnonzero(~passing))

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

    def _add_behind(self, start: int, row: int, fired: list[int], columns: list[Any]) -> None:
        """Add one record of which windows have fired that are kept: they fire again, for its key."""
        slot = self._add_rows(start, np.array([row]), columns)
        keys = self._slices[start].groups.keys(slot)
        for window in fired:
            self._fire(window, keys)

    def _add_rows(self, start: int, rows: Any, columns: list[Any]) -> Any:
        self._running.touch(start)
        held = self._slice(start)
        if len(rows) < len(next(column for column in columns if column is not None)):
            taken = pa.array(rows)
            columns = [None if column is None else column.take(taken) for column in columns]
        keys = len(self._spec.keys)
        slots = held.groups.add(columns[:keys], columns[keys:])
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
        if self._spec.late_tag_id is None:
            self._late_dropped += len(late)
        else:
            self.output.emit_side(self._spec.late_tag_id, taken(batch, late))

    def next_due(self) -> int | None:
        """Return when the next window is due, or None."""
        return self._due.next()

    def _advance(self, passed_ms: int) -> None:
        for window, what in self._due.pop_due(passed_ms):
            if what == DueTimes.FIRE:
                self._fire(window)
                if self._lateness_ms:
                    clean_up_ms = window + self._grid.size_ms - 1 + self._lateness_ms
                    self._due.add(clean_up_ms, window, DueTimes.CLEAN_UP)
                    continue
            self._clean_up(window)

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
        """Report how many late records were dropped in the epoch."""
        if self._late_dropped:
            counters = report.counters
            counters[LATE_RECORDS_DROPPED] = counters.get(LATE_RECORDS_DROPPED, 0) + self._late_dropped
            self._late_dropped = 0

    def snapshot_state(self) -> tuple[int, Kinds]:
        """Return the time passed, by which it is known which windows had fired, and the types of what is kept."""
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
        for start, held in self._slices.items():
            groups, every = held.groups, held.groups.every()
            yield SLICES, start, zip(groups.keys(every), groups.entries(every), strict=True)

    def changed_entries(self, changes: StateChanges) -> bool:
        """Add what keys have that came since the last checkpoint, and the slices that are gone."""
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


def _concat(batches: list[pa.RecordBatch]) -> pa.RecordBatch:
    """Return batches as one; a column of which one has only nulls so far has the type that others have."""
    if len(batches) == 1:
        return batches[0]
    tables = [pa.Table.from_batches([batch]) for batch in batches]
    return pa.concat_tables(tables, promote_options="permissive").combine_chunks().to_batches()[0]
