"""GROUP BY against DuckDB over the rows that are left."""

from __future__ import annotations

from collections import Counter
from datetime import datetime, timedelta
from decimal import Decimal
from random import Random
from typing import Any

import duckdb
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sql_runs import SqlRun, changelog, schema_of

from millstream.table.expressions.rex import AggregateCall
from millstream.table.runtime.specs import GroupAggregateSpec
from millstream.types.datatypes import DataTypes as D

SCHEMA = schema_of(
    D.STRING(), D.BIGINT(), D.DOUBLE(), D.DECIMAL(12, 2), D.STRING(), D.BOOLEAN(), D.TIMESTAMP(3)
)
CALLS = {
    "COUNT(*)": AggregateCall("COUNT", (), D.BIGINT(False)),
    "COUNT(f1)": AggregateCall("COUNT", (1,), D.BIGINT(False)),
    "SUM(f1)": AggregateCall("SUM", (1,), D.BIGINT()),
    "SUM(f3)": AggregateCall("SUM", (3,), D.DECIMAL(38, 2)),
    "MIN(f1)": AggregateCall("MIN", (1,), D.BIGINT()),
    "MAX(f2)": AggregateCall("MAX", (2,), D.DOUBLE()),
    "MIN(f4)": AggregateCall("MIN", (4,), D.STRING()),
    "MAX(f4)": AggregateCall("MAX", (4,), D.STRING()),
    "MAX(f6)": AggregateCall("MAX", (6,), D.TIMESTAMP(3)),
    "MIN(f3)": AggregateCall("MIN", (3,), D.DECIMAL(12, 2)),
    "COUNT(DISTINCT f4)": AggregateCall("COUNT", (4,), D.BIGINT(False), distinct=True),
    "SUM(DISTINCT f1)": AggregateCall("SUM", (1,), D.BIGINT(), distinct=True),
    "COUNT(f1) FILTER (WHERE f5)": AggregateCall("COUNT", (1,), D.BIGINT(False), filter=5),
    "SUM(f1) FILTER (WHERE f5)": AggregateCall("SUM", (1,), D.BIGINT(), filter=5),
    "COUNT(DISTINCT f1) FILTER (WHERE f5)": AggregateCall(
        "COUNT", (1,), D.BIGINT(False), distinct=True, filter=5
    ),
}


def row(random: Random) -> tuple[Any, ...]:
    def maybe(value: Any) -> Any:
        return None if random.random() < 0.2 else value

    return (
        maybe(random.choice("abcdefgh")),
        maybe(random.randint(-50, 50)),
        maybe(float(random.randint(-8, 8)) / 4),
        maybe(Decimal(random.randint(-10_000, 10_000)).scaleb(-2)),
        maybe(random.choice(["", "x", "yy", "zzz", "a longer text"])),
        maybe(random.random() < 0.5),
        maybe(datetime(2024, 1, 1) + timedelta(seconds=random.randint(0, 1000))),
    )


def oracle(rows: Counter[tuple[Any, ...]], keys: str, calls: dict[str, Any]) -> Counter[tuple[Any, ...]]:
    connection = duckdb.connect()
    connection.execute(
        "CREATE TABLE t (f0 VARCHAR, f1 BIGINT, f2 DOUBLE, f3 DECIMAL(12,2), f4 VARCHAR, f5 BOOLEAN, f6 TIMESTAMP)"
    )
    if rows:
        connection.executemany(
            "INSERT INTO t VALUES (?, ?, ?, ?, ?, ?, ?)", [list(r) for r in rows.elements()]
        )
    group = f"GROUP BY {keys}" if keys else "HAVING COUNT(*) > 0"
    columns = ", ".join(part for part in (keys, *calls) if part)
    return Counter(connection.execute(f"SELECT {columns} FROM t {group}").fetchall())


@pytest.mark.parametrize("retracts", [False, True])
@pytest.mark.parametrize("keys", [(0,), (0, 5), (6,), ()])
@given(seed=st.integers(0, 10**9))
@settings(max_examples=2, deadline=None, derandomize=True)
def test_groups_are_what_the_rows_that_are_left_give(
    keys: tuple[int, ...], retracts: bool, seed: int
) -> None:
    random = Random(seed)
    chosen = dict(random.sample(sorted(CALLS.items()), random.randint(1, 8)))
    changes, left = changelog(random, 120, lambda: row(random), retracts=retracts)
    before = random.random() < 0.7
    spec = GroupAggregateSpec(SCHEMA, keys, tuple(chosen.values()), retracts=retracts, before=before)
    key = None if before else (lambda result: result[: len(keys)])
    run = SqlRun(spec, [SCHEMA], [keys], random, key=key)
    assert run.run([(0, change) for change in changes]) == oracle(
        left, ", ".join(f"f{place}" for place in keys), chosen
    )
