"""Messages of Kafka with schemas in a registry, through whole jobs that fail."""

from __future__ import annotations

import json
import uuid

import pytest

from millstream.common import Types, WatermarkStrategy
from millstream.datastream import OutputTag
from millstream.datastream.connectors.base import MalformedPolicy
from millstream.datastream.connectors.kafka import KafkaOffsetsInitializer, KafkaSource
from millstream.datastream.formats.avro import (
    AvroSchema,
    ConfluentRegistryAvroDeserializationSchema,
    ConfluentRegistryAvroSerializationSchema,
)
from millstream.datastream.formats.json import DebeziumJsonDeserializationSchema
from millstream.testing import FailurePoint, MiniCluster

DEAD = OutputTag("dead")


def schema(*fields):
    return AvroSchema.parse_string(json.dumps({"type": "record", "name": "Order", "fields": list(fields)}))


OLD = schema({"name": "n", "type": "int"})
NEW = schema({"name": "n", "type": "long"}, {"name": "currency", "type": "string", "default": "EUR"})


def source(kafka, topic, deserializer):
    return (
        KafkaSource.builder()
        .set_bootstrap_servers(kafka.bootstrap)
        .set_topics(topic)
        .set_starting_offsets(KafkaOffsetsInitializer.earliest())
        .set_bounded(KafkaOffsetsInitializer.latest())
        .set_value_only_deserializer(deserializer)
        .set_malformed_policy(MalformedPolicy.dead_letters(DEAD))
        .build()
    )


@pytest.mark.parametrize("point", [None, FailurePoint.AFTER_EPOCH, FailurePoint.AFTER_CHECKPOINT])
def test_messages_of_two_schemas_and_none_come_once(kafka, new_topic, schema_registry, point):
    topic = new_topic(partitions=2)
    subject = f"s{uuid.uuid4().hex[:12]}"
    old = ConfluentRegistryAvroSerializationSchema(schema_registry.url, OLD, subject)
    new = ConfluentRegistryAvroSerializationSchema(schema_registry.url, NEW, subject)
    for partition in range(2):
        numbers = range(partition, 60, 2)
        values = [
            b"garbage %d" % n
            if n % 10 == 0
            else old.serialize({"n": n})
            if n % 3
            else new.serialize({"n": n, "currency": "CHF"})
            for n in numbers
        ]
        kafka.produce(topic, [*values, None], partition=partition)
    reads = ConfluentRegistryAvroDeserializationSchema(schema_registry.url, NEW)
    with MiniCluster(parallelism=2, options={"millstream.epoch.fixed-records": 7}) as cluster:
        if point is not None:
            cluster.fail_at(point, 2)
        stream = cluster.environment().from_source(
            source(kafka, topic, reads), WatermarkStrategy.no_watermarks(), "orders"
        )
        dead = stream.get_side_output(DEAD).map(lambda letter: letter.message.decode())
        found = cluster.collect(stream.map(lambda row: f"{row.n} {row.currency}").union(dead))
    orders = [f"{n} {'EUR' if n % 3 else 'CHF'}" for n in range(60) if n % 10]
    assert sorted(found) == sorted([*orders, *[f"garbage {n}" for n in range(0, 60, 10)]])


def test_changes_of_a_database_come_with_their_kinds(kafka, new_topic):
    topic = new_topic()
    values = [
        {"before": None, "after": {"id": 1, "name": "a"}, "op": "c"},
        {"before": {"id": 1, "name": "a"}, "after": {"id": 1, "name": "b"}, "op": "u"},
        {"before": {"id": 1, "name": "b"}, "after": None, "op": "d"},
    ]
    kafka.produce(topic, [*[json.dumps(each) for each in values], None, "{"])
    reads = DebeziumJsonDeserializationSchema(Types.ROW_NAMED(["id", "name"], [Types.INT(), Types.STRING()]))
    with MiniCluster() as cluster:
        stream = cluster.environment().from_source(
            source(kafka, topic, reads), WatermarkStrategy.no_watermarks(), "changes"
        )
        dead = stream.get_side_output(DEAD).map(lambda letter: f"dead {letter.position}")
        found = cluster.collect(stream.map(lambda row: f"{row.get_row_kind()} {row.name}").union(dead))
    assert sorted(each for each in found if not each.startswith("dead")) == ["+I a", "+U b", "-D b", "-U a"]
    (letter,) = (each for each in found if each.startswith("dead"))
    assert "offset 4" in letter
