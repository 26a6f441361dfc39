"""The Kafka source (PyFlink's `KafkaSource`)."""

from __future__ import annotations

from collections.abc import Mapping, Set
from dataclasses import replace
from typing import Any

from millstream.base.errors import ConfigurationError, TypeMismatchError
from millstream.connectors.kafka.clients import confluent_kafka
from millstream.connectors.kafka.enumerator import KafkaEnumerator
from millstream.connectors.kafka.offsets import KafkaOffsetsInitializer
from millstream.connectors.kafka.partitions import (
    KafkaTopicPartition,
    NamedTopics,
    Subscription,
    TopicPartitions,
    TopicPattern,
)
from millstream.connectors.kafka.properties import KafkaProperties
from millstream.connectors.kafka.reader import KafkaReader
from millstream.connectors.kafka.records import KafkaRecordDeserializationSchema
from millstream.connectors.kafka.settings import SourceOptions, SourceSettings
from millstream.connectors.messages import MalformedPolicy
from millstream.spi.serialization import DeserializationSchema, produced_type_of
from millstream.spi.source import Boundedness, Source, SourceReader, SplitEnumerator
from millstream.types.basic import TypeInformation

__all__ = ["KafkaSource", "KafkaSourceBuilder", "check_offsets", "check_schema"]


class KafkaSource(Source):
    """Records of Kafka topics; each partition is a split with a watermark of its own.

    Records have Kafka's timestamps. After a failure they are read again from the checkpoint's offsets: exactly once.
    Offsets committed to the consumer group only tell others how far the source has read.

    Example:
        >>> from millstream.common import SimpleStringSchema
        >>> from millstream.datastream.connectors.kafka import KafkaOffsetsInitializer, KafkaSource
        >>> source = (
        ...     KafkaSource.builder()
        ...     .set_bootstrap_servers("localhost:9092")
        ...     .set_topics("orders", "returns")
        ...     .set_group_id("shop")
        ...     .set_starting_offsets(KafkaOffsetsInitializer.earliest())
        ...     .set_value_only_deserializer(SimpleStringSchema())
        ...     .build()
        ... )  # env.from_source(source, WatermarkStrategy.no_watermarks(), "orders")
        >>> source.get_boundedness().name
        'CONTINUOUS_UNBOUNDED'
    """

    def __init__(
        self,
        settings: SourceSettings,
        schema: KafkaRecordDeserializationSchema,
        malformed: MalformedPolicy,
        boundedness: Boundedness,
    ) -> None:
        self._settings = settings
        self._schema = schema
        self._malformed = malformed
        self._boundedness = boundedness

    @staticmethod
    def builder() -> KafkaSourceBuilder:
        """Begin to describe a source."""
        return KafkaSourceBuilder()

    def get_boundedness(self) -> Boundedness:
        """Return BOUNDED if stopping offsets were set with `set_bounded`."""
        return self._boundedness

    def get_produced_type(self) -> TypeInformation | None:
        """Return the type that of the records, as far as the deserializer tells it."""
        return produced_type_of(self._schema)

    def build_enumerator(self, parallelism: int, restored: Any | None) -> SplitEnumerator:
        """Ask for the partitions, and where to begin.

        Raises:
            SourceError: If the cluster cannot be reached, or a topic does not exist.
        """
        return KafkaEnumerator(self._settings, restored)

    def build_reader(self, subtask_index: int, parallelism: int) -> SourceReader:
        """Make the reader of one subtask."""
        return KafkaReader(self._settings, self._schema, self._malformed, subtask_index)


class KafkaSourceBuilder:
    """Describes a `KafkaSource`; each method returns the builder.

    Brokers, topics (or a pattern, or partitions) and a deserializer have to be set.

    Example:
        >>> from millstream.common import SimpleStringSchema
        >>> from millstream.datastream.connectors.kafka import KafkaSource
        >>> builder = KafkaSource.builder().set_bootstrap_servers("localhost:9092")
        >>> builder = builder.set_topic_pattern("orders-.*").set_property("fetch.min.bytes", "100000")
        >>> source = builder.set_value_only_deserializer(SimpleStringSchema()).build()
        >>> KafkaSource.builder().build()
        Traceback (most recent call last):
            ...
        millstream.base.errors.ConfigurationError: [CONFIGURATION] a Kafka source has no topics
        Hint: Call set_topics(...), set_topic_pattern(...) or set_partitions(...).
    """

    def __init__(self) -> None:
        self._properties = KafkaProperties()
        self._subscription: Subscription | None = None
        self._starts = KafkaOffsetsInitializer.earliest()
        self._stops: KafkaOffsetsInitializer | None = None
        self._boundedness = Boundedness.CONTINUOUS_UNBOUNDED
        self._schema: KafkaRecordDeserializationSchema | None = None
        self._malformed = MalformedPolicy.fail()

    def set_bootstrap_servers(self, bootstrap_servers: str) -> KafkaSourceBuilder:
        """Name brokers to begin with: `host:9092,other:9092`."""
        return self.set_property("bootstrap.servers", bootstrap_servers)

    def set_group_id(self, group_id: str) -> KafkaSourceBuilder:
        """Name the consumer group: offsets are committed to it when checkpoints are complete."""
        return self.set_property("group.id", group_id)

    def set_topics(self, *topics: str) -> KafkaSourceBuilder:
        """Read all partitions of these topics, which have to exist.

        Raises:
            ConfigurationError: If there is none, or it was said before what to read.
        """
        if not topics:
            raise ConfigurationError("set_topics was given no topic")
        return self._subscribe(NamedTopics(tuple(dict.fromkeys(topics))))

    def set_topic_pattern(self, topic_pattern: str) -> KafkaSourceBuilder:
        """Read all topics whose whole name matches a regular expression, also those that are made later.

        Raises:
            ConfigurationError: If it is none, or it was said before what to read.
        """
        return self._subscribe(TopicPattern(topic_pattern))

    def set_partitions(self, partitions: Set[KafkaTopicPartition]) -> KafkaSourceBuilder:
        """Read these partitions.

        Raises:
            ConfigurationError: If there is none, or it was said before what to read.
        """
        if not partitions:
            raise ConfigurationError("set_partitions was given no partition")
        return self._subscribe(TopicPartitions(frozenset(partitions)))

    def set_starting_offsets(
        self, starting_offsets_initializer: KafkaOffsetsInitializer
    ) -> KafkaSourceBuilder:
        """Say where to begin; by default with the first records, as in partitions that come later."""
        self._starts = check_offsets(starting_offsets_initializer)
        return self

    def set_unbounded(self, stopping_offsets_initializer: KafkaOffsetsInitializer) -> KafkaSourceBuilder:
        """Stop at these offsets, but run as a job that does not end would: in streaming mode."""
        self._stops = check_offsets(stopping_offsets_initializer)
        self._boundedness = Boundedness.CONTINUOUS_UNBOUNDED
        return self

    def set_bounded(self, stopping_offsets_initializer: KafkaOffsetsInitializer) -> KafkaSourceBuilder:
        """Stop at these offsets; partitions that come later are not read."""
        self._stops = check_offsets(stopping_offsets_initializer)
        self._boundedness = Boundedness.BOUNDED
        return self

    def set_value_only_deserializer(
        self, deserialization_schema: DeserializationSchema
    ) -> KafkaSourceBuilder:
        """Have a schema make records of the values; tombstones are left out.

        Raises:
            TypeMismatchError: If it is no DeserializationSchema.
        """
        self._schema = KafkaRecordDeserializationSchema.value_only(deserialization_schema)
        return self

    def set_deserializer(self, record_deserializer: KafkaRecordDeserializationSchema) -> KafkaSourceBuilder:
        """Have a schema make records of whole Kafka records: key, value, headers, offset (in Java's builder too).

        Raises:
            TypeMismatchError: If it is no KafkaRecordDeserializationSchema.
        """
        self._schema = check_schema(record_deserializer)
        return self

    def set_malformed_policy(self, policy: MalformedPolicy) -> KafkaSourceBuilder:
        """Say what becomes of records that do not parse; they fail the job by default (millstream's own).

        Raises:
            TypeMismatchError: If it is no MalformedPolicy.
        """
        if not isinstance(policy, MalformedPolicy):
            raise TypeMismatchError(
                f"set_malformed_policy was given a {type(policy).__name__}, not a MalformedPolicy"
            )
        self._malformed = policy
        return self

    def set_client_id_prefix(self, prefix: str) -> KafkaSourceBuilder:
        """Say what the names begin with under which brokers see the clients."""
        return self.set_property("client.id.prefix", prefix)

    def set_property(self, key: str, value: str) -> KafkaSourceBuilder:
        """Set a property: Kafka's of consumers, or one of Flink's options of the source."""
        self._properties = self._properties.updated({key: value})
        return self

    def set_properties(self, props: Mapping[str, Any]) -> KafkaSourceBuilder:
        """Set properties; those that were set before stay."""
        self._properties = self._properties.updated(props)
        return self

    def build(self) -> KafkaSource:
        """Return the source.

        Raises:
            ConfigurationError: If something is missing or does not fit, or the client library is not installed.
        """
        if self._subscription is None:
            raise _missing("topics", "set_topics(...), set_topic_pattern(...) or set_partitions(...)")
        if self._schema is None:
            raise _missing("deserializer", "set_value_only_deserializer(...) or set_deserializer(...)")
        if not self._properties.get("bootstrap.servers"):
            raise _missing("bootstrap servers", "set_bootstrap_servers(...)")
        confluent_kafka()
        options = SourceOptions.of(self._properties)
        settings = SourceSettings(
            options, self._subscription, self._starts, self._stops, options.discovery_interval_ms
        )
        if self._boundedness is Boundedness.BOUNDED or (self._stops and not options.is_discovery_set):
            settings = replace(settings, discovery_interval_ms=None)
        return KafkaSource(settings, self._schema, self._malformed, self._boundedness)

    def _subscribe(self, subscription: Subscription) -> KafkaSourceBuilder:
        if self._subscription is not None:
            raise ConfigurationError(
                f"a Kafka source was told to read {subscription}, and {self._subscription} before",
                hint="Call one of set_topics, set_topic_pattern and set_partitions, once.",
            )
        self._subscription = subscription
        return self


def check_schema(schema: KafkaRecordDeserializationSchema) -> KafkaRecordDeserializationSchema:
    """Return the schema that `set_deserializer` was given.

    Raises:
        TypeMismatchError: If it is no KafkaRecordDeserializationSchema.
    """
    if not isinstance(schema, KafkaRecordDeserializationSchema):
        raise TypeMismatchError(
            f"set_deserializer was given a {type(schema).__name__}, not a KafkaRecordDeserializationSchema"
        )
    return schema


def check_offsets(initializer: KafkaOffsetsInitializer) -> KafkaOffsetsInitializer:
    """Return the offsets that a source was given.

    Raises:
        TypeMismatchError: If they are no KafkaOffsetsInitializer.
    """
    if not isinstance(initializer, KafkaOffsetsInitializer):
        raise TypeMismatchError(
            f"offsets of a Kafka source are a {type(initializer).__name__}, not a KafkaOffsetsInitializer"
        )
    return initializer


def _missing(what: str, calls: str) -> ConfigurationError:
    return ConfigurationError(f"a Kafka source has no {what}", hint=f"Call {calls}.")
