"""The contract of sinks, held against real databases."""

from __future__ import annotations

import pytest

from millstream.common import Row, Types
from millstream.datastream.connectors.jdbc import JdbcExactlyOnceOptions, JdbcExecutionOptions, JdbcSink
from millstream.testing import SinkTarget, check_sink

TYPE = Types.ROW_NAMED(["id", "word"], [Types.LONG(), Types.STRING()])
BATCHES = JdbcExecutionOptions.builder().with_batch_size(1_000).build()


def record(number):
    return Row(id=number, word=f"w{number} 🎈")


def key(row):
    return tuple(row)


def by_insert(target, table, once):
    sql = f"INSERT INTO {table} (id, word) VALUES (?, ?)"
    return JdbcSink.exactly_once_sink(sql, TYPE, target.options(), BATCHES, once)


def by_append(target, table, once):
    builder = JdbcSink.table(table).with_type_info(TYPE).with_execution_options(BATCHES)
    return builder.build_exactly_once(target.options(), once)


def by_upsert(target, table, once):
    builder = (
        JdbcSink.table(table).with_type_info(TYPE).with_key_columns("id").with_execution_options(BATCHES)
    )
    return builder.build_exactly_once(target.options(), once)


LONG = pytest.mark.long
CASES = [
    pytest.param("postgres", by_append),
    pytest.param("postgres", by_upsert),
    pytest.param("postgres", by_insert, marks=LONG),
    pytest.param("mariadb", by_append, marks=LONG),
    pytest.param("mariadb", by_upsert, marks=LONG),
    pytest.param("mariadb", by_insert),
    pytest.param("sqlite", by_append, marks=LONG),
    pytest.param("sqlite", by_upsert),
    pytest.param("sqlite", by_insert, marks=LONG),
]


@pytest.mark.parametrize(("target", "new_sink"), CASES, indirect=["target"])
def test_rows_are_published_exactly_once(target, new_sink):
    def new_target():
        table, markers, before = target.new_table(), target.new_name(), target.stage_tables()
        once = JdbcExactlyOnceOptions.builder().with_marker_table(markers).build()
        return SinkTarget(
            new_sink(target, table, once),
            read=lambda: target.rows(table),
            staged=lambda: [*target.stages(markers), *(target.stage_tables() - before)],
        )

    check_sink(new_target, record=record, key=key, parallelisms=((2, 1),))


def test_at_least_once_loses_nothing(target):
    def new_target():
        table = target.new_table("CREATE TABLE {} (id BIGINT NOT NULL, word VARCHAR(100))")
        sql = f"INSERT INTO {table} (id, word) VALUES (?, ?)"
        return SinkTarget(
            JdbcSink.sink(sql, TYPE, target.options(), BATCHES), read=lambda: target.rows(table)
        )

    check_sink(new_target, record=record, key=key, parallelisms=((2, 1),))


@pytest.mark.parametrize("target", ["postgres", pytest.param("mariadb", marks=LONG)], indirect=True)
def test_upserts_at_least_once_double_nothing(target):
    def new_target():
        table = target.new_table()
        builder = (
            JdbcSink.table(table).with_type_info(TYPE).with_key_columns("id").with_execution_options(BATCHES)
        )
        return SinkTarget(builder.build_at_least_once(target.options()), read=lambda: target.rows(table))

    check_sink(new_target, record=record, key=key, parallelisms=((1, 2),))
