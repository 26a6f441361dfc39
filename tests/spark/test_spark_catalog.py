"""Spark's catalog in SQL: what Spark has is listed and described, and queries give what Spark gives."""

from __future__ import annotations

import uuid

import pytest

from millstream.base.errors import ConfigurationError, NotSupportedError
from millstream.graph.launcher import spark_session
from millstream.table import StreamTableEnvironment, TableEnvironment
from millstream.table.errors import ValidationError

pytestmark = pytest.mark.spark

TARGET = "local[2]"


@pytest.fixture
def view(new_environment):
    """Name of a view of Spark's with 30 rows in 3 partitions."""
    session = spark_session(new_environment(TARGET)._configuration)
    name = f"v{uuid.uuid4().hex[:8]}"
    frame = session.range(30).selectExpr(
        "id", "concat('n', id % 3) AS name", "CAST(id AS decimal(10,2)) AS price", "array(id) AS ids",
        "named_struct('x', id) AS place", "DATE'2024-01-31' AS `the day`",
    )  # fmt: skip
    frame.repartition(3).createOrReplaceTempView(name)
    yield name
    session.catalog.dropTempView(name)


def rows(tables, query):
    with tables.execute_sql(query).collect() as found:
        return sorted(tuple(row) for row in found)


@pytest.mark.long
def test_tables_of_spark_are_read(new_environment, view):
    tables = StreamTableEnvironment.create(new_environment(TARGET, 2))
    tables.execute_sql("CREATE CATALOG s WITH ('type' = 'spark')")
    tables.execute_sql("USE CATALOG s")
    assert (view,) in rows(tables, "SHOW TABLES") and ("default",) in rows(tables, "SHOW DATABASES")
    described = {row[0]: row[1] for row in rows(tables, f"DESCRIBE {view}")}
    assert described == {
        "id": "BIGINT",
        "name": "STRING",
        "price": "DECIMAL(10, 2)",
        "ids": "ARRAY<BIGINT NOT NULL>",
        "place": "ROW<x BIGINT NOT NULL>",
        "the day": "DATE",
    }
    session = spark_session(new_environment(TARGET)._configuration)
    text = f"SELECT name, COUNT(*) AS n, SUM(price) AS s, MAX(place.x) AS x FROM {view} WHERE id > 4 GROUP BY name"
    wanted = sorted(tuple(row) for row in session.sql(text).collect())
    tables.execute_sql("SET 'execution.runtime-mode' = 'batch'")
    assert rows(tables, text) == wanted
    assert len(rows(tables, f"SELECT `the day` FROM {view}")) == 30
    with pytest.raises(ValidationError, match="Did you mean"):
        tables.execute_sql(f"SELECT * FROM {view}x")
    with pytest.raises(NotSupportedError, match="only reads"):
        tables.execute_sql(f"INSERT INTO {view} SELECT * FROM {view}")
    with pytest.raises(NotSupportedError, match="read only"):
        tables.execute_sql("CREATE DATABASE d")


def test_columns_without_a_type_are_named():
    from millstream.table.catalog.spark_catalog import data_type_of_json

    with pytest.raises(NotSupportedError, match='column "c".*variant'):
        data_type_of_json("variant", "c")
    assert str(data_type_of_json({"type": "map", "keyType": "string", "valueType": "short",
                                  "valueContainsNull": True}, "c")) == "MAP<STRING NOT NULL, SMALLINT>"  # fmt: skip


def test_without_spark_the_catalog_says_so(monkeypatch):
    from millstream.table.catalog import spark_catalog

    def refuse(_):
        raise ConfigurationError("there is no Spark session")

    monkeypatch.setattr(spark_catalog, "spark_session", refuse)
    tables = TableEnvironment.create()
    with pytest.raises(ConfigurationError, match="no Spark session"):
        tables.execute_sql("CREATE CATALOG s WITH ('type' = 'spark')")
