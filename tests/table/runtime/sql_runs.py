"""Runs a SQL operator over a changelog that is cut at random, with checkpoints, restores and other parallelisms."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from random import Random
from typing import Any

import pyarrow as pa

from millstream.datastream.streams.data_stream import DataStream
from millstream.datastream.streams.settings import Port
from millstream.graph.transformation import Edge
from millstream.operators.base import OperatorSpec
from millstream.operators.fields import FieldSelector
from millstream.operators.partitioners import KeyGroups
from millstream.table.expressions.rex import RowSchema
from millstream.table.runtime.arrays import arrow_types
from millstream.testing import OperatorHarness
from millstream.types.row import Row, RowKind

INSERT, BEFORE, AFTER, DELETE = RowKind.INSERT, RowKind.UPDATE_BEFORE, RowKind.UPDATE_AFTER, RowKind.DELETE
CHECKPOINTS = {"execution.checkpointing.interval": "1 s"}

Change = tuple[RowKind, tuple[Any, ...]]
Step = tuple[int, Change] | int
"""A change of an input, or a watermark."""


def schema_of(*types: Any, names: Sequence[str] | None = None) -> RowSchema:
    return RowSchema(tuple(names or (f"f{place}" for place in range(len(types)))), types)


class Folded:
    """A changelog folded into the rows that are there."""

    def __init__(self, key: Callable[[tuple[Any, ...]], Any] | None = None) -> None:
        self.rows: Counter[tuple[Any, ...]] = Counter()
        self.kinds: Counter[RowKind] = Counter()
        self._key = key
        self._by_key: dict[Any, tuple[Any, ...]] = {}

    def add(self, kind: RowKind, row: tuple[Any, ...]) -> None:
        self.kinds[kind] += 1
        if self._key is not None:
            key = self._key(row)
            if kind in (INSERT, AFTER):
                self._by_key[key] = row
            else:
                assert key in self._by_key, f"{kind} of {row}, which is not there"
                del self._by_key[key]
            self.rows = Counter(self._by_key.values())
        elif kind in (INSERT, AFTER):
            self.rows[row] += 1
        else:
            assert self.rows[row] > 0, f"{kind} of {row}, which is not there: {self.rows}"
            self.rows[row] -= 1
            self.rows += Counter()


class SqlRun:
    """An operator under test.

    Args:
        spec: The operator.
        schemas: Of its inputs.
        keys: Places of the key columns of each input; empty for one subtask.
        random: Decides on cuts.
        disturbed: Whether there are checkpoints, restores and other parallelisms.
        options: Options of the job, beside those of checkpoints.
    """

    def __init__(
        self,
        spec: OperatorSpec,
        schemas: Sequence[RowSchema],
        keys: Sequence[Sequence[int]],
        random: Random,
        *,
        key: Callable[[tuple[Any, ...]], Any] | None = None,
        disturbed: bool = True,
        options: dict[str, Any] | None = None,
    ) -> None:
        self.spec, self.schemas, self.keys, self.random = spec, list(schemas), list(keys), random
        self.folded = Folded(key)
        self.disturbed = disturbed
        self._options = {**CHECKPOINTS, **(options or {})}
        self.emitted: list[tuple[RowKind, tuple[Any, ...]]] = []
        self.harness = self._build(1)
        self._watermark: int | None = None
        self.now_ms = 0

    def _build(self, parallelism: int, restore: Any = None) -> OperatorHarness:
        selectors = [
            FieldSelector([f"f{place}" for place in places]) if places else None for places in self.keys
        ]

        def program(*streams: DataStream[Any]) -> DataStream[Any]:
            edges = [
                Edge(
                    stream._ports[0].source,
                    None if selector is None else KeyGroups(selector),
                    None,
                    index,
                )
                for index, (stream, selector) in enumerate(zip(streams, selectors, strict=True))
            ]
            environment = streams[0]._environment
            made = environment._add_transformation("sql", self.spec, edges)
            return DataStream(environment, (Port(made),), None)

        return OperatorHarness(
            program,
            inputs=len(self.schemas),
            parallelism=parallelism,
            processing_time=getattr(self, "now_ms", 0),
            restore=restore,
            options=self._options,
        )

    def push(self, index: int, changes: Sequence[Change]) -> None:
        kinds = [kind for kind, _ in changes]
        types = arrow_types(self.schemas[index])
        columns = [pa.array([row[place] for _, row in changes], kind) for place, kind in enumerate(types)]
        data = pa.RecordBatch.from_arrays(columns, [f"f{place}" for place in range(len(types))])
        plain = all(kind is INSERT for kind in kinds)
        self.harness.push_columns(data, kinds=None if plain else kinds, input=index)

    def watermark(self, timestamp_ms: int) -> None:
        self._watermark = timestamp_ms
        self.harness.push_watermark(timestamp_ms)

    def end_epoch(self) -> None:
        self.harness.end_epoch()
        self.fold()

    def fold(self) -> None:
        for row in self.harness.take():
            kind = row.get_row_kind() if isinstance(row, Row) else INSERT
            values = tuple(row) if isinstance(row, Row) else (row,)
            self.emitted.append((kind, values))
            self.folded.add(kind, tuple(map(_hashable, values)))

    def disturb(self) -> None:
        """Take a checkpoint, and perhaps go on from it, at another parallelism."""
        snapshot = self.harness.snapshot(incremental=self.random.random() < 0.6)
        self.fold()
        if self.random.random() < 0.5:
            parallelism = self.random.randint(1, 3) if all(self.keys) else 1
            self.harness.close()
            self.harness = self._build(parallelism, snapshot)
            if self._watermark is not None:
                self.harness.push_watermark(self._watermark)

    def run(self, steps: Sequence[Step]) -> Counter[tuple[Any, ...]]:
        """Process steps in random batches and epochs; return the rows that are there at the end."""
        random = self.random
        waiting: dict[int, list[Change]] = {}

        def flush() -> None:
            for index, changes in waiting.items():
                self.push(index, changes)
            waiting.clear()

        for step in steps:
            if isinstance(step, int):
                flush()
                self.watermark(step)
            else:
                waiting.setdefault(step[0], []).append(step[1])
                if random.random() < 0.15:
                    flush()
            if random.random() < 0.08:
                flush()
                self.end_epoch()
                if self.disturbed and random.random() < 0.3:
                    self.disturb()
        flush()
        self.harness.end_input()
        self.fold()
        self.harness.close()
        return self.folded.rows


def _hashable(value: Any) -> Any:
    if isinstance(value, list):
        return tuple(map(_hashable, value))
    if isinstance(value, dict):
        return tuple(sorted((_hashable(key), _hashable(each)) for key, each in value.items()))
    return value


def changelog(
    random: Random, count: int, make: Callable[[], tuple[Any, ...]], *, retracts: bool
) -> tuple[list[Change], Counter[tuple[Any, ...]]]:
    """Return random changes that never take back what is not there, and the rows that are left."""
    changes: list[Change] = []
    there: list[tuple[Any, ...]] = []
    for _ in range(count):
        choice = random.random()
        if retracts and there and choice < 0.25:
            changes.append((DELETE, there.pop(random.randrange(len(there)))))
        elif retracts and there and choice < 0.45:
            changes.append((BEFORE, there.pop(random.randrange(len(there)))))
            row = make()
            changes.append((AFTER, row))
            there.append(row)
        else:
            row = make()
            changes.append((INSERT, row))
            there.append(row)
    return changes, Counter(there)
