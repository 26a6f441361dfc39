"""Joins FOR SYSTEM_TIME AS OF give what DuckDB's ASOF joins and joins give."""

from __future__ import annotations

import datetime
import random
import sqlite3
from collections.abc import Iterator
from pathlib import Path

import pyarrow as pa
import pytest
from oracle_kit import Oracle, difference, folded

VERSIONS = (
    "CREATE VIEW versions AS SELECT cur, rate, ts FROM "
    "(SELECT *, ROW_NUMBER() OVER (PARTITION BY cur ORDER BY ts DESC) AS rn FROM rates) WHERE rn = 1"
)


def _moments(count: int, step_ms: int, rng: random.Random) -> pa.Array:
    begin = datetime.datetime(2024, 1, 1)
    moments = [
        begin + datetime.timedelta(milliseconds=i * step_ms + rng.randint(1, 900)) for i in range(count)
    ]
    return pa.array(moments, pa.timestamp("ms"))


@pytest.fixture(scope="module")
def oracle(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Oracle]:
    rng = random.Random(3)
    rates = pa.table(
        {
            "cur": pa.array([rng.choice("ABC") for _ in range(60)]),
            "rate": pa.array([rng.randint(1, 100) for _ in range(60)], pa.int64()),
            "ts": _moments(60, 2000, rng),
        }
    )
    orders = pa.table(
        {
            "id": pa.array(range(100), pa.int64()),
            "cur": pa.array([rng.choice(["A", "B", "C", "D", None]) for _ in range(100)]),
            "ts": _moments(100, 1200, rng),
        }
    )
    directory = Path(tmp_path_factory.mktemp("temporal"))
    late = {"rates": ("ts", 1000), "orders": ("ts", 1000)}
    made = Oracle(directory, {"rates": rates, "orders": orders}, late, row_group=16)
    with sqlite3.connect(directory / "cities.db") as database:
        database.execute("CREATE TABLE cities (cur TEXT PRIMARY KEY, name TEXT)")
        database.executemany("INSERT INTO cities VALUES (?, ?)", [("A", "Oslo"), ("B", "Rome")])
    made.duck.execute(
        "CREATE TABLE cities AS SELECT * FROM (VALUES ('A', 'Oslo'), ('B', 'Rome')) t (cur, name)"
    )
    yield made
    made.duck.close()


@pytest.mark.parametrize("kind", ["JOIN", "LEFT JOIN"])
@pytest.mark.parametrize(("parallelism", "epoch"), [(1, None), (2, 7)])
def test_each_row_meets_the_version_of_its_time(
    oracle: Oracle, kind: str, parallelism: int, epoch: int | None
) -> None:
    wanted = oracle.expected(
        f"SELECT o.id, r.rate FROM orders o ASOF {kind} rates r ON o.cur = r.cur AND o.ts >= r.ts"
    )
    environment = oracle.environment(parallelism, epoch)
    environment.execute_sql(VERSIONS)
    found = folded(
        environment.execute_sql(
            f"SELECT o.id, r.rate FROM orders o {kind} versions FOR SYSTEM_TIME AS OF o.ts AS r ON o.cur = r.cur"
        )
    )
    assert found == wanted, difference(found, wanted)


@pytest.mark.parametrize("kind", ["JOIN", "LEFT JOIN"])
def test_each_row_looks_up_what_an_outside_table_has(oracle: Oracle, kind: str) -> None:
    wanted = oracle.expected(
        f"SELECT o.id, c.name FROM orders o {kind} cities c ON o.cur = c.cur AND c.name <> 'Rome'"
    )
    environment = oracle.environment(2, 13)
    environment.execute_sql(
        "CREATE TABLE cities (cur STRING, name STRING, PRIMARY KEY (cur) NOT ENFORCED) WITH ('connector' = 'jdbc', "
        f"'url' = 'jdbc:sqlite:{oracle.directory / 'cities.db'}', 'table-name' = 'cities')"
    )
    found = folded(
        environment.execute_sql(
            f"SELECT o.id, c.name FROM (SELECT *, PROCTIME() AS pt FROM orders) o {kind} cities "
            "FOR SYSTEM_TIME AS OF o.pt AS c ON o.cur = c.cur AND c.name <> 'Rome'"
        )
    )
    assert found == wanted, difference(found, wanted)
