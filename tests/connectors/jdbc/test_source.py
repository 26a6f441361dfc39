"""Queries of SQLite and MariaDB, read through SQLAlchemy: whole, in splits, restored."""

from __future__ import annotations

import datetime
import pickle
from decimal import Decimal
from typing import Any

import pytest

from connectors.jdbc.conftest import Target
from millstream.base.errors import ConfigurationError, MalformedRecordError, SourceError
from millstream.common import WatermarkStrategy
from millstream.datastream.connectors.jdbc import (
    JdbcGenericParameterValuesProvider,
    JdbcNumericBetweenParametersProvider,
    JdbcSource,
)
from millstream.table import DataTypes
from millstream.testing import FailurePoint, MiniCluster, check_source
from millstream.testing.source_run import SourceRun


@pytest.fixture(params=["mariadb", "sqlite"])
def database(request: pytest.FixtureRequest) -> Target:
    """A database with a table of numbers from 1 to 100."""
    found: Target = request.getfixturevalue(f"{request.param}_target")
    found.execute("CREATE TABLE numbers (id INTEGER PRIMARY KEY, word VARCHAR(50))")
    words = ", ".join(f"({n}, 'w{n} \U0001f600')" for n in range(1, 101))
    found.execute(f"INSERT INTO numbers VALUES {words}")
    return found


def reading(target: Target, sql: str) -> Any:
    builder = JdbcSource.builder().set_db_url(target.url).set_sql(sql)
    user, password = target._login
    if user is not None and password is not None:
        builder.set_username(user).set_password(password)
    return builder.set_connection_check_timeout_seconds(1)


def test_a_query_in_splits_by_ranges_of_numbers(database: Target) -> None:
    source = (
        reading(database, "SELECT id, word FROM numbers WHERE id BETWEEN ? AND ? ORDER BY id")
        .set_jdbc_parameter_values_provider(JdbcNumericBetweenParametersProvider(1, 100).of_batch_size(15))
        .set_result_set_fetch_size(7)
        .build()
    )
    run = SourceRun(source, 3, 10)
    rows = run.run()
    assert sorted((row.id, row.word) for row in rows) == [(n, f"w{n} \U0001f600") for n in range(1, 101)]
    assert len(run.splits) == 7
    first = SourceRun(source, 2, 8)
    first.epoch()
    first.epoch()
    kept, before = first.snapshot(), [row.id for each in first.read for row in each]
    first.close()
    after = [row.id for row in SourceRun(source, 3, 11, restored=kept).run()]
    assert sorted(before + after) == list(range(1, 101))
    assert 20 < len(before) < 60


def test_results_are_extracted(database: Target) -> None:
    source = (
        reading(database, "SELECT word, id FROM numbers WHERE word LIKE 'w1%' AND id IN (?, ?) -- 100%?\n")
        .set_jdbc_parameter_values_provider(JdbcGenericParameterValuesProvider([(1, 2), (10, 100)]))
        .set_result_extractor(lambda row: (row.id, row[0][:3]))
        .build()
    )
    assert sorted(SourceRun(source, 2, 100).run()) == [(1, "w1 "), (10, "w10"), (100, "w10")]


def test_declared_types(database: Target) -> None:
    database.execute(
        "CREATE TABLE typed (n INTEGER, d VARCHAR(30), day VARCHAR(30), at VARCHAR(30), b BLOB, f INTEGER)"
    )
    database.execute("INSERT INTO typed VALUES (1, '12.5', '2024-02-29', '2024-02-29 12:00:00.5', NULL, 1)")
    kind = DataTypes.ROW(
        [
            DataTypes.FIELD("yes", DataTypes.BOOLEAN()),
            DataTypes.FIELD("d", DataTypes.DECIMAL(10, 2)),
            DataTypes.FIELD("day", DataTypes.DATE()),
            DataTypes.FIELD("at", DataTypes.TIMESTAMP(3)),
            DataTypes.FIELD("b", DataTypes.BYTES()),
            DataTypes.FIELD("f", DataTypes.DOUBLE()),
        ]
    )
    (row,) = SourceRun(reading(database, "SELECT * FROM typed").set_row_type(kind).build(), 1, 10).run()
    day = datetime.date(2024, 2, 29)
    moment = datetime.datetime(2024, 2, 29, 12, 0, 0, 500_000)
    assert tuple(row) == (True, Decimal("12.50"), day, moment, None, 1.0)
    assert (row.yes, isinstance(row.f, float)) == (True, True)
    database.execute("INSERT INTO typed VALUES (1, 'many', NULL, NULL, NULL, NULL)")
    run = SourceRun(reading(database, "SELECT * FROM typed").set_row_type(kind).build(), 1, 10)
    with pytest.raises(MalformedRecordError, match="column 'd'"):
        run.run()
    run.close()


def test_trouble_is_told_without_passwords(database: Target) -> None:
    run = SourceRun(reading(database, "SELECT * FROM nowhere").build(), 1, 10)
    with pytest.raises(SourceError, match="does not give the rows of the query") as raised:
        run.run()
    assert "nowhere" in (raised.value.detail or "")
    source = reading(database, "SELECT id FROM numbers WHERE id = ?").build()
    with pytest.raises(ConfigurationError, match="1 question marks, and a split 0 values"):
        source.build_enumerator(1, None)
    if database.kind == "mariadb":
        secret = "wrong-secret"
        refused = reading(database, "SELECT id FROM numbers").set_password(secret).build()
        assert secret not in repr(refused) + str(refused)
        assert secret.encode() not in pickle.dumps(refused.build_enumerator(1, None).snapshot())
        run = SourceRun(refused, 1, 10)
        with pytest.raises(SourceError) as raised:
            run.run()
        assert secret not in str(raised.value)


def test_what_a_builder_refuses() -> None:
    with pytest.raises(ConfigurationError, match="has no query"):
        JdbcSource.builder().set_db_url("jdbc:sqlite:/tmp/x.db").build()
    with pytest.raises(ConfigurationError, match="no URL"):
        JdbcSource.builder().set_sql("SELECT 1").build()
    with pytest.raises(ConfigurationError, match="cannot reach databases of the kind 'nosuch'"):
        JdbcSource.builder().set_sql("SELECT 1").set_db_url("nosuch://host/db").build()


@pytest.mark.long
def test_what_sources_have_to_keep_to(sqlite_target: Target) -> None:
    sqlite_target.execute("CREATE TABLE numbers (id INTEGER PRIMARY KEY)")
    values = ", ".join(f"({n})" for n in range(1, 41))
    sqlite_target.execute(f"INSERT INTO numbers VALUES {values}")
    source = (
        reading(sqlite_target, "SELECT id FROM numbers WHERE id BETWEEN ? AND ? ORDER BY id")
        .set_jdbc_parameter_values_provider(JdbcNumericBetweenParametersProvider(1, 40).of_batch_num(5))
        .set_result_extractor(tuple)
        .build()
    )
    check_source(source, expected=[(n,) for n in range(1, 41)], parallelisms=(2,), budgets=(7,))


@pytest.mark.long
@pytest.mark.parametrize("point", list(FailurePoint))
def test_jobs_that_fail_give_each_row_once(database: Target, point: FailurePoint) -> None:
    source = (
        reading(database, "SELECT id FROM numbers WHERE id BETWEEN ? AND ? ORDER BY id")
        .set_jdbc_parameter_values_provider(JdbcNumericBetweenParametersProvider(1, 100).of_batch_num(4))
        .build()
    )
    with MiniCluster(parallelism=2, options={"millstream.epoch.fixed-records": 10}) as cluster:
        cluster.fail_at(point, 2)
        stream = cluster.environment().from_source(source, WatermarkStrategy.no_watermarks(), "numbers")
        assert sorted(cluster.collect(stream.map(lambda row: row.id))) == list(range(1, 101))
