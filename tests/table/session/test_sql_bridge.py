"""Streams as tables and tables as streams, in one program."""

from __future__ import annotations

import datetime
from decimal import Decimal

import pandas as pd
import pyarrow as pa
import pytest

from millstream.base.errors import TypeMismatchError
from millstream.common.watermark_strategy import TimestampAssigner, WatermarkStrategy
from millstream.config.configuration import Configuration
from millstream.datastream import StreamExecutionEnvironment
from millstream.table import DataTypes, Schema, StreamTableEnvironment
from millstream.table.changelog_mode import ChangelogMode
from millstream.table.errors import ValidationError
from millstream.types.row import Row, RowKind
from millstream.types.typeinfo import Types


@pytest.fixture
def both():
    options = {"execution.target": "local", "parallelism.default": "1", "table.local-time-zone": "UTC"}
    environment = StreamExecutionEnvironment.get_execution_environment(Configuration.from_dict(options))
    return environment, StreamTableEnvironment.create(environment)


def collected(stream):
    with stream.execute_and_collect() as rows:
        return list(rows)


def rows_of(tables, query):
    with tables.execute_sql(query).collect() as found:
        return [tuple(row) for row in found]


PEOPLE = Types.ROW_NAMED(["id", "name"], [Types.INT(), Types.STRING()])


def test_stream_of_rows_is_a_table_and_back(both):
    environment, tables = both
    stream = environment.from_collection([Row(1, "a"), Row(2, None)], type_info=PEOPLE)
    tables.create_temporary_view("people", tables.from_data_stream(stream))
    back = tables.to_data_stream(tables.sql_query("SELECT id * 10 AS k, name FROM people"))
    assert [(row.k, row.name) for row in collected(back)] == [(10, "a"), (20, None)]
    assert back.get_type() == Types.ROW_NAMED(["k", "name"], [Types.INT(), Types.STRING()])


def test_what_the_program_built_is_not_run_by_a_query(both):
    environment, tables = both
    stream = environment.from_collection([1, 2], type_info=Types.INT())
    mapped = stream.map(lambda value: value + 1, output_type=Types.INT())
    mapped.print()
    tables.create_temporary_view("numbers", tables.from_data_stream(stream))
    assert rows_of(tables, "SELECT SUM(f0) FROM numbers")[-1] == (3,)
    assert len(environment._transformations) >= 3, "the program's own stream waits for execute()"


@pytest.mark.parametrize(
    ("kind", "values", "names", "expected"),
    [
        (Types.INT(), [1, 2], ["f0"], [(1,), (2,)]),
        (Types.TUPLE([Types.LONG(), Types.STRING()]), [(1, "a")], ["f0", "f1"], [(1, "a")]),
        (
            Types.ROW([Types.BIG_DEC()]),
            [Row(Decimal("1.5"))],
            ["f0"],
            [(Decimal("1.5").quantize(Decimal("1e-18")),)],
        ),
        (
            Types.ROW([Types.SQL_DATE()]),
            [Row(datetime.date(2024, 1, 31))],
            ["f0"],
            [(datetime.date(2024, 1, 31),)],
        ),
        (Types.ROW([Types.LIST(Types.INT())]), [Row([1, 2])], ["f0"], [([1, 2],)]),
        (Types.ROW([Types.MAP(Types.STRING(), Types.INT())]), [Row({"a": 1})], ["f0"], [({"a": 1},)]),
    ],
)
def test_records_of_any_declared_type_are_columns(both, kind, values, names, expected):
    environment, tables = both
    table = tables.from_data_stream(environment.from_collection(values, type_info=kind))
    assert list(table.get_schema().get_field_names()) == names
    with table.execute().collect() as found:
        assert [tuple(row) for row in found] == expected


def test_stream_without_a_type_is_refused(both):
    environment, tables = both
    with pytest.raises(TypeMismatchError, match="not declared"):
        tables.from_data_stream(environment.from_collection([object]).map(lambda value: value))


class At(TimestampAssigner):
    def extract_timestamp(self, value, record_timestamp):
        return value[1] * 1000


def test_timestamps_and_watermarks_of_a_stream_are_event_time(both):
    environment, tables = both
    strategy = WatermarkStrategy.for_monotonous_timestamps().with_timestamp_assigner(At())
    kind = Types.ROW_NAMED(["name", "s"], [Types.STRING(), Types.LONG()])
    records = [Row("a", 1), Row("a", 2), Row("b", 6)]
    stream = environment.from_collection(records, type_info=kind).assign_timestamps_and_watermarks(strategy)
    schema = (
        Schema.new_builder()
        .column_by_metadata("ts", "TIMESTAMP_LTZ(3)", "rowtime")
        .watermark("ts", "SOURCE_WATERMARK()")
        .build()
    )
    tables.create_temporary_view("events", tables.from_data_stream(stream, schema))
    counted = rows_of(
        tables,
        "SELECT name, COUNT(*) FROM TABLE(TUMBLE(TABLE events, DESCRIPTOR(ts), INTERVAL '5' SECOND)) "
        "GROUP BY name, window_start, window_end",
    )
    assert sorted(counted) == [("a", 2), ("b", 1)]


def test_changes_go_in_and_out_with_their_kinds(both):
    environment, tables = both

    def row(kind, *values):
        made = Row(*values)
        made.set_row_kind(kind)
        return made

    changes = [
        row(RowKind.INSERT, 1, "a"),
        row(RowKind.UPDATE_BEFORE, 1, "a"),
        row(RowKind.UPDATE_AFTER, 1, "b"),
        row(RowKind.INSERT, 2, "c"),
        row(RowKind.DELETE, 2, "c"),
    ]
    stream = environment.from_collection(changes, type_info=PEOPLE)
    tables.create_temporary_view("changing", tables.from_changelog_stream(stream))
    back = collected(tables.to_changelog_stream(tables.sql_query("SELECT id, name FROM changing")))
    assert [(each.get_row_kind(), tuple(each)) for each in back] == [
        (each.get_row_kind(), tuple(each)) for each in changes
    ]
    total = rows_of(tables, "SELECT COUNT(*) FROM changing")
    assert total[-1] == (1,)
    with pytest.raises(ValidationError, match="update"):
        tables.to_data_stream(tables.sql_query("SELECT COUNT(*) FROM changing"))


def test_updates_without_the_row_before_need_a_key(both):
    environment, tables = both
    stream = environment.from_collection([Row(1, "a")], type_info=PEOPLE)
    with pytest.raises(ValidationError, match="primary key"):
        tables.from_changelog_stream(stream, None, ChangelogMode.upsert()).execute()
    schema = Schema.new_builder().column("id", "INT").column("name", "STRING").primary_key("id").build()
    table = tables.from_changelog_stream(stream, schema, ChangelogMode.upsert())
    with table.execute().collect() as found:
        assert [tuple(row) for row in found] == [(1, "a")]


def test_retract_stream_tells_rows_that_come_from_those_that_go(both):
    environment, tables = both
    kind = Types.ROW_NAMED(["id", "n"], [Types.INT(), Types.LONG()])
    stream = environment.from_collection([Row(1, "a"), Row(2, "b")], type_info=PEOPLE)
    tables.create_temporary_view("people", tables.from_data_stream(stream))
    table = tables.sql_query("SELECT id, COUNT(*) AS n FROM people GROUP BY id")
    found = collected(tables.to_retract_stream(table, kind))
    assert sorted((comes, tuple(row)) for comes, row in found) == [(True, (1, 1)), (True, (2, 1))]
    appended = tables.to_append_stream(
        tables.sql_query("SELECT id, 5 FROM people"), Types.TUPLE([Types.INT(), Types.INT()])
    )
    assert collected(appended) == [(1, 5), (2, 5)]


def test_values_frames_and_arrow_tables_are_tables(both):
    _, tables = both
    values = tables.from_elements([(1, "a"), (2, None)], ["id", "name"])
    with values.execute().collect() as found:
        assert [tuple(row) for row in found] == [(1, "a"), (2, None)]
    typed = DataTypes.ROW(
        [
            DataTypes.FIELD("id", DataTypes.TINYINT()),
            DataTypes.FIELD("tags", DataTypes.ARRAY(DataTypes.STRING())),
        ]
    )
    with tables.from_elements([(1, ["x"])], typed).execute().collect() as found:
        assert [tuple(row) for row in found] == [(1, ["x"])]
    with pytest.raises(TypeMismatchError, match='field "id"'):
        tables.from_elements([("x", [])], typed)
    frame = tables.from_pandas(pd.DataFrame({"a": [1, 2], "b": [0.5, None]}), ["x", "y"])
    with frame.execute().collect() as found:
        assert [tuple(row) for row in found] == [(1, 0.5), (2, None)]
    arrow = tables.from_arrow(pa.table({"a": pa.array([1], pa.int8())}))
    with arrow.execute().collect() as found:
        assert [tuple(row) for row in found] == [(1,)]


def test_updates_by_a_key_that_the_query_does_not_read(both):
    environment, tables = both
    rows = [
        Row.of_kind(RowKind.INSERT, 1, "a"),
        Row.of_kind(RowKind.INSERT, 2, "b"),
        Row.of_kind(RowKind.UPDATE_AFTER, 1, "b"),
        Row.of_kind(RowKind.DELETE, 2, "b"),
    ]
    for row in rows:
        row.set_field_names(["id", "name"])
    stream = environment.from_collection(rows, type_info=PEOPLE)
    schema = (
        Schema.new_builder().column("id", "INT NOT NULL").column("name", "STRING").primary_key("id").build()
    )
    table = tables.from_changelog_stream(stream, schema, ChangelogMode.upsert())
    tables.create_temporary_view("people", table)
    assert rows_of(tables, "SELECT name, COUNT(*) FROM people GROUP BY name") == [("b", 1)]


def test_the_primary_key_of_a_stream_is_the_upsert_key_of_a_query(both):
    environment, tables = both
    stream = environment.from_collection([Row(1, "a")], type_info=PEOPLE)
    schema = (
        Schema.new_builder().column("id", "INT NOT NULL").column("name", "STRING").primary_key("id").build()
    )
    tables.create_temporary_view("people", tables.from_changelog_stream(stream, schema))
    tables.execute_sql(
        "CREATE TABLE o (id INT, name STRING, PRIMARY KEY (id) NOT ENFORCED) WITH ('connector' = 'print')"
    )
    plan = tables.explain_sql("INSERT INTO o SELECT id, name FROM people ON CONFLICT DO ERROR")
    assert "upsertMaterialize" not in plan
