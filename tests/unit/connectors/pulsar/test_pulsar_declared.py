"""What is declared of Pulsar, without a server: what is refused at once, what is shown, what is kept."""

from __future__ import annotations

import datetime
import pickle

import pulsar
import pytest

from millstream.base.errors import ConfigurationError, NotSupportedError, TypeMismatchError
from millstream.common import Duration
from millstream.common.serialization import SimpleStringSchema
from millstream.connectors.pulsar.connection import Authentication
from millstream.connectors.pulsar.enumerator import Reading
from millstream.connectors.pulsar.keys import KeyHash, java_hash, murmur3
from millstream.connectors.pulsar.positions import START, Position, behind, of_message_id
from millstream.connectors.pulsar.routing import Router
from millstream.connectors.pulsar.topics import TopicPattern, full_name
from millstream.datastream.connectors.pulsar import (
    DeliveryGuarantee,
    MessageDelayer,
    PulsarSink,
    PulsarSinkBuilder,
    PulsarSource,
    PulsarSourceBuilder,
    RangeGenerator,
    StartCursor,
    StopCursor,
    TopicRoutingMode,
)
from millstream.spi.source import Boundedness

URL = "pulsar://host:6650"
SECRET = "token:secret-word"


def source() -> PulsarSourceBuilder:
    new = PulsarSource.builder().set_service_url(URL).set_subscription_name("job").set_topics("orders")
    return new.set_deserialization_schema(SimpleStringSchema())


def sink() -> PulsarSinkBuilder:
    new = PulsarSink.builder().set_service_url(URL).set_topics("orders")
    return new.set_serialization_schema(SimpleStringSchema())


def message_id(ledger: int, entry: int, batch_index: int = -1) -> bytes:
    serialized: bytes = pulsar.MessageId(-1, ledger, entry, batch_index).serialize()
    return serialized


class TestBuilders:
    @pytest.mark.parametrize(
        ("builder", "said"),
        [
            (PulsarSource.builder(), "no service URL"),
            (PulsarSource.builder().set_service_url(URL), "no subscription"),
            (PulsarSource.builder().set_service_url(URL).set_subscription_name("job"), "no topic"),
            (
                PulsarSource.builder().set_service_url(URL).set_subscription_name("job").set_topics("a"),
                "no schema",
            ),
            (
                PulsarSource.builder()
                .set_service_url(URL)
                .set_subscription_name("job")
                .set_topic_pattern("a-.*"),
                "no REST API",
            ),
            (PulsarSink.builder(), "no service URL"),
            (PulsarSink.builder().set_service_url(URL), "no topic"),
            (PulsarSink.builder().set_service_url(URL).set_topics("a"), "no schema"),
            (sink().set_topic_routing_mode(TopicRoutingMode.CUSTOM), "no router"),
            (sink().set_delivery_guarantee(DeliveryGuarantee.EXACTLY_ONCE), "no REST API"),
            (sink().set_config("pulsar.sink.messageKeyHash", "md5"), "no hash of keys"),
        ],
    )
    def test_what_is_missing_is_named(self, builder, said):
        with pytest.raises(ConfigurationError, match=said):
            builder.build()

    @pytest.mark.parametrize("url", ["host:6650", "http://host", "pulsar://me:secret-word@host", "", 7])
    def test_urls_that_are_none(self, url):
        with pytest.raises(ConfigurationError) as refused:
            PulsarSource.builder().set_service_url(url).set_subscription_name("a").set_topics("a").build()
        assert "secret" not in str(refused.value)

    @pytest.mark.parametrize("topic", ["", "a/b", "a/b/c/d", "non-persistent://a/b/c", "a//c", 7])
    def test_names_that_no_topic_has(self, topic):
        with pytest.raises((ConfigurationError, TypeError)):
            source_of = PulsarSource.builder()
            source_of.set_topics([topic])

    def test_topics_and_patterns_exclude_each_other(self):
        with pytest.raises(ConfigurationError, match="and persistent://public/default/orders before"):
            source().set_topic_pattern("a-.*")

    @pytest.mark.parametrize("pattern", ["", "a/b", "a/b/(", "["])
    def test_patterns_that_are_none(self, pattern):
        with pytest.raises(ConfigurationError):
            PulsarSource.builder().set_topic_pattern(pattern)

    def test_patterns(self):
        assert TopicPattern.of("a-.*") == TopicPattern("public/default", "a-.*")
        assert TopicPattern.of("persistent://acme/shop/o/.*") == TopicPattern("acme/shop", "o/.*")
        assert full_name("acme/shop/orders") == "persistent://acme/shop/orders"

    def test_arguments_of_another_type(self):
        for call in (
            source().set_start_cursor,
            source().set_bounded_stop_cursor,
            source().set_range_generator,
            source().set_malformed_policy,
            sink().set_delivery_guarantee,
            sink().delay_sending_message,
            sink().set_serialization_schema,
        ):
            with pytest.raises(TypeMismatchError):
                call("something")

    def test_java_classes_are_refused(self):
        with pytest.raises(NotSupportedError, match="no function"):
            sink().set_topic_router("org.example.Router")
        with pytest.raises(NotSupportedError, match="outside of Java"):
            source().set_authentication("org.example.Login", SECRET)

    def test_chunks_are_refused_where_they_do_not_fit(self):
        chunked = sink().set_admin_url("http://host").set_config("pulsar.producer.chunkingEnabled", True)
        chunked.build()
        with pytest.raises(NotSupportedError, match="chunks"):
            chunked.set_delivery_guarantee(DeliveryGuarantee.EXACTLY_ONCE).build()

    def test_secrets_are_shown_nowhere(self):
        built = [builder.set_authentication("token", SECRET).build() for builder in (source(), sink())]
        login = Authentication.of("basic", '{"userId": "me", "password": "secret-word"}')
        assert "secret-word" not in repr(built) + repr(login)
        assert login.headers() == {"Authorization": "Basic bWU6c2VjcmV0LXdvcmQ="}
        with pytest.raises(ConfigurationError) as refused:
            Authentication.of("basic", "me:secret-word").headers()
        assert "secret-word" not in str(refused.value)

    def test_what_is_declared_is_pickled(self):
        exactly_once = (
            sink().set_admin_url("http://host").set_delivery_guarantee(DeliveryGuarantee.EXACTLY_ONCE)
        )
        for declared in (source().build(), sink().build(), exactly_once.build()):
            assert pickle.loads(pickle.dumps(declared))._connection == declared._connection

    def test_boundedness(self):
        assert source().build().get_boundedness() is Boundedness.CONTINUOUS_UNBOUNDED
        bounded = source().set_bounded_stop_cursor(StopCursor.latest()).build()
        assert bounded.get_boundedness() is Boundedness.BOUNDED


class TestOptions:
    def test_options_of_flink(self):
        built = (
            source()
            .set_config("pulsar.source.enableAutoAcknowledgeMessage", True)
            .set_properties({"pulsar.source.partitionDiscoveryIntervalMs": "1000"})
            .set_config("pulsar.client.operationTimeoutMs", 7_500)
            .set_config("pulsar.client.tlsAllowInsecureConnection", True)
            .build()
        )
        assert built._settings.discovery_ms == 1_000
        assert dict(built._connection.arguments) == {
            "operation_timeout_seconds": 7,
            "tls_allow_insecure_connection": True,
        }

    def test_deprecated_name(self):
        with pytest.warns(DeprecationWarning):
            built = source().set_config_with_dict({"pulsar.consumer.receiverQueueSize": 5}).build()
        assert built._settings.receiver_queue == 5

    @pytest.mark.parametrize(
        ("key", "value", "error"),
        [
            ("pulsar.source.nonsense", 1, NotSupportedError),
            ("pulsar.consumer.receiverQueueSize", "many", ConfigurationError),
            ("pulsar.client.tlsAllowInsecureConnection", "perhaps", ConfigurationError),
            ("pulsar.source.verifyInitialOffsets", "LATER", ConfigurationError),
            ("pulsar.client.serviceUrl", "pulsar://other:6650", ConfigurationError),
        ],
    )
    def test_options_that_do_not_fit(self, key, value, error):
        with pytest.raises(error, match=key):
            source().set_config(key, value)

    def test_discovery_is_off_where_reading_ends(self):
        latest = StopCursor.latest()
        assert source().build()._settings.discovery_ms == 300_000
        assert source().set_bounded_stop_cursor(latest).build()._settings.discovery_ms is None
        assert source().set_unbounded_stop_cursor(latest).build()._settings.discovery_ms is None
        off = source().set_config("pulsar.source.partitionDiscoveryIntervalMs", -1)
        assert off.build()._settings.discovery_ms is None


class TestPositions:
    def test_order(self):
        places = [
            START,
            Position(3, 1, -1, is_behind=False),
            Position(3, 1, -1),
            Position(3, 2, 0),
            Position(3, 2, 1),
            of_message_id(3, 2, -1, is_behind=True),
            Position(4, 0, -1),
        ]
        assert [each.place for each in places] == sorted(each.place for each in places)

    def test_of_no_message(self):
        assert behind(pulsar.MessageId(-1, -1, -1, -1)) == START

    def test_plain_form(self):
        position = Position(3, 2, 1, is_behind=False)
        assert Position(*pickle.loads(pickle.dumps(position.plain))) == position
        assert type(position.plain) is tuple

    def test_cursors(self):
        at = StartCursor.from_message_id(message_id(7, 3, 2))
        assert at.position == Position(7, 3, 2, is_behind=False)
        assert StartCursor.from_message_id(pulsar.MessageId.latest.serialize()) == StartCursor.latest()
        assert StartCursor.from_message_id(pulsar.MessageId.earliest.serialize()) == StartCursor.earliest()
        assert StopCursor.at_message_id(message_id(7, 3)).position == Position(7, 3, -1, is_behind=False)
        assert StopCursor.default_stop_cursor() == StopCursor.never()
        assert StartCursor.default_start_cursor() == StartCursor.earliest()
        with pytest.raises(ConfigurationError, match="cannot be read"):
            StartCursor.from_message_id(b"\xff\xff")
        with pytest.raises(ConfigurationError, match="epoch milliseconds"):
            StopCursor.at_event_time(-1)

    def test_stop_conditions_are_pickled(self):
        reading = Reading(None, StopCursor.after_publish_time(5).condition())
        assert pickle.loads(pickle.dumps(reading)) == reading


class _Message:
    def __init__(self, key: str = "", ordering_key: str = "") -> None:
        self.partition_key = lambda: key
        self.ordering_key = lambda: ordering_key


class TestKeys:
    @pytest.mark.parametrize(("data", "wanted"), [(b"", 0), (b"hello", 613153351), (b"test", 980144659)])
    def test_murmur(self, data, wanted):
        assert murmur3(data) == wanted

    def test_java(self):
        assert java_hash("hello") == 99162322
        assert java_hash("polygenelubricants") == 0  # -2^31 in Java

    def test_ranges(self):
        some = RangeGenerator.fixed_key(keys=["a", "b"])
        assert [some.wants(_Message(key)) for key in ("a", "b", "c", "")] == [True, True, False, False]
        assert some.wants(_Message("c", "a"))
        assert RangeGenerator.fixed_key(support_null_key=True).wants(_Message())
        assert RangeGenerator.fixed_key(key_bytes=b"abc").wants(_Message("YWJj"))
        assert RangeGenerator.full().wants(_Message("x"))
        with pytest.raises(ConfigurationError, match="no key"):
            RangeGenerator.fixed_key()


class TestRouting:
    PARTITIONS = ("p0", "p1", "p2")

    def router(self, mode: TopicRoutingMode, custom=None) -> Router:
        return Router(mode, KeyHash.MURMUR3_32, custom, self.PARTITIONS)

    def test_by_turns(self):
        router = self.router(TopicRoutingMode.ROUND_ROBIN)
        assert [router.partition_of(1, "k") for _ in range(4)] == ["p0", "p1", "p2", "p0"]

    def test_by_keys(self):
        router = self.router(TopicRoutingMode.MESSAGE_KEY_HASH)
        assert {router.partition_of(number, "hello") for number in range(4)} == {f"p{613153351 % 3}"}
        assert [router.partition_of(1, None) for _ in range(2)] == ["p0", "p1"]

    def test_by_a_function(self):
        router = self.router(TopicRoutingMode.CUSTOM, lambda value, key, partitions: partitions[value])
        assert router.partition_of(2, None) == "p2"

    def test_delays(self):
        assert MessageDelayer.never().delay is None
        assert MessageDelayer.fixed(Duration.of_seconds(2)).delay == datetime.timedelta(seconds=2)
        with pytest.raises(ConfigurationError, match="negative"):
            MessageDelayer.fixed(Duration.of_millis(-1))
