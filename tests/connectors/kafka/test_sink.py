"""The Kafka sink against the contract of sinks, and what its messages are."""

from __future__ import annotations

import pickle
from collections.abc import Callable, Sequence
from typing import Any

import pytest

from connectors.kafka.committed import CommittedReader
from millstream.base.errors import ConfigurationError, JobExecutionError, SinkError
from millstream.common import Row, RowKind, SerializationSchema, SimpleStringSchema, WatermarkStrategy
from millstream.common.watermark_strategy import TimestampAssigner
from millstream.datastream.connectors.kafka import (
    DeliveryGuarantee,
    FlinkKafkaProducer,
    KafkaRecordSerializationSchema,
    KafkaRecordSerializationSchemaBuilder,
    KafkaSink,
    KafkaSinkBuilder,
    KafkaTopicSelector,
    Semantic,
)
from millstream.testing import MiniCluster, SinkTarget, check_sink
from servers.kafka import KafkaServer

NewTopic = Callable[..., str]
Message = tuple[str | None, str | None]


class LastLetter(SerializationSchema):
    """The key: the last letter of a text."""

    def serialize(self, value: Any) -> bytes:
        return str(value)[-1].encode()


class Field(SerializationSchema):
    """A field of a row, or of a pair, as text."""

    def __init__(self, index: int) -> None:
        self._index = index

    def serialize(self, value: Any) -> bytes:
        return str(value[self._index]).encode()


class LengthInSeconds(TimestampAssigner):
    def extract_timestamp(self, value: Any, record_timestamp: int) -> int:
        return len(value) * 1000


def texts(topic: str | None = None) -> KafkaRecordSerializationSchemaBuilder:
    builder = KafkaRecordSerializationSchema.builder()
    if topic is not None:
        builder.set_topic(topic)
    return builder.set_value_serialization_schema(SimpleStringSchema())


def building(kafka: KafkaServer, schema: KafkaRecordSerializationSchemaBuilder) -> KafkaSinkBuilder:
    return KafkaSink.builder().set_bootstrap_servers(kafka.bootstrap).set_record_serializer(schema.build())


def exactly_once(
    kafka: KafkaServer, schema: KafkaRecordSerializationSchemaBuilder, prefix: str
) -> KafkaSinkBuilder:
    builder = building(kafka, schema).set_delivery_guarantee(DeliveryGuarantee.EXACTLY_ONCE)
    return builder.set_transactional_id_prefix(prefix)


def run(values: Sequence[Any], sink: Any, *, parallelism: int = 1, timestamps: Any = None) -> None:
    with MiniCluster(parallelism=parallelism, options={"restart-strategy.type": "none"}) as cluster:
        environment = cluster.environment()
        stream = environment.from_collection(values)
        if timestamps is not None:
            strategy = WatermarkStrategy.for_monotonous_timestamps().with_timestamp_assigner(timestamps)
            stream = stream.assign_timestamps_and_watermarks(strategy)
        (stream.add_sink if isinstance(sink, FlinkKafkaProducer) else stream.sink_to)(sink)
        environment.execute()


def messages_in(kafka: KafkaServer, topic: str) -> list[Message]:
    return [
        tuple(None if each is None else each.decode() for each in (message.key(), message.value()))
        for message in kafka.messages(topic)
    ]


class Targets:
    """Makes a topic, a sink for it and a reader of it, again and again."""

    def __init__(self, kafka: KafkaServer, new_topic: NewTopic, guarantee: DeliveryGuarantee) -> None:
        self._kafka = kafka
        self._new_topic = new_topic
        self._guarantee = guarantee
        self._readers: list[CommittedReader] = []

    def __call__(self) -> SinkTarget:
        topic = self._new_topic(2)
        builder = building(self._kafka, texts(topic).set_key_serialization_schema(LastLetter()))
        builder.set_delivery_guarantee(self._guarantee).set_transactional_id_prefix(topic)
        reader = CommittedReader(self._kafka, topic, 2)
        self._readers.append(reader)
        return SinkTarget(builder.build(), read=reader.values)

    def close(self) -> None:
        for reader in self._readers:
            reader.close()


@pytest.fixture
def targets(kafka: KafkaServer, new_topic: NewTopic, request: pytest.FixtureRequest) -> Any:
    made = Targets(kafka, new_topic, request.param)
    yield made
    made.close()


@pytest.mark.long
@pytest.mark.timeout(600)
@pytest.mark.parametrize("targets", [DeliveryGuarantee.EXACTLY_ONCE], indirect=True)
def test_exactly_once_keeps_the_contract(targets: Targets) -> None:
    check_sink(targets, parallelisms=((2, 3),))


@pytest.mark.long
@pytest.mark.parametrize("targets", [DeliveryGuarantee.AT_LEAST_ONCE], indirect=True)
def test_at_least_once_keeps_the_contract(targets: Targets) -> None:
    check_sink(targets, parallelisms=((2, 1),))


@pytest.mark.long
@pytest.mark.timeout(1200)
@pytest.mark.parametrize("targets", [DeliveryGuarantee.EXACTLY_ONCE], indirect=True)
def test_exactly_once_keeps_the_contract_with_all_numbers_of_subtasks(targets: Targets) -> None:
    check_sink(targets)


@pytest.mark.parametrize("guarantee", list(DeliveryGuarantee))
def test_messages_have_key_value_headers_and_event_time(
    kafka: KafkaServer, new_topic: NewTopic, guarantee: DeliveryGuarantee
) -> None:
    topic = new_topic()
    schema = texts(topic).set_key_serialization_schema(LastLetter())
    schema.set_header_provider(lambda value: [("length", str(len(value)).encode()), ("none", None)])
    sink = exactly_once(kafka, schema, topic).set_delivery_guarantee(guarantee).build()
    run(["one", "eleven"], sink, timestamps=LengthInSeconds())
    found = kafka.messages(topic)
    assert [(message.key(), message.value()) for message in found] == [(b"e", b"one"), (b"n", b"eleven")]
    assert [message.headers() for message in found] == [
        [("length", b"3"), ("none", None)],
        [("length", b"6"), ("none", None)],
    ]
    assert [message.timestamp()[1] for message in found] == [3000, 6000]


class ByLength(KafkaTopicSelector):
    def __init__(self, *topics: str) -> None:
        self._topics = topics

    def apply(self, data: Any) -> str:
        return self._topics[len(data) % 2]


@pytest.mark.parametrize("guarantee", [DeliveryGuarantee.EXACTLY_ONCE, DeliveryGuarantee.AT_LEAST_ONCE])
def test_a_selector_chooses_the_topic(
    kafka: KafkaServer, new_topic: NewTopic, guarantee: DeliveryGuarantee
) -> None:
    even, odd = new_topic(), new_topic()
    schema = texts().set_topic_selector(ByLength(even, odd))
    run(["a", "bb", "ccc", "dd"], exactly_once(kafka, schema, even).set_delivery_guarantee(guarantee).build())
    assert [value for _, value in messages_in(kafka, even)] == ["bb", "dd"]
    assert [value for _, value in messages_in(kafka, odd)] == ["a", "ccc"]


def test_a_function_chooses_the_partition(kafka: KafkaServer, new_topic: NewTopic) -> None:
    topic = new_topic(3)
    schema = texts(topic).set_partitioner(lambda record, key, value, topic, there: there[len(record) % 3])
    run(["a", "bb", "ccc", "dddd"], building(kafka, schema).build())
    found = {message.value(): message.partition() for message in kafka.messages(topic)}
    assert found == {b"a": 1, b"bb": 2, b"ccc": 0, b"dddd": 1}


def test_records_of_a_key_go_where_producers_in_java_put_them(
    kafka: KafkaServer, new_topic: NewTopic
) -> None:
    topic = new_topic(3)
    run(
        ["a1", "a2", "a3", "b1"],
        building(kafka, texts(topic).set_key_serialization_schema(LastLetter())).build(),
    )
    # murmur2, positive, of the keys b"1", b"2", b"3", modulo 3
    found = {message.key(): message.partition() for message in kafka.messages(topic)}
    assert found == {b"1": _murmur2(b"1") % 3, b"2": _murmur2(b"2") % 3, b"3": _murmur2(b"3") % 3}


def _murmur2(data: bytes) -> int:
    """Kafka's hash of a key of less than four bytes."""
    mask, factor = 0xFFFFFFFF, 0x5BD1E995
    result = 0x9747B28C ^ len(data)
    for place in reversed(range(len(data))):
        result ^= data[place] << (8 * place)
    result = (result * factor) & mask
    result ^= result >> 13
    result = (result * factor) & mask
    return (result ^ (result >> 15)) & 0x7FFFFFFF


def test_upsert_writes_tombstones_and_leaves_old_values_out(kafka: KafkaServer, new_topic: NewTopic) -> None:
    topic = new_topic()
    schema = KafkaRecordSerializationSchema.builder().set_topic(topic).set_upsert()
    schema.set_key_serialization_schema(Field(0)).set_value_serialization_schema(Field(1))
    changes = [("a", 1, RowKind.INSERT), ("a", 1, RowKind.UPDATE_BEFORE), ("a", 2, RowKind.UPDATE_AFTER)]
    rows = []
    for key, value, kind in [*changes, ("b", 5, RowKind.INSERT), ("a", 2, RowKind.DELETE)]:
        row = Row(key, value)
        row.set_row_kind(kind)
        rows.append(row)
    run(rows, building(kafka, schema).build())
    assert messages_in(kafka, topic) == [("a", "1"), ("a", "2"), ("b", "5"), ("a", None)]


class TextOrNothing(SerializationSchema):
    def serialize(self, value: Any) -> Any:
        return None if value.startswith("-") else value.encode()


def test_a_schema_that_gives_none_writes_a_tombstone(kafka: KafkaServer, new_topic: NewTopic) -> None:
    topic = new_topic()
    schema = KafkaRecordSerializationSchema.builder().set_topic(topic)
    schema.set_key_serialization_schema(LastLetter()).set_value_serialization_schema(TextOrNothing())
    run(["1a", "-a"], exactly_once(kafka, schema, topic).build())
    assert messages_in(kafka, topic) == [("a", "1a"), ("a", None)]


def test_the_order_of_a_key_is_kept(kafka: KafkaServer, new_topic: NewTopic) -> None:
    topic = new_topic(3)
    schema = KafkaRecordSerializationSchema.builder().set_topic(topic)
    schema.set_key_serialization_schema(Field(0)).set_value_serialization_schema(Field(1))
    with MiniCluster(parallelism=3, options={"millstream.epoch.fixed-records": 50}) as cluster:
        environment = cluster.environment()
        pairs = environment.from_collection([(number % 7, number) for number in range(700)])
        pairs.key_by(lambda pair: pair[0]).sink_to(exactly_once(kafka, schema, topic).build())
        environment.execute()
    by_key: dict[bytes, list[int]] = {}
    for message in kafka.messages(topic):
        by_key.setdefault(message.key(), []).append(int(message.value()))
    assert by_key == {str(key).encode(): list(range(key, 700, 7)) for key in range(7)}


@pytest.mark.parametrize("semantic", list(Semantic))
def test_the_older_producer_writes_too(kafka: KafkaServer, new_topic: NewTopic, semantic: Semantic) -> None:
    topic = new_topic()
    config = {"bootstrap.servers": kafka.bootstrap, "group.id": "unused"}
    run(["a", "b"], FlinkKafkaProducer(topic, SimpleStringSchema(), config, semantic=semantic))
    assert messages_in(kafka, topic) == [(None, "a"), (None, "b")]


@pytest.mark.parametrize("guarantee", [DeliveryGuarantee.EXACTLY_ONCE, DeliveryGuarantee.AT_LEAST_ONCE])
def test_a_record_that_is_too_large_is_named(
    kafka: KafkaServer, new_topic: NewTopic, guarantee: DeliveryGuarantee
) -> None:
    topic = new_topic(max_message_bytes=5000)
    schema = texts(topic).set_key_serialization_schema(LastLetter())
    sink = exactly_once(kafka, schema, topic).set_delivery_guarantee(guarantee).build()
    with pytest.raises(JobExecutionError) as raised:
        run(["a", "x" * 6000], sink)
    text = str(raised.value.__cause__)
    assert f"a record of topic '{topic}', key 'x', 6,001 bytes, is too large" in text
    assert "max.message.bytes" in text
    if guarantee is DeliveryGuarantee.EXACTLY_ONCE:
        assert messages_in(kafka, topic) == []


def test_a_topic_that_is_not_there_is_named_before_the_job_starts(kafka: KafkaServer) -> None:
    with pytest.raises(
        SinkError, match="topic 'nowhere' cannot be written: a topic or partition does not exist"
    ):
        building(kafka, texts("nowhere")).build().check()


def test_a_topic_that_a_selector_names_and_is_not_there_fails_the_job(kafka: KafkaServer) -> None:
    with pytest.raises(JobExecutionError) as raised:
        run(["a"], building(kafka, texts().set_topic_selector(lambda value: "nowhere")).build())
    assert "topic 'nowhere' cannot be written" in str(raised.value.__cause__)


def test_the_login_is_taken_from_properties_and_told_to_nobody(
    kafka: KafkaServer, new_topic: NewTopic, caplog: pytest.LogCaptureFixture
) -> None:
    topic = new_topic()
    builder = exactly_once(kafka, texts(topic), topic).set_bootstrap_servers(kafka.sasl_bootstrap)
    run(["a"], sink := builder.set_properties(kafka.login).build())
    assert messages_in(kafka, topic) == [(None, "a")]
    assert kafka.password not in repr(sink._properties) + caplog.text
    login = kafka.login["sasl.jaas.config"].replace(kafka.password, "guessed-it")
    refused = builder.set_property("sasl.jaas.config", login).build()
    with pytest.raises(SinkError, match="the broker refused the login") as raised:
        refused.check()
    assert "guessed-it" not in str(raised.value) + caplog.text


def test_the_sink_can_be_pickled_and_says_what_is_missing(kafka: KafkaServer) -> None:
    sink = building(kafka, texts("there")).build()
    assert isinstance(pickle.loads(pickle.dumps(sink)), KafkaSink)
    with pytest.raises(ConfigurationError, match="no transactional id prefix"):
        building(kafka, texts("there")).set_delivery_guarantee(DeliveryGuarantee.EXACTLY_ONCE).build()
    with pytest.raises(ConfigurationError, match="set_upsert needs keys"):
        texts("there").set_upsert().build()
    with pytest.raises(ConfigurationError, match="no topic is set"):
        texts().build()
