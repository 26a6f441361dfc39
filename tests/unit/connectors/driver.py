"""Runs a source's enumerator and readers to the end, as the engine would."""

from __future__ import annotations

import pickle
from typing import Any

import cloudpickle

from millstream.spi.source import PlanRequest, Source


class Driver:
    """One run of a source; `read` is what each subtask emitted, in order."""

    def __init__(self, source: Source, parallelism: int, *, budget: int, restored: Any = None) -> None:
        source = pickle.loads(cloudpickle.dumps(source))
        self.parallelism = parallelism
        self.budget = budget
        self.enumerator = source.build_enumerator(parallelism, restored)
        self.readers = [source.build_reader(index, parallelism) for index in range(parallelism)]
        self.read: list[list[Any]] = [[] for _ in range(parallelism)]
        self.finished: set[int] = set()
        self.epochs = 0

    def epoch(self, now_ms: int = 0, *, drain: bool = False) -> Any:
        plan = self.enumerator.plan(PlanRequest(self.parallelism, self.budget, now_ms, drain))
        assert not self.finished & plan.ranges.keys(), "a finished subtask was given a range"
        ends = []
        for subtask, ranges in plan.ranges.items():
            before = len(self.read[subtask])
            for split_range in ranges:
                end = self.readers[subtask].read(
                    split_range, lambda batch, s=subtask: not self.read[s].extend(batch.values)
                )
                ends.append(end)
            emitted = len(self.read[subtask]) - before
            assert emitted <= self.budget
            assert emitted == sum(end.records for end in ends if end.split_id in {r.split_id for r in ranges})
        self.enumerator.advance(ends)
        self.finished |= plan.finished
        self.epochs += 1
        return plan

    def run(self, *, drain: bool = False) -> list[Any]:
        while len(self.finished) < self.parallelism:
            self.epoch(drain=drain)
            assert self.epochs < 100_000
        for reader in self.readers:
            reader.close()
        return [value for values in self.read for value in values]
