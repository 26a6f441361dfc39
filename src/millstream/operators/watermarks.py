"""Timestamps and watermarks: the logic of one split, and the operator that adds it anywhere in a graph.

Periodic generators emit at the end of each source range of an epoch, punctuated ones exactly where they
emitted::

    records     a  b  c | d  e          | = a punctuated watermark: the batch is cut there
    emitted    [a  b  c] W [d  e] P     P = the periodic one, at the range's end
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from itertools import repeat
from operator import length_hint
from typing import Any

from millstream.common.batch import ACTIVE, IDLE, StreamStatus
from millstream.common.errors import ConfigurationError, TypeMismatchError, shorten
from millstream.common.time import MAX_TIMESTAMP, MIN_TIMESTAMP
from millstream.common.watermark_strategy import (
    BoundedOutOfOrderness,
    WatermarkGenerator,
    WatermarkOutput,
    WatermarkStrategy,
)
from millstream.operators.base import Operator, OperatorReport, OperatorSpec
from millstream.operators.user_code import attach_element

__all__ = ["SplitWatermarks", "WatermarksSpec"]


class _Bounded(WatermarkGenerator):
    """Trails the largest timestamp; `SplitWatermarks` sees whole batches, so `on_event` is not called."""

    def __init__(self, bound_ms: int) -> None:
        self._behind = bound_ms + 1
        self._max_ms = MIN_TIMESTAMP + self._behind

    def see(self, largest_ms: int) -> None:
        if largest_ms > self._max_ms:
            self._max_ms = largest_ms

    def on_event(self, value: Any, timestamp_ms: int, output: WatermarkOutput) -> None:
        self.see(timestamp_ms)

    def on_periodic_emit(self, output: WatermarkOutput) -> None:
        output.emit_watermark(self._max_ms - self._behind)


class SplitWatermarks(WatermarkOutput):
    """Stamps the records of one split and knows its watermark; the subtask's thread calls it.

    Attributes:
        watermark_ms: The split's watermark.
        max_timestamp_ms: Largest timestamp seen, -2**63 before the first.
        idle: Whether the split has been silent for the idle timeout.
    """

    def __init__(self, strategy: WatermarkStrategy, now_ms: int) -> None:
        self.watermark_ms = MIN_TIMESTAMP
        self.max_timestamp_ms = MIN_TIMESTAMP
        self.idle = False
        self._assigner = strategy.timestamp_assigner
        self._generator = _build_generator(strategy)
        self._idle_timeout_ms = strategy.idle_timeout_ms
        self._last_record_ms = now_ms

    def emit_watermark(self, timestamp_ms: int) -> None:
        """Take a watermark from the generator; one that does not advance is ignored."""
        if timestamp_ms > self.watermark_ms:
            self.watermark_ms = timestamp_ms

    def process(
        self,
        values: list[Any],
        timestamps: list[int] | None,
        emit: Callable[[list[Any], list[int] | None], None],
        advanced: Callable[[], None],
        now_ms: int,
    ) -> None:
        """Stamp a batch and emit it, cut where the generator emits watermarks.

        Args:
            values: The records.
            timestamps: What they had before, or None.
            emit: Takes the stamped pieces.
            advanced: Called after a piece when `watermark_ms` has advanced.
            now_ms: The epoch's processing time.
        """
        if not values:
            return
        self._last_record_ms = now_ms
        self.idle = False
        stamps = timestamps if self._assigner is None else self._extract(values, timestamps)
        if stamps is None:
            if self._generator is not None:
                raise ConfigurationError(
                    f"watermarks are wanted of a stream whose records have no timestamp: {shorten(values[0])}",
                    hint="Add a timestamp assigner: strategy.with_timestamp_assigner(...).",
                )
            emit(values, None)
            return
        self.max_timestamp_ms = max(self.max_timestamp_ms, max(stamps))
        if self._generator is None or isinstance(self._generator, _Bounded):
            if self._generator is not None:
                self._generator.see(self.max_timestamp_ms)
            emit(values, stamps)
        else:
            self._cut(values, stamps, emit, advanced)

    def _cut(
        self,
        values: list[Any],
        stamps: list[int],
        emit: Callable[[list[Any], list[int] | None], None],
        advanced: Callable[[], None],
    ) -> None:
        assert self._generator is not None
        on_event, start = self._generator.on_event, 0
        before = self.watermark_ms
        for index, (value, stamp) in enumerate(zip(values, stamps, strict=True), start=1):
            try:
                on_event(value, stamp, self)
            except BaseException as error:
                attach_element(error, value)
                raise
            if self.watermark_ms != before:
                before = self.watermark_ms
                emit(values[start:index], stamps[start:index])
                advanced()
                start = index
        if start < len(values):
            emit(values[start:], stamps[start:])

    def end_range(self) -> None:
        """Let a periodic generator emit."""
        if self._generator is not None:
            self._generator.on_periodic_emit(self)

    def check_idle(self, now_ms: int) -> bool:
        """Return whether the split is idle at `now_ms`."""
        if self._idle_timeout_ms is not None and now_ms - self._last_record_ms >= self._idle_timeout_ms:
            self.idle = True
        return self.idle

    def idle_at_ms(self) -> int | None:
        """Return when the split will be idle if nothing comes; None if it is already, or never will be."""
        if self._idle_timeout_ms is None or self.idle:
            return None
        return self._last_record_ms + self._idle_timeout_ms

    def _extract(self, values: list[Any], timestamps: list[int] | None) -> list[int]:
        assert self._assigner is not None
        remaining = iter(values)
        try:
            stamps = list(
                map(self._assigner.extract_timestamp, remaining, timestamps or repeat(MIN_TIMESTAMP))
            )
        except BaseException as error:
            attach_element(error, values[len(values) - length_hint(remaining) - 1])
            raise
        if not all(type(stamp) is int for stamp in stamps):
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
        return _Bounded(generator.bound_ms)
    return generator()


@dataclass(frozen=True)
class WatermarksSpec(OperatorSpec):
    """Declares `assign_timestamps_and_watermarks`."""

    strategy: WatermarkStrategy

    def build(self) -> Operator:
        """Make the running half."""
        return WatermarksOperator(self.strategy)


class WatermarksOperator(Operator):
    """Stamps records and makes watermarks; those that come in are ignored, but for the final one."""

    def __init__(self, strategy: WatermarkStrategy) -> None:
        self._strategy = strategy
        self._status: StreamStatus = ACTIVE

    def open(self) -> None:
        """Start with one split."""
        self._split = SplitWatermarks(self._strategy, self.context.time.now_ms)

    def process_batch(self, values: list[Any], timestamps: list[int] | None) -> None:
        """Stamp a batch."""
        if values:
            self._set_status(ACTIVE)
        self._split.process(values, timestamps, self.output.emit, self._advance, self.context.time.now_ms)

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
        return self._split.idle_at_ms()

    def end_epoch(self, report: OperatorReport, *, checkpoint: bool) -> None:
        """Emit the periodic watermark."""
        self._split.end_range()
        self._advance()
        if self._split.max_timestamp_ms != MIN_TIMESTAMP:
            report.max_timestamp_ms = self._split.max_timestamp_ms
        if self._split.check_idle(self.context.time.now_ms):
            self._set_status(IDLE)

    def _advance(self) -> None:
        if self._split.watermark_ms > self.watermark_ms:
            self.watermark_ms = self._split.watermark_ms
            self.output.emit_watermark(self.watermark_ms)

    def _set_status(self, status: StreamStatus) -> None:
        if status is not self._status:
            self._status = status
            self.output.emit_status(status)
