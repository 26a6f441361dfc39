"""What a source knows of its records is the type of its stream."""

from __future__ import annotations

import pytest

from millstream.base.errors import TypeMismatchError
from millstream.common import Row, SimpleStringSchema, Types, WatermarkStrategy
from millstream.common.source_functions import SourceFunction
from millstream.connectors.number_sequence import NumberSequenceSource
from millstream.datastream.connectors.base import MalformedPolicy
from millstream.datastream.connectors.datagen import DataGeneratorSource
from millstream.datastream.connectors.file_system import FileSource, StreamFormat
from millstream.datastream.connectors.hybrid_source import HybridSource
from millstream.datastream.connectors.kafka import (
    FlinkKafkaConsumer,
    KafkaRecordDeserializationSchema,
    KafkaSource,
)
from millstream.datastream.connectors.kinesis import FlinkKinesisConsumer
from millstream.datastream.formats.csv import CsvReaderFormat, CsvSchema
from millstream.datastream.formats.json import JsonRowDeserializationSchema
from millstream.spi.serialization import DeserializationSchema, produced_type_of
from millstream.table import DataTypes
from millstream.testing import MiniCluster

ROWS = Types.ROW_NAMED(["id", "name"], [Types.LONG(), Types.STRING()])
JSON = JsonRowDeserializationSchema.builder().type_info(ROWS).build()
NONE = WatermarkStrategy.no_watermarks()


class Undeclared(DeserializationSchema):
    def deserialize(self, message):
        return message


class Lengths(SimpleStringSchema):
    def deserialize(self, message):
        return len(message)


class TypedLengths(Lengths):
    def get_produced_type(self):
        return Types.INT()


class Keys(KafkaRecordDeserializationSchema):
    def deserialize(self, record):
        return record.key.decode()

    def get_produced_type(self):
        return Types.STRING()


def kafka(schema):
    builder = KafkaSource.builder().set_bootstrap_servers("localhost:9").set_topics("a")
    is_of_records = isinstance(schema, KafkaRecordDeserializationSchema)
    (builder.set_deserializer if is_of_records else builder.set_value_only_deserializer)(schema)
    return builder.build()


@pytest.mark.parametrize(
    ("schema", "expected"),
    [
        (SimpleStringSchema(), Types.STRING()),
        (JSON, ROWS),
        (Undeclared(), None),
        (Lengths(), None),
        (TypedLengths(), Types.INT()),
    ],
)
def test_schema_tells_the_type_of_values_that_it_makes_itself(schema, expected):
    assert produced_type_of(schema) == expected
    assert kafka(schema).get_produced_type() == expected
    assert kafka(KafkaRecordDeserializationSchema.value_only(schema)).get_produced_type() == expected
    consumer = FlinkKafkaConsumer("a", schema, {"bootstrap.servers": "localhost:9"})
    assert consumer.get_produced_type() == expected
    kinesis = FlinkKinesisConsumer("a", schema, {"aws.region": "eu-central-1"})
    assert kinesis.get_produced_type() == expected


def test_schema_of_whole_records_may_tell_a_type():
    assert kafka(Keys()).get_produced_type() == Types.STRING()
    assert kafka(KafkaRecordDeserializationSchema.records()).get_produced_type() is None


def test_stream_has_the_type_that_its_source_tells_or_the_one_that_is_given():
    with MiniCluster() as cluster:
        environment = cluster.environment()
        assert environment.from_source(kafka(JSON), NONE, "a").get_type() == ROWS
        other = Types.ROW_NAMED(["id", "name"], [Types.INT(), Types.STRING()])
        assert environment.from_source(kafka(JSON), NONE, "a", other).get_type() == other
        assert environment.from_source(kafka(Undeclared()), NONE, "a").get_type() == (
            Types.PICKLED_BYTE_ARRAY()
        )


def test_sources_beside_those_of_messages_tell_types_too(tmp_path):
    numbers = NumberSequenceSource(1, 3)
    assert numbers.get_produced_type() == Types.LONG()
    assert HybridSource.builder(numbers).add_source(numbers).build().get_produced_type() == Types.LONG()
    mixed = HybridSource.builder(numbers).add_source(kafka(JSON)).build()
    assert mixed.get_produced_type() is None
    pairs = Types.TUPLE([Types.LONG(), Types.STRING()])
    assert DataGeneratorSource(lambda n: (n, "a"), 3, type_info=pairs).get_produced_type() == pairs
    lines = FileSource.for_record_stream_format(StreamFormat.text_line_format(), str(tmp_path))
    assert lines.build().get_produced_type() == Types.STRING()
    assert lines.add_metadata().build().get_produced_type() is None
    schema = CsvSchema.builder().add_number_column("id", DataTypes.BIGINT()).add_string_column("name").build()
    csv = FileSource.for_record_stream_format(CsvReaderFormat.for_schema(schema), str(tmp_path)).build()
    assert csv.get_produced_type() == ROWS
    by_header = FileSource.for_record_stream_format(CsvReaderFormat.for_header(), str(tmp_path)).build()
    assert by_header.get_produced_type() is None


class Words(SourceFunction):
    def run(self, ctx):
        for word in ("a", "b"):
            ctx.collect(word)

    def get_produced_type(self):
        return Types.STRING()


def test_source_function_may_tell_a_type():
    with MiniCluster() as cluster:
        environment = cluster.environment()
        words = environment.add_source(Words())
        assert words.get_type() == Types.STRING()
        assert list(words.execute_and_collect()) == ["a", "b"]


def test_rows_of_files_are_printed_as_flink_prints_them_and_stay_rows(tmp_path):
    (tmp_path / "a.csv").write_text("1,ann\n2,\n")
    schema = CsvSchema.builder().add_number_column("id", DataTypes.BIGINT()).add_string_column("name").build()
    source = FileSource.for_record_stream_format(CsvReaderFormat.for_schema(schema), str(tmp_path)).build()
    with MiniCluster() as cluster:
        environment = cluster.environment()
        rows = environment.from_source(source, NONE, "rows")
        assert rows.get_type().to_printed(Row(id=1, name=None)) == "+I(1,null)"
        made = environment.from_collection([Row(id=3, name="cy")], ROWS)
        records = list(rows.union(made).execute_and_collect())
        assert sorted(records, key=lambda row: row.id) == [
            Row(id=1, name="ann"),
            Row(id=2, name=""),
            Row(id=3, name="cy"),
        ]


def test_produced_type_that_is_none_is_refused():
    class Mistaken(Undeclared):
        def get_produced_type(self):
            return str

    with MiniCluster() as cluster, pytest.raises(TypeMismatchError):
        cluster.environment().from_source(kafka(Mistaken()), NONE, "a")


def test_policy_changes_nothing_about_the_type():
    source = (
        KafkaSource.builder()
        .set_bootstrap_servers("localhost:9")
        .set_topics("a")
        .set_value_only_deserializer(JSON)
        .set_malformed_policy(MalformedPolicy.skip())
        .build()
    )
    assert source.get_produced_type() == ROWS
