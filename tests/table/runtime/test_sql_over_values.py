"""OVER by other columns than time: a stream with updates and deletions ends at what DuckDB says of the rows left."""

from __future__ import annotations

import json
from collections import Counter
from pathlib import Path
from random import Random

import duckdb
import pytest
from sql_runs import DELETE, INSERT, SqlRun, schema_of

from millstream.config.configuration import Configuration
from millstream.table.environment import TableEnvironment
from millstream.table.environment_settings import EnvironmentSettings
from millstream.table.errors import ValidationError
from millstream.table.expressions.rex import AggregateCall, SortKey
from millstream.table.plan.logical import OverFrame
from millstream.table.runtime.specs import OverSpec
from millstream.types.datatypes import DataTypes as D

SCHEMA = schema_of(D.STRING(), D.BIGINT(), D.BIGINT(False))
FRAMES = {
    "ROWS BETWEEN 1 PRECEDING AND 1 FOLLOWING": OverFrame(True, 1, 1),
    "RANGE BETWEEN 2 PRECEDING AND CURRENT ROW": OverFrame(False, 2, 0),
    "RANGE BETWEEN UNBOUNDED PRECEDING AND CURRENT ROW": OverFrame(False, None, 0),
}


def changes(random: Random, count: int):
    """Return changes, and the rows that are there in the end."""
    there: list[tuple] = []
    steps = []
    for number in range(count):
        if there and random.random() < 0.3:
            row = there.pop(random.randrange(len(there)))
            steps.append((0, (DELETE, row)))
        else:
            row = (random.choice(["a", "b", None]), random.choice([None, 1, 2, 3, 5, -4]), number % 20)
            there.append(row)
            steps.append((0, (INSERT, row)))
    return steps, there


def duck(rows, query):
    with duckdb.connect() as connection:
        connection.execute("CREATE TABLE t (k VARCHAR, v BIGINT, d BIGINT)")
        connection.executemany("INSERT INTO t VALUES (?, ?, ?)", rows)
        return Counter(connection.execute(query).fetchall())


@pytest.mark.parametrize("frame", FRAMES)
@pytest.mark.parametrize("seed", range(2))
def test_results_change_as_rows_come_and_go(seed: int, frame: str) -> None:
    random = Random(seed)
    steps, there = changes(random, 120)
    calls = [AggregateCall("COUNT", (), D.BIGINT(False)), AggregateCall("SUM", (1,), D.BIGINT())]
    text = (
        "SELECT k, v, d, COUNT(*) OVER w AS n, CAST(SUM(v) OVER w AS BIGINT) AS s FROM t "
        f"WINDOW w AS (PARTITION BY k ORDER BY v NULLS FIRST, d {frame})"
    )
    keys = (SortKey(1, False, True), SortKey(2, False, True))
    if frame.startswith("RANGE"):
        text, keys = text.replace(", d RANGE", " RANGE"), keys[:1]
    spec = OverSpec(
        SCHEMA,
        (0,),
        keys[0],
        False,
        FRAMES[frame],
        tuple(calls),
        None,
        keys[1:],
        by_values=True,
        retracts=True,
    )
    run = SqlRun(spec, [SCHEMA], [(0,)], random)
    got = run.run(steps)
    if frame.startswith("ROWS"):  # rows that are equal in both columns are equal
        assert Counter({row: n for row, n in got.items() if n}) == duck(there, text)
    else:
        assert got == duck(there, text)


def environment(mode: str) -> TableEnvironment:
    options = {"execution.target": "local", "parallelism.default": "2", "millstream.epoch.max-records": "4"}
    builder = EnvironmentSettings.new_instance().with_configuration(Configuration.from_dict(options))
    return TableEnvironment.create(
        (builder.in_batch_mode() if mode == "batch" else builder.in_streaming_mode()).build()
    )


ROWS = [
    ("a", 1, 5),
    ("a", 3, 1),
    ("b", 2, 2),
    ("a", 2, 4),
    ("b", 4, 7),
    ("a", 3, 0),
    ("a", None, 9),
    ("b", 9, 1),
]
QUERIES = [
    "SELECT k, v, d, SUM(d) OVER (PARTITION BY k ORDER BY v NULLS FIRST, d) AS s FROM t",
    "SELECT k, v, d, LAG(v, 1, -1) OVER w AS a, LEAD(v) OVER w AS b FROM t WINDOW w AS (PARTITION BY k ORDER BY d)",
    "SELECT k, v, d, NTILE(2) OVER w AS a, CUME_DIST() OVER w AS b, PERCENT_RANK() OVER w AS c "
    "FROM t WINDOW w AS (PARTITION BY k ORDER BY d)",
    "SELECT k, d, MAX(v) OVER (PARTITION BY k ORDER BY d DESC RANGE BETWEEN 2 PRECEDING AND 1 FOLLOWING) AS m FROM t",
    "SELECT k, n, SUM(n) OVER (ORDER BY n) AS s FROM (SELECT k, COUNT(*) AS n FROM t GROUP BY k) AS g",
]


@pytest.mark.parametrize("mode", ["batch", "streaming"])
def test_queries_give_what_duckdb_gives(mode: str) -> None:
    tables = environment(mode)
    values = ", ".join(f"('{k}', {'CAST(NULL AS INT)' if v is None else v}, {d})" for k, v, d in ROWS)
    tables.execute_sql(f"CREATE TEMPORARY VIEW t AS SELECT * FROM (VALUES {values}) AS t (k, v, d)")
    for query in QUERIES:
        found: Counter[tuple] = Counter()
        with tables.execute_sql(query).collect() as rows:
            for row in rows:
                found[tuple(row)] += -1 if row.get_row_kind().value & 1 else 1
        assert all(number >= 0 for number in found.values()), query
        assert Counter({row: n for row, n in found.items() if n}) == duck(ROWS, query), query


FLINK = json.loads(Path(__file__).with_name("flink_over.json").read_text(encoding="utf-8"))["cases"]
VALUES = (
    "('a', 1, CAST(5.0 AS DOUBLE)), ('a', 3, 1.0), ('b', 2, 2.0), ('a', 2, 4.0), ('b', 2, 7.0), ('a', 3, 0.5), "
    "('a', CAST(NULL AS INT), 9.0)"
)


@pytest.mark.parametrize("mode", ["batch", "streaming"])
def test_queries_give_what_flink_gives(mode: str) -> None:
    tables = environment(mode)
    tables.execute_sql(f"CREATE TEMPORARY VIEW v AS SELECT * FROM (VALUES {VALUES}) AS t (k, v, d)")
    for case in FLINK:
        if mode == "streaming" and "OVER (PARTITION BY k) " in case["sql"]:
            with pytest.raises(ValidationError, match="without ORDER BY"):
                tables.execute_sql(case["sql"])
            continue
        found: Counter[tuple] = Counter()
        with tables.execute_sql(case["sql"]).collect() as rows:
            for row in rows:
                found[tuple(row)] += -1 if row.get_row_kind().value & 1 else 1
        assert Counter({row: n for row, n in found.items() if n}) == Counter(map(tuple, case["rows"])), case[
            "sql"
        ]


def test_batch_results_can_be_written_where_only_inserts_can(tmp_path) -> None:
    tables = environment("batch")
    tables.execute_sql(
        f"CREATE TABLE files (k STRING, n BIGINT, s BIGINT) WITH ('connector' = 'filesystem', "
        f"'path' = '{tmp_path}/out', 'format' = 'csv')"
    )
    tables.execute_sql(
        "INSERT INTO files SELECT a.k, COUNT(*), SUM(b.n) FROM (VALUES ('a', 1), ('b', 2), ('a', 3)) AS a (k, v) "
        "LEFT JOIN (SELECT k, COUNT(*) AS n FROM (VALUES ('a'), ('a'), ('c')) AS c (k) GROUP BY k) AS b ON a.k = b.k "
        "GROUP BY a.k"
    ).wait()
    lines = [
        line
        for path in (tmp_path / "out").iterdir()
        if not path.name.startswith(".")
        for line in path.read_text().splitlines()
    ]
    assert sorted(lines) == ["a,2,4", "b,1,"]
