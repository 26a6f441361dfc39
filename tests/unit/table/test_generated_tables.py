from __future__ import annotations

import pickle

import pytest

from millstream.base.errors import ConfigurationError, TypeMismatchError
from millstream.config.configuration import Configuration
from millstream.datastream import StreamExecutionEnvironment
from millstream.table import (
    DataTypes,
    EnvironmentSettings,
    Schema,
    StreamTableEnvironment,
    TableDescriptor,
)
from millstream.table.datagen import build_datagen_source
from millstream.table.errors import ValidationError


def describe(*columns, connector="datagen", **options):
    schema = Schema.new_builder()
    for name, kind in columns:
        schema.column(name, kind)
    builder = TableDescriptor.for_connector(connector).schema(schema.build())
    for key, value in options.items():
        builder.option(key.replace("__", ".").replace("_", "-"), value)
    return builder.build()


@pytest.fixture
def environments():
    settings = {"execution.target": "local", "parallelism.default": 2, "millstream.epoch.fixed-records": 7}
    environment = StreamExecutionEnvironment.get_execution_environment(Configuration.from_dict(settings))
    return environment, StreamTableEnvironment.create(stream_execution_environment=environment)


def collect(tables, descriptor):
    tables.create_temporary_table("t", descriptor)
    with tables.to_data_stream(tables.from_path("t")).execute_and_collect() as rows:
        return list(rows)


def test_rows_of_a_generated_table_have_names_bounds_and_a_count(environments):
    _, tables = environments
    descriptor = describe(
        ("id", DataTypes.BIGINT()),
        ("n", DataTypes.INT()),
        ("s", DataTypes.STRING()),
        ("d", DataTypes.DOUBLE()),
        ("b", DataTypes.BOOLEAN()),
        number_of_rows=50,
        rows_per_second=1_000_000,
        fields__id__kind="sequence",
        fields__id__start=10,
        fields__id__end=200,
        fields__n__min=-1,
        fields__n__max=1,
        fields__s__length=4,
        fields__d__min=0,
        fields__d__max=1,
    )
    rows = collect(tables, descriptor)
    assert sorted(row.id for row in rows) == list(range(10, 60))
    assert {row.n for row in rows} == {-1, 0, 1}
    assert {len(row.s) for row in rows} == {4}
    assert all(0 <= row.d <= 1 for row in rows)
    assert {row.b for row in rows} == {True, False}


def test_shortest_sequence_ends_the_table(environments):
    _, tables = environments
    columns = [("a", DataTypes.INT()), ("b", DataTypes.INT())]
    options = {f"fields__{name}__kind": "sequence" for name, _ in columns} | {"rows_per_second": 1_000_000}
    bounds = {"fields__a__start": 1, "fields__a__end": 100, "fields__b__start": 5, "fields__b__end": 7}
    rows = collect(tables, describe(*columns, **options, **bounds))
    assert sorted((row.a, row.b) for row in rows) == [(1, 5), (2, 6), (3, 7)]


def test_row_is_the_same_whenever_it_is_made_again():
    source = build_datagen_source(describe(("n", DataTypes.INT()), number_of_rows=10))
    copy = pickle.loads(pickle.dumps(source))
    assert [source._function(i) for i in range(10)] == [copy._function(i) for i in reversed(range(10))][::-1]


@pytest.mark.parametrize(
    "options",
    [
        {"rows_per_second": "fast"},
        {"fields__x__min": 1},
        {"fields__n__kind": "odd"},
        {"fields__n__kind": "sequence"},
    ],
)
def test_option_that_does_not_fit_is_told(options):
    with pytest.raises(ConfigurationError):
        build_datagen_source(describe(("n", DataTypes.INT()), **options))


def test_settings_of_tables_hold_for_the_streams_beside_them(environments):
    environment, _ = environments
    config = Configuration().set_string("parallelism.default", "3")
    settings = EnvironmentSettings.new_instance().in_batch_mode().with_configuration(config).build()
    tables = StreamTableEnvironment.create(environment, settings)
    assert environment.get_parallelism() == 3
    bounds = {"fields__n__start": 1, "fields__n__end": 4}
    rows = describe(("n", DataTypes.INT()), number_of_rows=4, fields__n__kind="sequence", **bounds)
    assert sorted(row.n for row in collect(tables, rows)) == [1, 2, 3, 4]


def test_what_does_not_fit_a_table_environment_is_told(environments):
    environment, tables = environments
    with pytest.raises(TypeMismatchError, match="environment_settings is a object"):
        StreamTableEnvironment.create(environment, environment_settings=object())
    with pytest.raises(ValidationError, match="was not found"):
        tables.from_path("nowhere")
    with pytest.raises(TypeMismatchError, match="was given 7 as its type"):
        Schema.new_builder().column("n", 7)
    assert Schema.new_builder().column("n", "INT").build().columns == (("n", DataTypes.INT()),)
