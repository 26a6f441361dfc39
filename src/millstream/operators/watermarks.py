"""Timestamps and watermarks: the logic of one split, and the operator that adds it anywhere in a graph.

Periodic generators emit at the end of each source range of an epoch, punctuated ones exactly where they
emitted::

    records     a  b  c | d  e          | = a punctuated watermark
    emitted    [a  b  c | d  e] P       P = the periodic one, at the range's end

Those between records are columns of their batch (`spi.batch.Marks`): a generator that emits at each record costs a
call for each, and what is behind it still sees whole batches.

In batch mode timestamps are assigned and generators are ignored: the only watermark is the final one.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from copy import deepcopy
from dataclasses import dataclass
from itertools import repeat
from operator import countOf
from typing import Any

from millstream.base.errors import TypeMismatchError, shorten
from millstream.base.time import MAX_TIMESTAMP, MIN_TIMESTAMP
from millstream.common.watermark_strategy import (
    BoundedOutOfOrderness,
    FieldTimestamps,
    WatermarkGenerator,
    WatermarkOutput,
    WatermarkStrategy,
)
from millstream.operators.base import EpochTime, Operator, OperatorReport, OperatorSpec, Output, RestoreScope
from millstream.operators.column_times import largest_of, latest_in, times_of
from millstream.operators.column_watermarks import ColumnWatermarks
from millstream.operators.plain_functions import is_plain, overlooks
from millstream.operators.split_time import SplitTime
from millstream.operators.user_code import apply_to_each, attach_element
from millstream.operators.values import all_immutable, claim
from millstream.spi.batch import ACTIVE, IDLE, Batch, Columns, Marks, Rows, StreamStatus

__all__ = ["SplitWatermarks", "WatermarksSpec"]


class _Bounded(WatermarkGenerator):
    """Trails the largest timestamp; `SplitWatermarks` sees whole batches, so `on_event` is not called.

    Attributes:
        each_record: Whether there is a watermark behind each record that is the latest so far.
    """

    def __init__(self, bound_ms: int, *, each_record: bool) -> None:
        self.each_record = each_record
        self._behind = bound_ms + 1
        self._max_ms = MIN_TIMESTAMP + self._behind

    def see(self, largest_ms: int) -> None:
        if largest_ms > self._max_ms:
            self._max_ms = largest_ms

    def latest(self, stamps: list[int]) -> Iterator[tuple[int, int]]:
        """Yield each place behind a record that is the latest so far, with its timestamp."""
        latest_ms = self._max_ms
        for place, stamp in enumerate(stamps, 1):
            if stamp > latest_ms:
                latest_ms = stamp
                yield place, stamp

    def latest_of(self, timestamps: Any) -> Iterator[tuple[int, int]]:
        """Yield the same of a column."""
        return zip(*latest_in(timestamps, self._max_ms), strict=True)

    def on_event(self, value: Any, timestamp_ms: int, output: WatermarkOutput) -> None:
        self.see(timestamp_ms)

    def on_periodic_emit(self, output: WatermarkOutput) -> None:
        output.emit_watermark(self._max_ms - self._behind)

    def go_on_from(self, other: _Bounded) -> None:
        """Take over how far another one came; the bound stays."""
        self._max_ms = max(other._max_ms, MIN_TIMESTAMP + self._behind)


class SplitWatermarks(WatermarkOutput):
    """Stamps the records of one split and knows its watermark; the subtask's thread calls it.

    Args:
        strategy: How.
        time: Processing time.
        split_id: Names the split.
        sequential: Whether its subtask reads other splits only after it.

    Attributes:
        watermark_ms: The split's watermark.
        max_timestamp_ms: Largest timestamp seen, -2**63 before the first.
        idle: Whether nobody waits for the split: it was silent for the idle timeout, or its generator said so.
    """

    def __init__(
        self, strategy: WatermarkStrategy, time: EpochTime, split_id: str = "", *, sequential: bool = False
    ) -> None:
        self.watermark_ms = MIN_TIMESTAMP
        self.max_timestamp_ms = MIN_TIMESTAMP
        self.idle = False
        self._assigner = strategy.timestamp_assigner
        self._plain = self._assigner is None or (
            isinstance(self._assigner, FieldTimestamps) or is_plain(self._assigner.extract_timestamp)
        )
        self._generator = _build_generator(strategy)
        self._begun_as = _settings_of(self._generator)
        self._overlooked = self._generator is None or overlooks(self._generator.on_event, 0)
        self._idle_timeout_ms = strategy.idle_timeout_ms
        self._time = time
        self._split_id = split_id
        self._sequential = sequential
        self._silent_since_ms = time.now_ms
        self._last_record_ms: int | None = None
        self._advanced_ms: int | None = None
        self._stamped: bool | None = None
        self._told: SplitTime | None = None

    def emit_watermark(self, timestamp_ms: int) -> None:
        """Take a watermark from the generator; one that does not advance is ignored."""
        if timestamp_ms > self.watermark_ms:
            self.watermark_ms = timestamp_ms
            self._advanced_ms = self._time.now_ms
            self.idle = False

    def mark_idle(self) -> None:
        """Take from the generator that nobody is to wait."""
        self.idle = True

    def mark_active(self) -> None:
        """Take from the generator that the split counts again."""
        self.idle = False
        self._silent_since_ms = self._time.now_ms

    def process(
        self,
        batch: Batch,
        output: Output,
        advanced: Callable[[], int | None],
    ) -> None:
        """Stamp a batch and hand it on, with the watermarks that the generator emits between its records.

        Records without timestamps stay so, and their watermark does not advance.

        Args:
            batch: The records, with the timestamps that they had before, or None.
            output: Gets the batch.
            advanced: Called after a record when `watermark_ms` has advanced; returns the watermark to hand on there,
                or None.
        """
        if not len(batch):
            return
        self._last_record_ms = self._silent_since_ms = self._time.now_ms
        self.idle = False
        if isinstance(self._generator, ColumnWatermarks):
            self._process_columns(self._generator, batch, output, advanced)
            return
        columns = self._stamped_columns(batch) if type(batch) is Columns else None
        if columns is None:
            self._process_rows(batch.to_rows(), output, advanced)
            return
        if columns.timestamps is not None:
            self.max_timestamp_ms = max(self.max_timestamp_ms, largest_of(columns.timestamps))
        self._stamped = columns.timestamps is not None
        if isinstance(self._generator, _Bounded):
            if self._generator.each_record and columns.timestamps is not None:
                latest = self._generator.latest_of(columns.timestamps)
                columns.marks = self._marks(self._generator, latest, advanced)
            self._generator.see(self.max_timestamp_ms)
        output.emit(columns)

    def _process_columns(
        self,
        generator: ColumnWatermarks,
        batch: Batch,
        output: Output,
        advanced: Callable[[], int | None],
    ) -> None:
        """Hand a batch on as columns, then the watermark behind it; its records keep the timestamps they had."""
        columns = Columns.from_rows(batch) if isinstance(batch, Rows) else batch
        latest_ms, watermark_ms = generator.times_of(columns)
        self._stamped = latest_ms is not None
        if latest_ms is not None:
            self.max_timestamp_ms = max(self.max_timestamp_ms, latest_ms)
        output.emit(columns)
        if watermark_ms is not None:
            self.emit_watermark(watermark_ms)
            watermark_ms = advanced()
            if watermark_ms is not None:
                output.emit_watermark(watermark_ms)

    def _stamped_columns(self, batch: Columns) -> Columns | None:
        """Return columns with their timestamps; None if somebody has to see the records one by one."""
        if self._generator is not None and not isinstance(self._generator, _Bounded):
            return None
        if self._assigner is None:
            return batch
        if not isinstance(self._assigner, FieldTimestamps):
            return None
        stamps = times_of(batch, self._assigner.field)
        return None if stamps is None else Columns(batch.data, stamps, batch.kinds)

    def _process_rows(self, batch: Rows, output: Output, advanced: Callable[[], int | None]) -> None:
        values, timestamps = batch.values, batch.timestamps
        stamps = timestamps if self._assigner is None else self._extract(values, timestamps)
        self._stamped = stamps is not None
        if stamps is not None:
            self.max_timestamp_ms = max(self.max_timestamp_ms, max(stamps))
        if not self._plain:
            claim(values)
        if self._generator is None or isinstance(self._generator, _Bounded):
            batch.timestamps = stamps
            if self._generator is not None:
                if self._generator.each_record and stamps is not None:
                    batch.marks = self._marks(self._generator, self._generator.latest(stamps), advanced)
                self._generator.see(self.max_timestamp_ms)
            output.emit(batch)
            return
        marks = self._ask(self._generator, values, stamps, advanced)
        output.emit(Rows(values, stamps, marks if marks.positions else None))

    def _marks(
        self, generator: _Bounded, latest: Iterable[tuple[int, int]], advanced: Callable[[], int | None]
    ) -> Marks | None:
        """Return the watermarks to be handed on behind the latest records of a batch; None if there are none."""
        marks = Marks([], [])
        for place, stamp in latest:
            generator.see(stamp)
            generator.on_periodic_emit(self)
            watermark_ms = advanced()
            if watermark_ms is not None:
                marks.positions.append(place)
                marks.watermarks.append(watermark_ms)
        return marks if marks.positions else None

    def _ask(
        self,
        generator: WatermarkGenerator,
        values: list[Any],
        stamps: list[int] | None,
        advanced: Callable[[], int | None],
    ) -> Marks:
        """Show the generator each record; return the watermarks that are to be handed on behind them."""
        on_event, before = generator.on_event, self.watermark_ms
        keeps = not self._overlooked and not all_immutable(values)
        positions: list[int] = []
        watermarks: list[int] = []
        position = 0
        try:
            for position, stamp in zip(
                range(len(values)), repeat(MIN_TIMESTAMP) if stamps is None else stamps, strict=False
            ):
                on_event(values[position], stamp, self)
                if keeps:  # before it sees the next one: it may change this one then
                    shown, values[position] = [values[position]], None
                    values[position] = claim(shown)[0]
                if self.watermark_ms != before:
                    before = self.watermark_ms
                    watermark_ms = advanced()
                    if watermark_ms is not None:
                        positions.append(position + 1)
                        watermarks.append(watermark_ms)
        except BaseException as error:
            attach_element(error, values[position])
            raise
        return Marks(positions, watermarks)

    def end_range(self) -> None:
        """Let a periodic generator emit."""
        if self._generator is not None:
            self._generator.on_periodic_emit(self)

    def hold(self) -> None:
        """Learn that the split is held back on purpose: its silence does not count."""
        self._silent_since_ms = self._time.now_ms

    def check_idle(self) -> bool:
        """Return whether nobody is to wait for the split now."""
        timeout_ms = self._idle_timeout_ms
        if timeout_ms is not None and self._time.now_ms - self._silent_since_ms >= timeout_ms:
            self.idle = True
        return self.idle

    def idle_at_ms(self) -> int | None:
        """Return when the split will be idle if nothing comes; None if it is already, or never will be."""
        if self._idle_timeout_ms is None or self.idle:
            return None
        return self._silent_since_ms + self._idle_timeout_ms

    def tell(self, *, finished: bool = False) -> Sequence[SplitTime]:
        """Return the split's event time if it is not what was told last; else nothing."""
        told = SplitTime(
            self._split_id,
            self.watermark_ms,
            self.max_timestamp_ms,
            self._last_record_ms,
            self._advanced_ms,
            self.idle,
            self._stamped,
            self._sequential,
            finished,
        )
        if told == self._told:
            return ()
        self._told = told
        return (told,)

    def snapshot(self) -> Any:
        """Return how far event time has come, picklable."""
        kept = None if isinstance(self._generator, ColumnWatermarks) else self._generator
        return self.watermark_ms, self.max_timestamp_ms, kept, self._begun_as

    def restore(self, snapshot: Any) -> None:
        """Go on from a snapshot; a generator of another class, or with other settings, than then begins anew."""
        self.watermark_ms, self.max_timestamp_ms, generator, begun_as = snapshot
        if type(generator) is not type(self._generator):
            return
        if isinstance(self._generator, _Bounded) and isinstance(generator, _Bounded):
            self._generator.go_on_from(generator)
        elif begun_as == self._begun_as:
            self._generator = generator

    def _extract(self, values: list[Any], timestamps: list[int] | None) -> list[int]:
        assert self._assigner is not None
        numbers = self._assigner.numbers_of(values) if isinstance(self._assigner, FieldTimestamps) else None
        if numbers is not None:
            return numbers
        stamps = apply_to_each(self._assigner.extract_timestamp, values, timestamps or repeat(MIN_TIMESTAMP))
        if countOf(map(type, stamps), int) != len(stamps):
            stamps = [_as_timestamp(stamp, value) for stamp, value in zip(stamps, values, strict=True)]
        return stamps


def _as_timestamp(stamp: Any, value: Any) -> int:
    if isinstance(stamp, (int, float)) and not isinstance(stamp, bool):
        return int(stamp)
    raise TypeMismatchError(
        f"the timestamp assigner returned {shorten(stamp)} for {shorten(value)}",
        hint="Return event time as an int, in epoch milliseconds.",
    )


def _build_generator(strategy: WatermarkStrategy) -> WatermarkGenerator | None:
    generator = strategy.generator
    if generator is None:
        return None
    if isinstance(generator, BoundedOutOfOrderness):
        return _Bounded(generator.bound_ms, each_record=generator.each_record)
    built = generator()
    if not isinstance(built, WatermarkGenerator):
        raise TypeMismatchError(
            f"the factory of watermark generators returned {shorten(built)}",
            hint="Derive the generator from WatermarkGenerator, with on_event and on_periodic_emit.",
        )
    return built


def _settings_of(generator: WatermarkGenerator | None) -> dict[str, Any] | None:
    """Return what a new generator holds; None if that cannot be said."""
    if generator is None or isinstance(generator, (_Bounded, ColumnWatermarks)):
        return None
    try:
        return deepcopy(vars(generator))
    except Exception:  # noqa: BLE001 - any object may refuse in any way; checkpoints tell if it cannot be pickled
        return None


@dataclass(frozen=True)
class WatermarksSpec(OperatorSpec):
    """Declares `assign_timestamps_and_watermarks`."""

    strategy: WatermarkStrategy
    takes_columns = True

    @property
    def watermark_strategy(self) -> WatermarkStrategy:
        """The strategy."""
        return self.strategy

    def build(self) -> Operator:
        """Make the running half."""
        return WatermarksOperator(self.strategy)


class WatermarksOperator(Operator):
    """Stamps records and makes watermarks; those that come in are ignored, but for the final one.

    Unlike in Flink, generators are part of checkpoints, so what is late does not depend on failures.
    """

    def __init__(self, strategy: WatermarkStrategy) -> None:
        self._strategy = strategy
        self._status: StreamStatus = ACTIVE
        self._told_ms = MIN_TIMESTAMP
        self._restored: Any = None

    def open(self) -> None:
        """Start with one split."""
        strategy = self._strategy.without_watermarks() if self.context.batch else self._strategy
        self._split = SplitWatermarks(strategy, self.context.time)
        if self._restored is not None:
            self._split.restore(self._restored)

    @property
    def wants_columns(self) -> bool:
        """Whether who reads it does best with columns."""
        return self.output.wants_columns

    def snapshot_state(self) -> Any:
        """Return how far event time has come."""
        return self._split.snapshot()

    def restore_state(self, snapshot: Any, scope: RestoreScope) -> None:
        """Go on from there; of several old subtasks from the one that is furthest behind."""
        if self._restored is None or snapshot[0] < self._restored[0]:
            self._restored = snapshot

    def process(self, batch: Batch) -> None:
        """Stamp a batch."""
        if len(batch):
            self._set_status(ACTIVE)
        self._split.process(batch, self.output, self._take_watermark)

    def process_watermark(self, timestamp_ms: int) -> None:
        """Hand on the final watermark only."""
        if timestamp_ms == MAX_TIMESTAMP and self.watermark_ms != MAX_TIMESTAMP:
            self._set_status(ACTIVE)
            self.watermark_ms = timestamp_ms
            self.output.emit_watermark(timestamp_ms)

    def process_status(self, status: StreamStatus) -> None:
        """Ignore it: this operator judges idleness itself."""

    def next_processing_time(self) -> int | None:
        """Return when the stream will be idle."""
        return None if self.watermark_ms == MAX_TIMESTAMP else self._split.idle_at_ms()

    def end_epoch(self, report: OperatorReport, *, checkpoint: bool) -> None:
        """Emit the periodic watermark."""
        finished = self.watermark_ms == MAX_TIMESTAMP
        if not finished:
            self._split.end_range()
            self._advance()
            self._set_status(IDLE if self._split.check_idle() else ACTIVE)
        if self._split.max_timestamp_ms != MIN_TIMESTAMP:
            report.max_timestamp_ms = self._split.max_timestamp_ms
        report.splits.extend(self._split.tell(finished=finished))
        if self.watermark_ms != self._told_ms:
            report.made_watermark_ms = self._told_ms = self.watermark_ms

    def _advance(self) -> None:
        watermark_ms = self._take_watermark()
        if watermark_ms is not None:
            self._set_status(ACTIVE)
            self.output.emit_watermark(watermark_ms)

    def _take_watermark(self) -> int | None:
        """Return the watermark if it has advanced: it is handed on then."""
        if self._split.watermark_ms <= self.watermark_ms:
            return None
        self.watermark_ms = self._split.watermark_ms
        return self.watermark_ms

    def _set_status(self, status: StreamStatus) -> None:
        if status is not self._status:
            self._status = status
            self.output.emit_status(status)
