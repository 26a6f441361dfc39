"""The source operator: reads ranges, keeps one watermark for each split, emits their minimum.

What a reader gives goes through an **agenda**. As long as the epoch's budget lasts (`operators.budget`) it is worked
off at once; then the rest is held, with what is to be done behind it, and goes on in the next epoch::

    reader   [batch] [batch] end of range          agenda   batch │ batch │ range ends │ source ends

While something is held nothing more is read: the reader is told to stop, and says where it did. Ranges that were left
early, or not begun, are planned again.
"""

from __future__ import annotations

import logging
from collections import deque
from collections.abc import Mapping, Sequence, Set
from dataclasses import dataclass
from functools import partial
from typing import Any, NamedTuple

from millstream.base.interrupts import is_interruption
from millstream.base.time import MAX_TIMESTAMP, MIN_TIMESTAMP
from millstream.common.watermark_strategy import WatermarkStrategy
from millstream.operators.base import Operator, OperatorReport, OperatorSpec, RestoreScope, connector_name
from millstream.operators.split_time import SplitTime
from millstream.operators.user_code import fit
from millstream.operators.values import claim
from millstream.operators.watermarks import SplitWatermarks
from millstream.spi.batch import ACTIVE, IDLE, Batch, Rows, StreamStatus
from millstream.spi.source import RangeEnd, Source, SourceReader, SourceReaderContext, SplitRange
from millstream.spi.versions import FIRST_VERSION, bring_up
from millstream.types.typeinfo import TypeInformation

__all__ = ["SourceOperator", "SourceSpec"]

log = logging.getLogger(__name__)


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

    @property
    def reads(self) -> Source:
        """The source."""
        return self.source

    @property
    def watermark_strategy(self) -> WatermarkStrategy:
        """Its watermark strategy."""
        return self.strategy

    @property
    def versions(self) -> Mapping[str, int]:
        """Of its positions."""
        return {"snapshot": self.source.snapshot_version}

    def bring_up_driver_state(self, kept: Any, versions: Mapping[str, int]) -> Any:
        """Return positions in today's form."""
        source = self.source
        return bring_up(
            kept,
            versions.get("snapshot", FIRST_VERSION),
            source.snapshot_version,
            source.upgrade_snapshot,
            what=f'snapshot of source "{type(source).__name__}"',
        )

    def build(self) -> Operator:
        """Make the running half."""
        return SourceOperator(self)


class _Held(NamedTuple):
    """Records of a split that are still to be emitted."""

    split_id: str
    sequential: bool
    batch: Batch


class _Aside(NamedTuple):
    """What a reader gave for a side output while it read a split."""

    split_id: str
    tag_id: str
    batch: Batch


class _EndRange(NamedTuple):
    """The end of a range, and of its split if that is finished."""

    split_id: str
    finished: bool


class _Told(NamedTuple):
    """What a source tells of a split's event time between records: a watermark, or None if it is idle."""

    split_id: str
    watermark_ms: int | None


class _EndSource(NamedTuple):
    """Nothing follows."""


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
        self._agenda: deque[_Held | _Aside | _EndRange | _Told | _EndSource] = deque()
        self._reads = ""  # the split that is being read
        self._left_early = False
        self._adopted: set[str] = set()  # splits of which only records came here, with another parallelism

    def open(self) -> None:
        """Open the reader."""
        context = self.context
        strategy = self._spec.strategy
        self._strategy = strategy.without_watermarks() if context.batch else strategy
        self._empty_since_ms = context.time.now_ms
        self._reader = self._build_reader()
        # A declared type is checked record by record.
        self._reader.wants_columns = self.output.wants_columns and self._spec.output_type is None
        if context.operator_state is not None:
            context.operator_state.on_complete(self._tell_reader)
        self._reader.open()

    def _build_reader(self) -> SourceReader:
        context = self.context
        reader = self._spec.source.build_reader(context.subtask_index, context.parallelism)
        reader.context = SourceReaderContext(context.metrics, self._take_aside, context.side_outputs)
        return reader

    def process(self, batch: Rows) -> None:
        """Never called: a source has no input."""
        raise AssertionError("a source operator was given a batch")

    def read_ranges(
        self,
        ranges: Sequence[SplitRange],
        *,
        finished: bool,
        held: Set[str] = frozenset(),
        waits: bool = False,
    ) -> None:
        """Go on with what is held, then read one epoch's ranges, in order.

        Args:
            ranges: What the enumerator planned for this subtask.
            finished: Whether nothing will follow: the final watermark is emitted behind the last record.
            held: Splits that are held back by watermark alignment: their silence is not idleness.
            waits: Whether nothing was planned because others have not kept up: no silence is idleness.
        """
        if self.watermark_ms == MAX_TIMESTAMP:
            return
        for split_id in self._splits.keys() if waits else held & self._splits.keys():
            self._splits[split_id].hold()
        if waits:
            self._empty_since_ms = self.context.time.now_ms
        for split_range in ranges:
            self._adopted.discard(split_range.split_id)
            if not split_range.sequential:
                self._split(split_range.split_id, sequential=False)
        self._work_off()
        if self._adopted and not self._agenda:
            self._give_back()
        for split_range in ranges:
            if self._agenda:
                self._left_early = True
                break
            self._read(split_range)
        if finished and not self._left_early:
            if not any(isinstance(item, _EndSource) for item in self._agenda):
                self._agenda.append(_EndSource())
            self._work_off()
        elif not self._agenda:
            self._check_idle()
            self._mark_latency()

    @property
    def held(self) -> int:
        """Records that were read and are still to be emitted."""
        return sum(len(item.batch) for item in self._agenda if isinstance(item, (_Held, _Aside)))

    @property
    def has_ended(self) -> bool:
        """Whether the final watermark has been emitted."""
        return self.watermark_ms == MAX_TIMESTAMP

    def next_processing_time(self) -> int | None:
        """Return when a split, or the subtask if it has none, will be idle, or a latency marker is due."""
        if self.watermark_ms == MAX_TIMESTAMP:
            return None
        latency, idle_at_ms = self.context.latency, self._next_idle_ms()
        if latency is None:
            return idle_at_ms
        return latency.due_ms if idle_at_ms is None else min(latency.due_ms, idle_at_ms)

    def _next_idle_ms(self) -> int | None:
        if not self._splits and self._strategy.idle_timeout_ms is not None and self._status is ACTIVE:
            return self._empty_since_ms + self._strategy.idle_timeout_ms
        return min(
            (at for split in self._splits.values() if (at := split.idle_at_ms()) is not None), default=None
        )

    def end_epoch(self, report: OperatorReport, *, checkpoint: bool) -> None:
        """Report where the ranges were left."""
        report.range_ends, self._ends = self._ends, []
        report.ranges_left_early, self._left_early = self._left_early, False
        if self._max_timestamp_ms != MIN_TIMESTAMP:
            report.max_timestamp_ms = self._max_timestamp_ms
        report.splits, self._ended = self._ended, []
        for split in self._splits.values():
            report.splits.extend(split.tell())
        if self.watermark_ms != self._told_ms:
            report.made_watermark_ms = self._told_ms = self.watermark_ms

    def snapshot_state(self) -> Any:
        """Return how far event time has come, in all and in each split, and what was read and is not emitted."""
        splits = {split_id: split.snapshot() for split_id, split in self._splits.items()}
        return self.watermark_ms, splits, list(self._agenda)

    def restore_state(self, snapshot: Any, scope: RestoreScope) -> None:
        """Keep what is known of splits until they are read here, whoever read them before.

        What was held is emitted by one subtask, before anything more is read. That a source has ended its enumerator
        tells anew.
        """
        _, splits, agenda = snapshot
        self._restored.update(splits)
        if scope.adopts:
            self._agenda.extend(item for item in agenda if not isinstance(item, _EndSource))
            if scope.rescaled:
                self._adopted.update(item.split_id for item in agenda if not isinstance(item, _EndSource))

    def close(self) -> None:
        """Close the reader."""
        self._reader.close()

    def _tell_reader(self, checkpoint_id: int) -> None:
        """Tell the reader of a complete checkpoint; the job does not depend on what it does then."""
        try:
            self._reader.checkpoint_completed(checkpoint_id)
        except BaseException as error:
            if is_interruption(error):
                raise
            log.warning(
                'source "%s", subtask %d, could not do what it does when checkpoint %d is complete: %s: %s',
                self.context.name,
                self.context.subtask_index,
                checkpoint_id,
                type(error).__name__,
                error,
            )

    def _split(self, split_id: str, *, sequential: bool) -> SplitWatermarks:
        split = self._splits.get(split_id)
        if split is None:
            split = self._splits[split_id] = SplitWatermarks(
                self._strategy, self.context.time, split_id, sequential=sequential
            )
            known = self._restored.pop(split_id, None)
            if known is not None:
                split.restore(known)
        return split

    def _give_back(self) -> None:
        """Wait no more for splits of which all that was held is emitted: another subtask may read them now."""
        for split_id in self._adopted & self._splits.keys():
            self._restored[split_id] = self._splits.pop(split_id).snapshot()
        self._adopted.clear()
        if not self._splits:
            self._empty_since_ms = self.context.time.now_ms
        self._advance()

    def _read(self, split_range: SplitRange) -> None:
        self._split(split_range.split_id, sequential=split_range.sequential)
        self._reads = split_range.split_id
        end = self._reader.read(split_range, partial(self._take, split_range))
        self._ends.append(end)
        if self._agenda and not end.finished:
            self._left_early = True  # it was told to stop; if it did not, the next plan finds nothing left
        self._agenda.append(_EndRange(end.split_id, end.finished))
        self._work_off()

    def _take(self, split_range: SplitRange, batch: Batch) -> bool:
        """Take a batch from the reader; return whether it may go on."""
        if len(batch):
            if self._spec.output_type is not None:
                batch = batch.to_rows()
            if type(batch) is Rows:
                values = batch.values if self._reader.gives_away else claim(batch.values)
                batch.values = fit(values, self._spec.output_type)
            self._agenda.append(_Held(split_range.split_id, split_range.sequential, batch))
            if len(self._agenda) == 1:
                self._work_off()
        return not self._agenda

    def _take_aside(self, tag_id: str, batch: Batch) -> None:
        """Take what the reader has for a side output; what nobody reads goes nowhere."""
        if len(batch) and tag_id in self.context.side_outputs:
            self._agenda.append(_Aside(self._reads, tag_id, batch))
            if len(self._agenda) == 1:
                self._work_off()

    def _work_off(self) -> None:
        """Do what is on the agenda, as far as the budget goes.

        An item leaves the agenda before it is done: what is suspended in the middle is not begun twice.
        """
        agenda = self._agenda
        while agenda:
            item = agenda.popleft()
            if isinstance(item, (_Held, _Aside)):
                rest = self._emit_some(item)
                if rest is not None:
                    agenda.appendleft(rest)
                    return
            elif isinstance(item, _EndRange):
                self._end_range(item)
            elif isinstance(item, _Told):
                self._hear(item)
            else:
                self._finish()

    def _emit_some(self, item: _Held | _Aside) -> _Held | _Aside | None:
        """Emit as many of the records as the budget allows; return those that are left, if any."""
        emit = (
            partial(self._emit, self._split(item.split_id, sequential=item.sequential))
            if isinstance(item, _Held)
            else partial(self.output.emit_side, item.tag_id)
        )
        batch = item.batch
        count, start = len(batch), 0
        while start < count:
            granted = self.context.budget.take(count - start, None, batch.smallest_slice)
            stop = start + granted
            if not granted:
                return item._replace(batch=batch.cut(start, count))
            emit(batch.cut(start, stop))
            start = stop
        return None

    def _mark_latency(self) -> None:
        """Put a latency marker behind what was emitted, if it is time for one."""
        if self.context.latency is not None:
            self.context.latency.emit_if_due(self.context.time.now_ms)

    def _emit(self, split: SplitWatermarks, batch: Batch) -> None:
        self._mark_latency()
        if self._status is IDLE:
            split.idle = False
            self._set_status(ACTIVE)
        split.process(batch, self.output, self._take_watermark)
        if split.max_timestamp_ms > self._max_timestamp_ms:
            self._max_timestamp_ms = split.max_timestamp_ms

    def _end_range(self, item: _EndRange) -> None:
        split = self._splits.get(item.split_id)
        if split is None:  # restored, and nothing of the split came to this subtask
            return
        split.end_range()
        if item.finished:
            self._retire(item.split_id, split)
        self._advance()

    def _tell(self, split_id: str, watermark_ms: int | None) -> None:
        """Have a split take a watermark, or be idle, behind the records before."""
        self._agenda.append(_Told(split_id, watermark_ms))
        if len(self._agenda) == 1:
            self._work_off()

    def _hear(self, item: _Told) -> None:
        split = self._splits.get(item.split_id)
        if split is None:
            return
        if item.watermark_ms is None:
            split.mark_idle()
        else:
            split.emit_watermark(item.watermark_ms)
            self._advance()

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
        watermark_ms = self._take_watermark()
        if watermark_ms is not None:
            self._emit_watermark(watermark_ms)

    def _take_watermark(self) -> int | None:
        """Return the watermark over all splits if it has advanced: it is handed on then."""
        watermark_ms = min(
            (split.watermark_ms for split in self._splits.values() if not split.idle), default=MIN_TIMESTAMP
        )
        if watermark_ms <= self.watermark_ms:
            return None
        self.watermark_ms = watermark_ms
        return watermark_ms

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
