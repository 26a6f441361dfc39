"""Kafka, JSON, a count for each key, Kafka again: the same lines for PyFlink and millstream."""

from __future__ import annotations

import importlib
from typing import Any

from programs.api import Api

__all__ = ["KEYS", "copy", "record"]

KEYS = 1_000
TRANSACTION_TIMEOUT_MS = 600_000  # Flink's default is longer than a broker allows


def record(number: int) -> str:
    """Return the record of a number, as it is in the topic."""
    return (
        f'{{"id": {number}, "shop": "shop {number % KEYS}", "cents": {number % 997}, "rate": {number / 8}}}'
    )


def copy(
    api: Api, env: Any, servers: str, source_topic: str, sink_topic: str, guarantee: str = "EXACTLY_ONCE"
) -> None:
    """Add the program to an environment; `guarantee` is the sink's."""
    kafka = importlib.import_module(f"{api.name}.datastream.connectors.kafka")
    base = importlib.import_module(f"{api.name}.datastream.connectors.base")
    json = importlib.import_module(f"{api.name}.datastream.formats.json")
    types = api.common.Types
    descriptor_class = api.state.ValueStateDescriptor

    class Count(api.datastream.KeyedProcessFunction):
        def open(self, runtime_context):
            self.count = runtime_context.get_state(descriptor_class("count", types.LONG()))

        def process_element(self, value, ctx):
            count = (self.count.value() or 0) + 1
            self.count.update(count)
            yield f"{value[1]}:{count}"

    row_type = types.ROW_NAMED(
        ["id", "shop", "cents", "rate"], [types.LONG(), types.STRING(), types.INT(), types.DOUBLE()]
    )
    source = (
        kafka.KafkaSource.builder()
        .set_bootstrap_servers(servers)
        .set_topics(source_topic)
        .set_starting_offsets(kafka.KafkaOffsetsInitializer.earliest())
        .set_bounded(kafka.KafkaOffsetsInitializer.latest())
        .set_value_only_deserializer(json.JsonRowDeserializationSchema.builder().type_info(row_type).build())
        .build()
    )
    schema = (
        kafka.KafkaRecordSerializationSchema.builder()
        .set_topic(sink_topic)
        .set_value_serialization_schema(api.common.SimpleStringSchema())
        .build()
    )
    sink = (
        kafka.KafkaSink.builder()
        .set_bootstrap_servers(servers)
        .set_record_serializer(schema)
        .set_delivery_guarantee(base.DeliveryGuarantee[guarantee])
        .set_transactional_id_prefix(sink_topic)
        .set_property("transaction.timeout.ms", str(TRANSACTION_TIMEOUT_MS))
        .build()
    )
    rows = env.from_source(source, api.common.WatermarkStrategy.no_watermarks(), "records")
    counts = rows.key_by(lambda row: row[1], key_type=types.STRING()).process(Count(), types.STRING())
    counts.sink_to(sink)
