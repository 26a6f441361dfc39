"""Sources in a simulation: they are cut into epochs at random, may fail in the middle, and come in another order."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from random import Random
from typing import Any

from millstream.base.crash_points import reach
from millstream.base.time import MIN_TIMESTAMP
from millstream.common.watermark_strategy import BoundedOutOfOrderness, WatermarkStrategy
from millstream.connectors.collection import CollectionSource
from millstream.spi.batch import Batch
from millstream.spi.source import (
    Boundedness,
    EmitBatch,
    PlanRequest,
    RangeEnd,
    Source,
    SourcePlan,
    SourceReader,
    SourceReaderContext,
    SplitEnumerator,
    SplitRange,
)
from millstream.verify.world import current_world

__all__ = ["SimulatedSource", "shuffled"]

_STARVED = 0.1
"""Probability that a source is given nothing to plan in an epoch, as if others had more to say."""
_EVEN = 0.5
"""Probability that all its subtasks read as much as they may; else some of them read nothing."""


class SimulatedSource(Source):
    """Another source, read in pieces of random size.

    Args:
        inner: The source.
        epoch_records: Largest number of records of a subtask in an epoch; None leaves epochs as they are.
    """

    def __init__(self, inner: Source, epoch_records: int | None) -> None:
        self._inner = inner
        self._epoch_records = epoch_records

    def get_boundedness(self) -> Boundedness:
        """Return what the source says."""
        return self._inner.get_boundedness()

    def max_parallelism(self) -> int | None:
        """Return what the source says."""
        return self._inner.max_parallelism()

    def build_enumerator(self, parallelism: int, restored: Any | None) -> SplitEnumerator:
        """Make the source's enumerator."""
        return _Enumerator(self._inner.build_enumerator(parallelism, restored), self._epoch_records)

    def build_reader(self, subtask_index: int, parallelism: int) -> SourceReader:
        """Make the source's reader."""
        return _Reader(self._inner.build_reader(subtask_index, parallelism))


class _Enumerator(SplitEnumerator):
    def __init__(self, inner: SplitEnumerator, epoch_records: int | None) -> None:
        self._inner = inner
        self._epoch_records = epoch_records

    def plan(self, request: PlanRequest) -> SourcePlan:
        if self._epoch_records is None:
            return self._inner.plan(request)
        random = current_world().random
        if random.random() < _STARVED:
            return SourcePlan(backlog=True)
        plan = self._inner.plan(replace(request, max_records=random.randint(1, self._epoch_records)))
        if random.random() < _EVEN:
            return plan
        # What is planned is planned from where a split was left, so what is taken out comes again.
        slow = {subtask for subtask in sorted(plan.ranges) if random.random() < 0.5}
        return replace(
            plan,
            ranges={subtask: ranges for subtask, ranges in plan.ranges.items() if subtask not in slow},
            finished=plan.finished - slow,
            backlog=plan.backlog or bool(slow),
        )

    def advance(self, ends: Sequence[RangeEnd]) -> None:
        self._inner.advance(ends)

    def snapshot(self) -> Any:
        return self._inner.snapshot()

    def close(self) -> None:
        self._inner.close()


class _Reader(SourceReader):
    def __init__(self, inner: SourceReader) -> None:
        self._inner = inner

    def open(self) -> None:
        self._inner.context = self.context
        self._inner.wants_columns = self.wants_columns
        self._inner.open()

    def read(self, split_range: SplitRange, emit: EmitBatch) -> RangeEnd:
        reach("read", split_range.split_id)

        def emit_in_two(batch: Batch) -> bool:
            count = len(batch)
            half = count // 2
            if half:
                emit(batch.cut(0, half))
            reach("user.function", split_range.split_id)
            return emit(batch.cut(half, count))

        return self._inner.read(split_range, emit_in_two)

    def close(self) -> None:
        self._inner.close()


def shuffled(source: Source, strategy: WatermarkStrategy, random: Random) -> Source | None:
    """Return a source with the same records in an order that leaves none of them late.

    A record is moved behind others whose event time is later by at most the bound, so every record is still
    ahead of the watermark. That is known only of collections with a timestamp assigner and bounded
    out-of-orderness, and only if no record is late as it is; of all else None is returned.
    """
    assigner, generator = strategy.timestamp_assigner, strategy.generator
    if (
        type(source) is not CollectionSource
        or assigner is None
        or not isinstance(generator, BoundedOutOfOrderness)
    ):
        return None
    values = _read_all(source)
    stamps = [assigner.extract_timestamp(value, MIN_TIMESTAMP) for value in values]
    largest = MIN_TIMESTAMP
    for stamp in stamps:
        if stamp < largest - generator.bound_ms:
            return None
        largest = max(largest, stamp)
    places = [stamp + random.randint(0, generator.bound_ms) for stamp in stamps]
    order = sorted(range(len(values)), key=places.__getitem__)
    return CollectionSource([values[index] for index in order])


def _read_all(source: Source) -> list[Any]:
    enumerator, reader = source.build_enumerator(1, None), source.build_reader(0, 1)
    reader.context = SourceReaderContext()
    values: list[Any] = []
    request = PlanRequest(parallelism=1, max_records=1_000_000, now_ms=0)
    while True:
        plan = enumerator.plan(request)
        enumerator.advance(
            [reader.read(each, lambda batch: _keep(values, batch)) for each in plan.ranges.get(0, ())]
        )
        if 0 in plan.finished:
            return values


def _keep(values: list[Any], batch: Batch) -> bool:
    values.extend(batch.to_rows().values)
    return True
