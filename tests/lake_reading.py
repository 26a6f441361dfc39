"""Reads sources of tables by hand: from checkpoint to checkpoint, or on and on."""

from __future__ import annotations

from typing import Any

from millstream.spi.batch import Columns
from millstream.spi.source import PlanRequest, Source


def read(source: Source, *, columns: bool = False, budget: int = 7) -> list[Any]:
    """Return what a source gives until it is silent, with a small budget and a failure after each epoch."""
    enumerator = source.build_enumerator(1, None)
    found: list[Any] = []
    for epoch in range(5000):
        reader = source.build_reader(0, 1)
        reader.wants_columns = columns
        reader.open()
        plan = enumerator.plan(PlanRequest(1, budget, epoch))
        if not plan.ranges:
            return found
        batches: list[Any] = []

        def emit(batch: Any, batches: list[Any] = batches) -> bool:
            batches.append(batch)
            return True

        enumerator.advance([reader.read(each, emit) for each in plan.ranges[0]])
        assert all((type(batch) is Columns) == columns for batch in batches)
        found += [value for batch in batches for value in batch.to_rows().values]
        reader.close()
        enumerator = source.build_enumerator(1, enumerator.snapshot())
    raise AssertionError("a source that does not end")


class Follower:
    """A table that is followed, from its beginning or a checkpoint on."""

    def __init__(self, source: Source, restored: Any = None) -> None:
        self.source = source
        self.enumerator = source.build_enumerator(1, restored)
        self.reader = source.build_reader(0, 1)
        self.reader.open()
        self.now_ms = 0

    def read(self) -> list[Any]:
        """Return what came since."""
        found: list[Any] = []
        while True:
            self.now_ms += 1000
            plan = self.enumerator.plan(PlanRequest(1, 1000, self.now_ms))
            if not plan.ranges:
                return found
            batches: list[Any] = []

            def emit(batch: Any, batches: list[Any] = batches) -> bool:
                batches.append(batch)
                return True

            self.enumerator.advance([self.reader.read(each, emit) for each in plan.ranges[0]])
            found += [value for batch in batches for value in batch.to_rows().values]
