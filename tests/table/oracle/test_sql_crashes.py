"""A job of SQL that fails in the middle goes on from its checkpoint, and its table is the undisturbed one's."""

from __future__ import annotations

import sqlite3
from pathlib import Path
from typing import Any

import pytest
from nexmark_rows import nexmark_tables
from oracle_kit import Oracle

from millstream.table import DataTypes
from millstream.table.udf import udf

LATE = dict.fromkeys(("bid", "auction", "person"), ("dateTime", 2000))

QUERIES = {
    "groups": ("SELECT bidder, COUNT(*) AS n, SUM(price) AS total FROM bids GROUP BY bidder", ("bidder",)),
    "join": (
        "SELECT b.auction, MAX(b.price) AS n, MIN(a.category) AS total FROM bids b JOIN auction a ON b.auction = a.id "
        "GROUP BY b.auction",
        ("auction",),
    ),
    "top": (
        "SELECT auction, price, bidder FROM (SELECT *, ROW_NUMBER() OVER (PARTITION BY auction ORDER BY price DESC) "
        "AS r FROM bids) WHERE r = 1",
        ("auction",),
    ),
}


@pytest.mark.long
@pytest.mark.parametrize("parallelism", [1, 2])
@pytest.mark.parametrize("name", sorted(QUERIES))
def test_a_job_that_failed_goes_on_where_it_was(tmp_path: Path, name: str, parallelism: int) -> None:
    check(tmp_path, name, parallelism, {})


@pytest.mark.long
@pytest.mark.parametrize("parallelism", [1, 2])
def test_a_join_on_disk_goes_on_where_it_was(tmp_path: Path, parallelism: int) -> None:
    on_disk = {"state.backend.type": "rocksdb", "millstream.state.cache-bytes": "1"}
    check(tmp_path, "join", parallelism, on_disk)


def check(tmp_path: Path, name: str, parallelism: int, options: dict[str, str]) -> None:
    oracle = Oracle(tmp_path, nexmark_tables(), LATE, row_group=32)
    query, (key,) = QUERIES[name]
    failures = tmp_path / "failures"
    failures.mkdir()

    @udf(result_type=DataTypes.BIGINT(), deterministic=True)
    def fails_twice(price: Any) -> Any:
        for place in (120, 240):
            mark = failures / str(place)
            if price % 1000 == place and not mark.exists():
                mark.write_text("")
                raise RuntimeError(f"told to fail at {place}")
        return price

    environment = oracle.environment(
        parallelism,
        17,
        {
            "execution.checkpointing.interval": "1 ms",
            "execution.checkpointing.dir": str(tmp_path / "checkpoints"),
            "restart-strategy.type": "fixed-delay",
            "restart-strategy.fixed-delay.attempts": "5",
            "restart-strategy.fixed-delay.delay": "1 ms",
            **options,
        },
    )
    environment.create_temporary_function("fails_twice", fails_twice)
    environment.execute_sql(
        "CREATE VIEW bids AS SELECT auction, bidder, fails_twice(price) AS price FROM bid WHERE price IS NOT NULL"
    )
    database = tmp_path / "out.db"
    names = ("bidder", "n", "total") if name == "groups" else ("auction", "n", "total")
    with sqlite3.connect(database) as connection:
        connection.execute(f"CREATE TABLE outcome ({names[0]} INTEGER PRIMARY KEY, n INTEGER, total INTEGER)")
    environment.execute_sql(
        f"CREATE TABLE outcome ({names[0]} BIGINT, n BIGINT, total BIGINT, PRIMARY KEY ({names[0]}) NOT ENFORCED) WITH "
        f"('connector' = 'jdbc', 'url' = 'jdbc:sqlite:{database}', 'table-name' = 'outcome')"
    )
    environment.execute_sql(f"INSERT INTO outcome {query}").wait()
    oracle.duck.execute("CREATE VIEW bids AS SELECT * FROM bid")
    wanted = sorted(tuple(map(int, row)) for row in oracle.duck.execute(query).fetchall())
    with sqlite3.connect(database) as connection:
        found = sorted(connection.execute("SELECT * FROM outcome").fetchall())
    assert len(list(failures.iterdir())) == 2, "the job did not fail"
    assert found == wanted
    assert key == names[0]
    oracle.duck.close()
