"""Table aggregates under random changes, epochs, checkpoints, restores and parallelisms, against the rows left."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterator
from random import Random
from typing import Any

import pytest
from sql_runs import SqlRun, changelog, schema_of

from millstream.table.expressions.rex import AggregateCall
from millstream.table.runtime.specs import TableAggregateSpec
from millstream.table.udf import TableAggregateFunction, udtaf
from millstream.types.datatypes import DataTypes as D
from millstream.types.row import Row

SCHEMA = schema_of(D.STRING(), D.BIGINT())


class Top3(TableAggregateFunction):
    def create_accumulator(self) -> Any:
        return []

    def accumulate(self, accumulator: Any, value: Any) -> None:
        accumulator.append(value)

    def retract(self, accumulator: Any, value: Any) -> None:
        accumulator.remove(value)

    def emit_value(self, accumulator: Any) -> Iterator[Any]:
        for value in sorted(accumulator)[-3:]:
            yield Row(value, value % 2 == 0)


def top_call() -> AggregateCall:
    result = D.ROW([D.FIELD("v", D.BIGINT()), D.FIELD("even", D.BOOLEAN())])
    declared = udtaf(Top3(), result_type=result, accumulator_type=D.ARRAY(D.BIGINT())).declared(())
    return AggregateCall("top", (1,), declared.result_type, user_function=declared)


@pytest.mark.parametrize("seed", range(6))
@pytest.mark.parametrize("retracts", [False, True])
@pytest.mark.parametrize("keys", [(0,), ()])
def test_rows_of_a_table_aggregate_are_kept_up_to_date(seed: int, retracts: bool, keys: Any) -> None:
    random = Random(seed)

    def row() -> tuple[Any, ...]:
        return random.choice(["a", "b", "c", None]), random.randint(-9, 9)

    changes, left = changelog(random, 120, row, retracts=retracts)
    run = SqlRun(TableAggregateSpec(SCHEMA, keys, top_call(), retracts), [SCHEMA], [keys], random)
    got = run.run([(0, change) for change in changes])
    values: dict[Any, list[int]] = defaultdict(list)
    for key, value in left.elements():
        values[(key,) if keys else ()].append(value)
    assert got == Counter(
        (*key, value, value % 2 == 0) for key, each in values.items() for value in sorted(each)[-3:]
    )


def test_with_a_time_to_live_rows_are_told_again() -> None:
    spec = TableAggregateSpec(SCHEMA, (0,), top_call(), ttl_ms=1_000)
    run = SqlRun(spec, [SCHEMA], [(0,)], Random(0), disturbed=False)
    from millstream.types.row import RowKind

    for value in (9, 8, 7, 1):
        run.push(0, [(RowKind.INSERT, ("a", value))])
        run.end_epoch()
    kinds = run.folded.kinds
    assert run.folded.rows == Counter([("a", 9, False), ("a", 8, True), ("a", 7, False)])
    assert (kinds[RowKind.INSERT], kinds[RowKind.DELETE]) == (1 + 2 + 3 + 3, 1 + 2 + 3)
    run.harness.close()
