"""The connector `kafka`: topics as tables that only grow, or, by formats of changes, as tables that change."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any

from millstream.base.errors import ConfigurationError, NotSupportedError
from millstream.common.watermark_strategy import WatermarkStrategy
from millstream.connectors.guarantee import DeliveryGuarantee
from millstream.connectors.kafka.offsets import KafkaOffsetResetStrategy, KafkaOffsetsInitializer
from millstream.connectors.kafka.partitions import KafkaTopicPartition
from millstream.connectors.kafka.serialization import KafkaRecordSerializationSchema
from millstream.connectors.kafka.sink import KafkaSink
from millstream.connectors.kafka.source import KafkaSource
from millstream.operators.sink import SinkSpec
from millstream.table.connectors.base import SinkRequest, TableConnector
from millstream.table.connectors.conversion import FromSqlSpec, ToSqlSpec
from millstream.table.connectors.kafka_records import METADATA, FieldsOf, TableRecords
from millstream.table.connectors.message_formats import (
    check_format,
    format_mode,
    message_reader,
    message_writer,
    wire_type,
)
from millstream.table.connectors.print_sinks import with_parallelism
from millstream.table.plan.changes import INSERT_ONLY, ChangelogMode
from millstream.types.datatypes import DataType, RowField, RowType

__all__ = ["KafkaConnector"]

_STARTUPS = ("earliest-offset", "latest-offset", "group-offsets", "timestamp", "specific-offsets")
_ENDS = ("unbounded", "latest-offset", "group-offsets", "timestamp", "specific-offsets")


class KafkaConnector(TableConnector):
    """Reads and writes topics; options as Flink's.

    `topic`, `topic-pattern`, `properties.*`, `format`, `key.format`, `key.fields`, `key.fields-prefix`, `value.format`,
    `value.fields-include`, `scan.startup.*`, `scan.bounded.*`, `sink.delivery-guarantee`,
    `sink.transactional-id-prefix`, `sink.parallelism`, `scan.parallelism`.
    """

    name = "kafka"

    # --- options

    def check(self) -> None:
        """Check the options, by making source and sink schemas."""
        options = self.options
        options.required("properties.bootstrap.servers", "localhost:9092")
        self._topics()
        self._startup()
        self._end()
        self._value_format()
        self._key_fields()
        for key in ("scan.parallelism", "sink.parallelism"):
            options.integer(key, smallest=1)
        options.choice("sink.delivery-guarantee", ("none", "at-least-once", "exactly-once"), "at-least-once")
        options.text("sink.transactional-id-prefix")
        options.choice("sink.partitioner", ("default",), "default")
        options.duration("scan.topic-partition-discovery.interval")
        self._record_schema(tuple(range(len(self.table.schema))))
        options.check_all_read()

    def _value_format(self) -> str:
        plain, value = self.options.text("format"), self.options.text("value.format")
        if plain is not None and value is not None:
            raise ConfigurationError(
                f"table \"{self.table.full_name}\" has 'format' and 'value.format'", hint="Leave one out."
            )
        return check_format(plain or value or self.options.required("format", "json"))

    @property
    def _value_prefix(self) -> str:
        return "value." if self.options.text("value.format") is not None else ""

    def _key_fields(self) -> tuple[str, ...]:
        """Return the columns of the key, by their names in the table."""
        text = self.options.text("key.fields")
        names = tuple(name.strip() for name in text.split(";")) if text else ()
        has_format = self.options.text("key.format") is not None
        prefix = self._key_prefix
        for name in names:
            if self.table.column(name) is None:
                raise self.options.error("key.fields", text or "", f'The table has no column "{name}".')
            if not name.startswith(prefix):
                raise self.options.error(
                    "key.fields", text or "", f'"{name}" does not begin with "{prefix}".'
                )
        if has_format != bool(names):
            raise ConfigurationError(
                f"table \"{self.table.full_name}\" has only one of 'key.format' and 'key.fields'",
                hint="Set both.",
            )
        return names

    @property
    def _key_prefix(self) -> str:
        return self.options.text("key.fields-prefix", "") or ""

    def _topics(self) -> list[str]:
        topic, pattern = self.options.text("topic"), self.options.text("topic-pattern")
        if (topic is None) == (pattern is None):
            raise ConfigurationError(
                f"table \"{self.table.full_name}\" has {'neither' if topic is None else 'both'} of 'topic' and "
                "'topic-pattern'",
                hint="Set one of them.",
            )
        return [] if topic is None else [name.strip() for name in topic.split(";")]

    def _startup(self) -> KafkaOffsetsInitializer:
        mode = self.options.choice("scan.startup.mode", _STARTUPS, "group-offsets")
        return self._offsets(mode, "scan.startup")

    def _end(self) -> KafkaOffsetsInitializer | None:
        mode = self.options.choice("scan.bounded.mode", _ENDS, "unbounded")
        return None if mode == "unbounded" else self._offsets(mode, "scan.bounded")

    def _offsets(self, mode: str, prefix: str) -> KafkaOffsetsInitializer:
        at_ms = self.options.integer(f"{prefix}.timestamp-millis")
        specific = self.options.text(f"{prefix}.specific-offsets")
        if mode == "earliest-offset":
            return KafkaOffsetsInitializer.earliest()
        if mode == "latest-offset":
            return KafkaOffsetsInitializer.latest()
        if mode == "group-offsets":
            reset = (self.options.text("properties.auto.offset.reset", "none") or "none").upper()
            return KafkaOffsetsInitializer.committed_offsets(KafkaOffsetResetStrategy[reset])
        if mode == "timestamp":
            if at_ms is None:
                self.options.required(f"{prefix}.timestamp-millis", "1700000000000")
            return KafkaOffsetsInitializer.timestamp(at_ms or 0)
        return KafkaOffsetsInitializer.offsets(self._specific(specific, f"{prefix}.specific-offsets"))

    def _specific(self, text: str | None, key: str) -> dict[KafkaTopicPartition, int]:
        found = {}
        for part in (text or self.options.required(key, "partition:0,offset:42")).split(";"):
            match = re.fullmatch(r"\s*partition:(\d+),\s*offset:(\d+)\s*", part)
            if match is None:
                raise self.options.error(
                    key, text or "", "It is like partition:0,offset:42;partition:1,offset:300."
                )
            found[KafkaTopicPartition(self._topics()[0], int(match[1]))] = int(match[2])
        return found

    # --- reading

    def is_bounded(self) -> bool:
        """Return whether an end was set."""
        return self._end() is not None

    def scan_mode(self) -> ChangelogMode:
        """Return the kinds of change of the format."""
        return format_mode(self._value_format())

    def readable_metadata(self) -> Mapping[str, Any]:
        """Return what Kafka knows of a record."""
        return METADATA

    def _fields(self, names: Sequence[str], format_name: str) -> RowType:
        kinds = dict(zip(self.table.schema.names, self.table.schema.types, strict=True))
        return RowType([RowField(name, _nullable(wire_type(format_name, kinds[name]))) for name in names])

    def _value_names(self) -> list[str]:
        physical = [column.name for column in self.table.physical]
        include = self.options.choice("value.fields-include", ("all", "except_key"), "all")
        keys = self._key_fields() if include == "except_key" else ()
        return [name for name in physical if name not in keys]

    def _record_schema(self, columns: Sequence[int]) -> tuple[TableRecords, tuple[DataType, ...]]:
        schema = self.table.schema
        names = tuple(schema.names[place] for place in columns)
        format_name = self._value_format()
        reader = message_reader(
            format_name, self._fields(self._value_names(), format_name), self.options, self._value_prefix
        )
        key = None
        keys = self._key_fields()
        if keys:
            key_format = self.options.required("key.format")
            row_type = self._fields(keys, key_format)
            for field in row_type.fields:
                field.name = field.name.removeprefix(self._key_prefix)
            key = message_reader(key_format, row_type, self.options, "key.")
        metadata = tuple(
            (column.name, self._known_metadata(column.metadata_key or column.name))
            for column in self.table.columns
            if column.kind == "metadata" and column.name in names
        )
        types = tuple(schema.types[place] for place in columns)
        return TableRecords(names, reader, key, self._key_prefix, metadata), types

    def _known_metadata(self, key: str) -> str:
        if key not in self.readable_metadata():
            raise ConfigurationError(
                f'table "{self.table.full_name}" has a column of the metadata "{key}"',
                detail=f"The connector {self.name} knows: {', '.join(self.readable_metadata())}.",
            )
        return key

    def scan(self, environment: Any, columns: Sequence[int]) -> Any:
        """Return the rows of the topics' records."""
        self.check()
        records, types = self._record_schema(columns)
        return self._stream(environment, records, types)

    def _stream(self, environment: Any, records: TableRecords, types: tuple[DataType, ...]) -> Any:
        table = self.table
        builder = KafkaSource.builder().set_starting_offsets(self._startup())
        topics = self._topics()
        if topics:
            builder.set_topics(*topics)
        else:
            builder.set_topic_pattern(self.options.required("topic-pattern"))
        end = self._end()
        if end is not None:
            builder.set_bounded(end)
        properties = self.options.with_prefix("properties.")
        properties.pop("auto.offset.reset", None)
        builder.set_bootstrap_servers(properties.pop("bootstrap.servers"))
        builder.set_properties(properties)
        plain = records.key is None and not records.metadata and not records.upsert
        if plain:
            builder.set_value_only_deserializer(records.value)
        elif getattr(records.value, "gives_many", False):
            raise NotSupportedError(
                f'table "{table.full_name}" has a format of changes together with keys or metadata',
                hint="Leave out 'key.format' and metadata columns.",
            )
        else:
            builder.set_deserializer(records)
        stream = environment.from_source(
            builder.build(), WatermarkStrategy.no_watermarks(), f"{table.name}[{self.name}]"
        )
        stream = with_parallelism(stream, self.options.integer("scan.parallelism", smallest=1))
        spec = ToSqlSpec(records.names, types, f'table "{table.full_name}"')
        return stream._transform(f"{table.name}[columns]", spec)

    # --- writing

    def accepts(self, mode: ChangelogMode) -> ChangelogMode:
        """Take inserts; all kinds if the format has them."""
        return mode if format_mode(self._value_format()) != INSERT_ONLY else INSERT_ONLY

    def sink(self, stream: Any, request: SinkRequest) -> Any:
        """Write records."""
        self.check()
        return self._written(stream, self._serializer(upsert=False))

    def _serializer(self, *, upsert: bool) -> KafkaRecordSerializationSchema:
        written = self.table.write_schema
        format_name = self._value_format()
        names = self._value_names()
        places = tuple(written.names.index(name) for name in names)
        value = message_writer(
            format_name, self._fields(names, format_name), self.options, self._value_prefix
        )
        topics = self._topics()
        if len(topics) != 1:
            raise ConfigurationError(
                f"table \"{self.table.full_name}\" is written, so 'topic' has to be one topic"
            )
        builder = KafkaRecordSerializationSchema.builder().set_topic(topics[0])
        builder.set_value_serialization_schema(FieldsOf(value, places, tuple(names)))
        keys = self._key_fields()
        if keys:
            key_format = self.options.required("key.format")
            row_type = self._fields(keys, key_format)
            for field in row_type.fields:
                field.name = field.name.removeprefix(self._key_prefix)
            key = message_writer(key_format, row_type, self.options, "key.")
            key_places = tuple(written.names.index(name) for name in keys)
            builder.set_key_serialization_schema(FieldsOf(key, key_places, tuple(row_type.field_names())))
        if upsert:
            builder.set_upsert()
        return builder.build()

    def _written(self, stream: Any, serializer: KafkaRecordSerializationSchema) -> Any:
        table, options = self.table, self.options
        properties = options.with_prefix("properties.")
        properties.pop("auto.offset.reset", None)
        guarantee = options.choice(
            "sink.delivery-guarantee", ("none", "at-least-once", "exactly-once"), "at-least-once"
        )
        builder = KafkaSink.builder().set_bootstrap_servers(properties.pop("bootstrap.servers"))
        builder.set_properties(properties).set_record_serializer(serializer)
        builder.set_delivery_guarantee(DeliveryGuarantee[guarantee.upper().replace("-", "_")])
        if guarantee == "exactly-once":
            builder.set_transactional_id_prefix(options.required("sink.transactional-id-prefix", "orders"))
        schema = table.write_schema
        types = tuple(wire_type(self._value_format(), kind) for kind in schema.types)
        spec = FromSqlSpec(schema.names, types, keeps_kinds=True, given=schema.types)
        named = stream._transform(f"{table.name}[rows]", spec)
        ended = named._transform(f"Sink: {table.full_name}", SinkSpec(builder.build(), None))
        return with_parallelism(ended, options.integer("sink.parallelism", smallest=1))


def _nullable(kind: DataType) -> DataType:
    import copy

    made = copy.copy(kind)
    made.nullable = True
    return made
