"""The source operator: reads ranges, keeps one watermark for each split, emits their minimum."""

from __future__ import annotations

from collections.abc import Sequence, Set
from dataclasses import dataclass
from functools import partial
from typing import Any

from millstream.common.batch import ACTIVE, IDLE, StreamStatus
from millstream.common.time import MAX_TIMESTAMP, MIN_TIMESTAMP
from millstream.common.typeinfo import TypeInformation
from millstream.common.watermark_strategy import WatermarkStrategy
from millstream.operators.base import Operator, OperatorReport, OperatorSpec, RestoreScope, connector_name
from millstream.operators.split_time import SplitTime
from millstream.operators.user_code import fit
from millstream.operators.watermarks import SplitWatermarks
from millstream.spi.source import RangeEnd, Source, SplitRange

__all__ = ["SourceOperator", "SourceSpec"]


@dataclass(frozen=True)
class SourceSpec(OperatorSpec):
    """Declares a source with its watermark strategy."""

    source: Source
    strategy: WatermarkStrategy
    output_type: TypeInformation | None = None
    is_source = True

    @property
    def state_form(self) -> str:
        """Whose positions are kept."""
        return connector_name(self.source)

    def build(self) -> Operator:
        """Make the running half."""
        return SourceOperator(self)


class SourceOperator(Operator):
    """Reads the ranges that the enumerator planned.

    The watermark is the minimum over the splits that are open and not idle. A subtask without any split keeps
    the watermark it has, as in Flink: only idleness or the end of the source releases it. Unlike in
    Flink, watermarks are part of checkpoints, so what is late does not depend on failures.
    """

    def __init__(self, spec: SourceSpec) -> None:
        self._spec = spec
        self._splits: dict[str, SplitWatermarks] = {}
        self._ends: list[RangeEnd] = []
        self._status: StreamStatus = ACTIVE
        self._max_timestamp_ms = MIN_TIMESTAMP
        self._ended: list[SplitTime] = []
        self._told_ms = MIN_TIMESTAMP
        self._restored: dict[str, Any] = {}

    def open(self) -> None:
        """Open the reader."""
        context = self.context
        strategy = self._spec.strategy
        self._strategy = strategy.without_watermarks() if context.batch else strategy
        self._empty_since_ms = context.time.now_ms
        self._reader = self._spec.source.build_reader(context.subtask_index, context.parallelism)
        self._reader.open()

    def process_batch(self, values: list[Any], timestamps: list[int] | None) -> None:
        """Never called: a source has no input."""
        raise AssertionError("a source operator was given a batch")

    def read_ranges(
        self, ranges: Sequence[SplitRange], *, finished: bool, held: Set[str] = frozenset()
    ) -> None:
        """Read one epoch's ranges, in order.

        Args:
            ranges: What the enumerator planned for this subtask.
            finished: Whether nothing will follow: the final watermark is emitted behind the last record.
            held: Splits that are held back by watermark alignment: their silence is not idleness.
        """
        if self.watermark_ms == MAX_TIMESTAMP:
            return
        for split_id in held & self._splits.keys():
            self._splits[split_id].hold()
        for split_range in ranges:
            if not split_range.sequential:
                self._split(split_range)
        for split_range in ranges:
            split = self._split(split_range)
            end = self._reader.read(split_range, partial(self._emit, split))
            split.end_range()
            self._ends.append(end)
            if end.finished:
                self._retire(end.split_id, split)
            self._advance()
        if finished:
            self._finish()
        else:
            self._check_idle()

    def next_processing_time(self) -> int | None:
        """Return when a split, or the subtask if it has none, will be idle."""
        if self.watermark_ms == MAX_TIMESTAMP:
            return None
        if not self._splits and self._strategy.idle_timeout_ms is not None and self._status is ACTIVE:
            return self._empty_since_ms + self._strategy.idle_timeout_ms
        return min(
            (at for split in self._splits.values() if (at := split.idle_at_ms()) is not None), default=None
        )

    def end_epoch(self, report: OperatorReport, *, checkpoint: bool) -> None:
        """Report where the ranges were left."""
        report.range_ends = self._ends
        self._ends = []
        if self._max_timestamp_ms != MIN_TIMESTAMP:
            report.max_timestamp_ms = self._max_timestamp_ms
        report.splits, self._ended = self._ended, []
        for split in self._splits.values():
            report.splits.extend(split.tell())
        if self.watermark_ms != self._told_ms:
            report.made_watermark_ms = self._told_ms = self.watermark_ms

    def snapshot_state(self) -> Any:
        """Return how far event time has come, in all and in each split."""
        return self.watermark_ms, {split_id: split.snapshot() for split_id, split in self._splits.items()}

    def restore_state(self, snapshot: Any, scope: RestoreScope) -> None:
        """Keep what is known of splits until they are read here, whoever read them before."""
        self._restored.update(snapshot[1])

    def close(self) -> None:
        """Close the reader."""
        self._reader.close()

    def _split(self, split_range: SplitRange) -> SplitWatermarks:
        split = self._splits.get(split_range.split_id)
        if split is None:
            split = self._splits[split_range.split_id] = SplitWatermarks(
                self._strategy,
                self.context.time,
                split_range.split_id,
                sequential=split_range.sequential,
            )
            known = self._restored.pop(split_range.split_id, None)
            if known is not None:
                split.restore(known)
        return split

    def _emit(self, split: SplitWatermarks, values: list[Any], timestamps: list[int] | None) -> None:
        if not values:
            return
        values = fit(values, self._spec.output_type)
        if self._status is IDLE:
            split.idle = False
            self._set_status(ACTIVE)
        split.process(values, timestamps, self.output.emit, self._advance)
        if split.max_timestamp_ms > self._max_timestamp_ms:
            self._max_timestamp_ms = split.max_timestamp_ms

    def _retire(self, split_id: str, split: SplitWatermarks) -> None:
        del self._splits[split_id]
        self._ended.extend(split.tell(finished=True))
        if not self._splits:
            self._empty_since_ms = self.context.time.now_ms
            if split.watermark_ms > self.watermark_ms:
                self._emit_watermark(split.watermark_ms)

    def _finish(self) -> None:
        for split_id, split in list(self._splits.items()):
            del self._splits[split_id]
            self._ended.extend(split.tell(finished=True))
        self._emit_watermark(MAX_TIMESTAMP)

    def _advance(self) -> None:
        watermark_ms = min(
            (split.watermark_ms for split in self._splits.values() if not split.idle), default=MIN_TIMESTAMP
        )
        if watermark_ms > self.watermark_ms:
            self._emit_watermark(watermark_ms)

    def _emit_watermark(self, watermark_ms: int) -> None:
        self._set_status(ACTIVE)
        self.watermark_ms = watermark_ms
        self.output.emit_watermark(watermark_ms)

    def _check_idle(self) -> None:
        idle = [split.check_idle() for split in self._splits.values()]
        self._advance()
        if idle:
            self._set_status(IDLE if all(idle) else ACTIVE)
        elif self._strategy.idle_timeout_ms is not None:
            silent_ms = self.context.time.now_ms - self._empty_since_ms
            if silent_ms >= self._strategy.idle_timeout_ms:
                self._set_status(IDLE)

    def _set_status(self, status: StreamStatus) -> None:
        if status is not self._status:
            self._status = status
            self.output.emit_status(status)
