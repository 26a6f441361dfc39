"""Aggregates begun before the exchange give what they give without."""

from __future__ import annotations

from datetime import datetime, timedelta
from decimal import Decimal
from random import Random
from typing import Any

import pyarrow as pa
import pytest

from millstream.spi.batch import Columns
from millstream.table.expressions.rex import AggregateCall, RowSchema
from millstream.table.plan.logical import WindowKind
from millstream.table.runtime.arrays import arrow_types
from millstream.table.runtime.specs import GroupAggregateSpec, WindowAggregateSpec
from millstream.testing import OperatorHarness
from millstream.types.datatypes import DataTypes as D

SCHEMA = RowSchema(
    ("k", "v", "d", "s", "t"), (D.BIGINT(), D.BIGINT(), D.DECIMAL(10, 2), D.STRING(), D.TIMESTAMP(3))
)
CALLS = (
    AggregateCall("COUNT", (), D.BIGINT(False)),
    AggregateCall("SUM", (1,), D.BIGINT()),
    AggregateCall("AVG", (1,), D.BIGINT()),
    AggregateCall("SUM", (2,), D.DECIMAL(38, 2)),
    AggregateCall("MAX", (3,), D.STRING()),
    AggregateCall("MIN", (4,), D.TIMESTAMP(3)),
)


def batches(seed: int) -> list[Columns]:
    random = Random(seed)

    def maybe(value: Any) -> Any:
        return None if random.random() < 0.2 else value

    made = []
    for _ in range(5):
        rows = [
            (
                maybe(random.randint(0, 5)),
                maybe(random.randint(-9, 9)),
                maybe(Decimal(random.randint(-999, 999)).scaleb(-2)),
                maybe(random.choice("abc")),
                datetime(2024, 1, 1) + timedelta(seconds=random.randint(0, 30)),
            )
            for _ in range(50)
        ]
        columns = [
            pa.array([row[place] for row in rows], kind) for place, kind in enumerate(arrow_types(SCHEMA))
        ]
        made.append(Columns(pa.RecordBatch.from_arrays(columns, [f"f{place}" for place in range(5)])))
    return made


@pytest.mark.parametrize(
    "spec",
    [
        GroupAggregateSpec(SCHEMA, (0,), CALLS),
        WindowAggregateSpec(
            SCHEMA, (0,), CALLS, WindowKind.HOP, 4, size_ms=6_000, slide_ms=2_000, properties=("start",)
        ),
        WindowAggregateSpec(
            SCHEMA, (0,), CALLS, WindowKind.CUMULATE, 4, size_ms=6_000, slide_ms=2_000, properties=("end",)
        ),
    ],
)
def test_combined_rows_give_the_same(spec: Any) -> None:
    def run(*, combined: bool) -> list[Any]:
        harness = OperatorHarness(spec)
        combiner = spec.build_combiner()
        for batch in batches(7):
            harness._deal(combiner.combine(batch, None) if combined else batch, 0)
            harness.end_epoch()
        harness.end_input()
        return sorted((str(row.get_row_kind()), repr(row)) for row in harness.take())

    assert run(combined=True) == run(combined=False)


def test_what_depends_on_the_order_of_rows_is_not_combined() -> None:
    distinct = AggregateCall("COUNT", (1,), D.BIGINT(False), distinct=True)
    assert GroupAggregateSpec(SCHEMA, (0,), (distinct,)).build_combiner() is None
    assert GroupAggregateSpec(SCHEMA, (0,), CALLS, retracts=True).build_combiner() is None
    first = AggregateCall("FIRST_VALUE", (1,), D.BIGINT())
    assert GroupAggregateSpec(SCHEMA, (0,), (first,)).build_combiner() is None
