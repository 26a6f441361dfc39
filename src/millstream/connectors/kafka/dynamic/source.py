"""The source of streams over several Kafka clusters (PyFlink's `DynamicKafkaSource`)."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Any

from millstream.base.errors import ConfigurationError, TypeMismatchError
from millstream.connectors.kafka.clients import confluent_kafka
from millstream.connectors.kafka.dynamic.enumerator import DynamicKafkaEnumerator
from millstream.connectors.kafka.dynamic.metadata import (
    KafkaMetadataService,
    KafkaStreamSetSubscriber,
    KafkaStreamSubscriber,
    StreamPatternSubscriber,
)
from millstream.connectors.kafka.dynamic.reader import DynamicKafkaReader
from millstream.connectors.kafka.dynamic.settings import DynamicSettings
from millstream.connectors.kafka.offsets import KafkaOffsetsInitializer
from millstream.connectors.kafka.properties import KafkaProperties
from millstream.connectors.kafka.records import KafkaRecordDeserializationSchema
from millstream.connectors.kafka.source import check_offsets, check_schema
from millstream.connectors.messages import MalformedPolicy
from millstream.spi.serialization import DeserializationSchema, produced_type_of
from millstream.spi.source import Boundedness, Source, SourceReader, SplitEnumerator
from millstream.types.basic import TypeInformation

__all__ = ["DynamicKafkaSource", "DynamicKafkaSourceBuilder"]


class DynamicKafkaSource(Source):
    """Records of streams: topics of several Kafka clusters, which may change while the job runs.

    Each partition of a topic of a cluster is a split with a watermark of its own. Where it stands is in checkpoints:
    exactly once, also when topics move. Made by `DynamicKafkaSource.builder()`.

    Example:
        >>> from millstream.common import SimpleStringSchema
        >>> from millstream.datastream.connectors.dynamic_kafka import DynamicKafkaSource
        >>> from millstream.datastream.connectors.dynamic_kafka import SingleClusterTopicMetadataService
        >>> service = SingleClusterTopicMetadataService("north", {"bootstrap.servers": "north:9092"})
        >>> builder = DynamicKafkaSource.builder().set_stream_ids({"orders"}).set_kafka_metadata_service(service)
        >>> source = builder.set_value_only_deserializer(SimpleStringSchema()).set_group_id("totals").build()
    """

    def __init__(
        self,
        settings: DynamicSettings,
        schema: KafkaRecordDeserializationSchema,
        malformed: MalformedPolicy,
    ) -> None:
        self._settings = settings
        self._schema = schema
        self._malformed = malformed

    @staticmethod
    def builder() -> DynamicKafkaSourceBuilder:
        """Begin to describe a source."""
        return DynamicKafkaSourceBuilder()

    def get_boundedness(self) -> Boundedness:
        """Return BOUNDED if stopping offsets were set."""
        return Boundedness.BOUNDED if self._settings.is_bounded else Boundedness.CONTINUOUS_UNBOUNDED

    def get_produced_type(self) -> TypeInformation | None:
        """Return the type of the records, as far as the deserializer tells it."""
        return produced_type_of(self._schema)

    def build_enumerator(self, parallelism: int, restored: Any | None) -> SplitEnumerator:
        """Ask which clusters there are, and where to begin in them.

        Raises:
            SourceError: If the metadata service or a cluster does not answer, or a topic is not there.
        """
        return DynamicKafkaEnumerator(self._settings, restored)

    def build_reader(self, subtask_index: int, parallelism: int) -> SourceReader:
        """Make the reader of one subtask."""
        return DynamicKafkaReader(self._schema, self._malformed, subtask_index)


class DynamicKafkaSourceBuilder:
    """Describes a `DynamicKafkaSource`; each method returns the builder.

    Streams, a metadata service and a deserializer have to be set.

    Example:
        >>> from millstream.common import SimpleStringSchema
        >>> from millstream.datastream.connectors.dynamic_kafka import DynamicKafkaSource
        >>> from millstream.datastream.connectors.dynamic_kafka import SingleClusterTopicMetadataService
        >>> service = SingleClusterTopicMetadataService("north", {"bootstrap.servers": "north:9092"})
        >>> builder = DynamicKafkaSource.builder().set_stream_pattern("^orders-.*$").set_kafka_metadata_service(service)
        >>> source = builder.set_value_only_deserializer(SimpleStringSchema()).build()
    """

    def __init__(self) -> None:
        self._properties = KafkaProperties()
        self._subscriber: KafkaStreamSubscriber | None = None
        self._service: KafkaMetadataService | None = None
        self._starts = KafkaOffsetsInitializer.earliest()
        self._stops: KafkaOffsetsInitializer | None = None
        self._schema: KafkaRecordDeserializationSchema | None = None
        self._malformed = MalformedPolicy.fail()

    def set_stream_ids(self, stream_ids: Collection[str]) -> DynamicKafkaSourceBuilder:
        """Read these streams.

        Raises:
            ConfigurationError: If there is none, or it was said before what to read.
        """
        return self.set_kafka_stream_subscriber(KafkaStreamSetSubscriber(stream_ids))

    def set_stream_pattern(self, stream_pattern: str) -> DynamicKafkaSourceBuilder:
        """Read all streams in whose id a regular expression is found, also later ones.

        Raises:
            ConfigurationError: If it is none, or it was said before what to read.
        """
        return self.set_kafka_stream_subscriber(StreamPatternSubscriber(stream_pattern))

    def set_kafka_stream_subscriber(
        self, kafka_stream_subscriber: KafkaStreamSubscriber
    ) -> DynamicKafkaSourceBuilder:
        """Have streams chosen.

        Raises:
            TypeMismatchError: If it is no KafkaStreamSubscriber.
            ConfigurationError: If it was said before what to read.
        """
        if not isinstance(kafka_stream_subscriber, KafkaStreamSubscriber):
            raise TypeMismatchError(
                f"a {type(kafka_stream_subscriber).__name__} was given, not a KafkaStreamSubscriber"
            )
        if self._subscriber is not None:
            raise ConfigurationError(
                f"a source was told to read streams {kafka_stream_subscriber!r}, and {self._subscriber!r} before",
                hint="Call one of set_stream_ids, set_stream_pattern and set_kafka_stream_subscriber, once.",
            )
        self._subscriber = kafka_stream_subscriber
        return self

    def set_kafka_metadata_service(
        self, kafka_metadata_service: KafkaMetadataService
    ) -> DynamicKafkaSourceBuilder:
        """Say who knows the topics and clusters of streams.

        Raises:
            TypeMismatchError: If it is no KafkaMetadataService.
        """
        if not isinstance(kafka_metadata_service, KafkaMetadataService):
            raise TypeMismatchError(
                f"a {type(kafka_metadata_service).__name__} was given, not a KafkaMetadataService"
            )
        self._service = kafka_metadata_service
        return self

    def set_value_only_deserializer(
        self, deserialization_schema: DeserializationSchema
    ) -> DynamicKafkaSourceBuilder:
        """Have a schema make records of the values; tombstones are left out.

        Raises:
            TypeMismatchError: If it is no DeserializationSchema.
        """
        self._schema = KafkaRecordDeserializationSchema.value_only(deserialization_schema)
        return self

    def set_deserializer(self, deserializer: KafkaRecordDeserializationSchema) -> DynamicKafkaSourceBuilder:
        """Have a schema make records of whole Kafka records: key, value, headers, offset.

        Raises:
            TypeMismatchError: If it is no KafkaRecordDeserializationSchema.
        """
        self._schema = check_schema(deserializer)
        return self

    def set_starting_offsets(
        self, starting_offsets_initializer: KafkaOffsetsInitializer
    ) -> DynamicKafkaSourceBuilder:
        """Say where to begin; by default with the first records, as in clusters and topics that come later."""
        self._starts = check_offsets(starting_offsets_initializer)
        return self

    def set_bounded(self, stopping_offsets_initializer: KafkaOffsetsInitializer) -> DynamicKafkaSourceBuilder:
        """Stop at these offsets; streams, clusters and partitions that come later are not read."""
        self._stops = check_offsets(stopping_offsets_initializer)
        return self

    def set_malformed_policy(self, policy: MalformedPolicy) -> DynamicKafkaSourceBuilder:
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

    def set_group_id(self, group_id: str) -> DynamicKafkaSourceBuilder:
        """Name the consumer group: offsets are committed to it, in each cluster, when checkpoints are complete."""
        return self.set_property("group.id", group_id)

    def set_client_id_prefix(self, prefix: str) -> DynamicKafkaSourceBuilder:
        """Say what the names begin with under which brokers see the clients; the cluster's id follows."""
        return self.set_property("client.id.prefix", prefix)

    def set_property(self, key: str, value: str) -> DynamicKafkaSourceBuilder:
        """Set a property for all clusters: Kafka's of consumers, or one of Flink's options of the source."""
        self._properties = self._properties.updated({key: value})
        return self

    def set_properties(self, props: Mapping[str, Any]) -> DynamicKafkaSourceBuilder:
        """Set properties for all clusters; those that were set before stay."""
        self._properties = self._properties.updated(props)
        return self

    def build(self) -> DynamicKafkaSource:
        """Return the source.

        Raises:
            ConfigurationError: If something is missing or does not fit, or the client library is not installed.
        """
        if self._subscriber is None:
            calls = "set_stream_ids(...), set_stream_pattern(...) or set_kafka_stream_subscriber(...)"
            raise _missing("streams", calls)
        if self._service is None:
            raise _missing("metadata service", "set_kafka_metadata_service(...)")
        if self._schema is None:
            raise _missing("deserializer", "set_value_only_deserializer(...) or set_deserializer(...)")
        confluent_kafka()
        settings = DynamicSettings.of(
            self._subscriber, self._service, self._properties, self._starts, self._stops
        )
        return DynamicKafkaSource(settings, self._schema, self._malformed)


def _missing(what: str, calls: str) -> ConfigurationError:
    return ConfigurationError(f"a source of Kafka streams has no {what}", hint=f"Call {calls}.")
