"""The Pulsar source (PyFlink's `PulsarSource`)."""

from __future__ import annotations

import warnings
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from millstream.base.errors import ConfigurationError, SourceError, TypeMismatchError
from millstream.config.option_types import ConfigOption
from millstream.connectors.messages import MalformedPolicy
from millstream.connectors.patience import Patience
from millstream.connectors.pulsar.connection import PulsarClient, PulsarConnection
from millstream.connectors.pulsar.cursors import StartCursor, StopCursor
from millstream.connectors.pulsar.declaring import PulsarBuilder
from millstream.connectors.pulsar.enumerator import PulsarEnumerator, SourceSettings
from millstream.connectors.pulsar.keys import RangeGenerator
from millstream.connectors.pulsar.positions import pulsar_package
from millstream.connectors.pulsar.reader import PulsarReader
from millstream.connectors.pulsar.records import RecordDecoder
from millstream.connectors.pulsar.settings import SOURCE
from millstream.connectors.pulsar.topics import TopicNames, TopicPattern, Topics, full_name
from millstream.spi.serialization import DeserializationSchema
from millstream.spi.source import Boundedness, Source, SourceReader, SplitEnumerator
from millstream.types.basic import TypeInformation

__all__ = ["PulsarSource", "PulsarSourceBuilder"]

_DISCOVERY_MS = 5 * 60_000
_RECEIVER_QUEUE = 1_000


@dataclass(frozen=True, slots=True)
class PulsarSource(Source):
    """The messages of topics, each exactly once: where each partition stands is in checkpoints.

    Each partition is a split with a watermark of its own. A record's event time is its message's, or, where the
    producer set none, the time when it was published. Made by `PulsarSource.builder()`.

    Example:
        >>> from millstream.common import SimpleStringSchema
        >>> from millstream.datastream.connectors.pulsar import PulsarSource
        >>> builder = PulsarSource.builder().set_service_url("pulsar://localhost:6650").set_subscription_name("answering")
        >>> source = builder.set_topics("orders").set_deserialization_schema(SimpleStringSchema()).build()
    """

    _connection: PulsarConnection
    _settings: SourceSettings
    _keys: RangeGenerator
    _decoder: RecordDecoder = field(repr=False)
    _boundedness: Boundedness

    @staticmethod
    def builder() -> PulsarSourceBuilder:
        """Return a builder."""
        return PulsarSourceBuilder()

    def get_boundedness(self) -> Boundedness:
        """Return whether it was built to end."""
        return self._boundedness

    def get_produced_type(self) -> TypeInformation | None:
        """Return the type that of the records, as far as the schema tells it."""
        return self._decoder.produced_type

    def build_enumerator(self, parallelism: int, restored: Any | None) -> SplitEnumerator:
        """Look for the partitions, and subscribe to them.

        Raises:
            SourceError: If the cluster does not answer, or has no such topic.
        """
        client = PulsarClient(self._connection, SourceError)
        try:
            return PulsarEnumerator(client, self._settings, restored)
        except BaseException:
            client.close()
            raise

    def build_reader(self, subtask_index: int, parallelism: int) -> SourceReader:
        """Make the reader of one subtask."""
        return PulsarReader(self._connection, self._settings, self._keys, self._decoder)


class PulsarSourceBuilder(PulsarBuilder):
    """Builds a `PulsarSource`; each method returns the builder.

    Service URL, subscription name, topics (or a pattern) and a schema have to be set.

    Example:
        >>> from millstream.common import SimpleStringSchema
        >>> from millstream.datastream.connectors.pulsar import PulsarSource, StopCursor
        >>> builder = PulsarSource.builder().set_service_url("pulsar://localhost:6650").set_subscription_name("answering")
        >>> builder = builder.set_topics(["orders", "returns"]).set_bounded_stop_cursor(StopCursor.latest())
        >>> source = builder.set_deserialization_schema(SimpleStringSchema()).set_with_metadata().build()
    """

    def __init__(self) -> None:
        super().__init__(SOURCE)
        self._topics: Topics | None = None
        self._start = StartCursor.default_start_cursor()
        self._stop = StopCursor.default_stop_cursor()
        self._boundedness = Boundedness.CONTINUOUS_UNBOUNDED
        self._keys = RangeGenerator.full()
        self._schema: DeserializationSchema | None = None
        self._policy = MalformedPolicy.fail()
        self._with_metadata = False

    def set_admin_url(self, admin_url: str) -> PulsarSourceBuilder:
        """Name the REST API, `http://host:8080`: a topic pattern needs it."""
        return self.set_config("pulsar.admin.adminUrl", admin_url)

    def set_service_url(self, service_url: str) -> PulsarSourceBuilder:
        """Name the cluster: `pulsar://host:6650`, or `pulsar+ssl://host:6651`."""
        return self.set_config("pulsar.client.serviceUrl", service_url)

    def set_subscription_name(self, subscription_name: str) -> PulsarSourceBuilder:
        """Name the job's subscription: it keeps messages until checkpoints have them, and tells how far it is."""
        return self.set_config("pulsar.consumer.subscriptionName", subscription_name)

    def set_topics(self, topics: str | Sequence[str]) -> PulsarSourceBuilder:
        """Read these topics, or single partitions.

        Raises:
            ConfigurationError: If there is none, one has no such name, or it was said before what to read.
        """
        names = [topics] if isinstance(topics, str) else list(topics)
        if not names:
            raise ConfigurationError("set_topics was given no topic")
        return self._read(TopicNames(tuple(dict.fromkeys(map(full_name, names)))))

    def set_topic_pattern(self, topic_pattern: str) -> PulsarSourceBuilder:
        """Read all topics of a namespace whose name matches: `persistent://tenant/namespace/orders-.*`.

        Also those that are made later. Names before the expression are no part of it; without them it is
        `public/default`.

        Raises:
            ConfigurationError: If it is no pattern, or it was said before what to read.
        """
        return self._read(TopicPattern.of(topic_pattern))

    def set_consumer_name(self, consumer_name: str) -> PulsarSourceBuilder:
        """Say what brokers show of the subscription's consumers."""
        return self.set_config("pulsar.consumer.consumerName", consumer_name)

    def set_range_generator(self, range_generator: RangeGenerator) -> PulsarSourceBuilder:
        """Read messages with some keys only; the others are passed over where they are read.

        Raises:
            TypeMismatchError: If it is no RangeGenerator.
        """
        self._keys = _checked(range_generator, RangeGenerator, "set_range_generator")
        return self

    def set_start_cursor(self, start_cursor: StartCursor) -> PulsarSourceBuilder:
        """Say where to start without a checkpoint; by default with the first message that is there.

        Unlike in Flink also if the subscription is there already.

        Raises:
            TypeMismatchError: If it is no StartCursor.
        """
        self._start = _checked(start_cursor, StartCursor, "set_start_cursor")
        return self

    def set_unbounded_stop_cursor(self, stop_cursor: StopCursor) -> PulsarSourceBuilder:
        """Stop there, but run as a job that does not end would: in streaming mode.

        Raises:
            TypeMismatchError: If it is no StopCursor.
        """
        self._stop = _checked(stop_cursor, StopCursor, "set_unbounded_stop_cursor")
        self._boundedness = Boundedness.CONTINUOUS_UNBOUNDED
        return self

    def set_bounded_stop_cursor(self, stop_cursor: StopCursor) -> PulsarSourceBuilder:
        """Stop there; partitions that come later are not read.

        Raises:
            TypeMismatchError: If it is no StopCursor.
        """
        self._stop = _checked(stop_cursor, StopCursor, "set_bounded_stop_cursor")
        self._boundedness = Boundedness.BOUNDED
        return self

    def set_deserialization_schema(
        self, deserialization_schema: DeserializationSchema
    ) -> PulsarSourceBuilder:
        """Choose the schema that makes values of messages.

        Raises:
            TypeMismatchError: If it is no schema.
        """
        self._schema = _checked(deserialization_schema, DeserializationSchema, "set_deserialization_schema")
        return self

    def set_malformed_policy(self, policy: MalformedPolicy) -> PulsarSourceBuilder:
        """Choose what becomes of messages that the schema cannot read; the job fails by default (millstream's own).

        Raises:
            TypeMismatchError: If it is no MalformedPolicy.
        """
        self._policy = _checked(policy, MalformedPolicy, "set_malformed_policy")
        return self

    def set_with_metadata(self, with_metadata: bool = True) -> PulsarSourceBuilder:
        """Have records be `PulsarMessage`s: the value with key, properties, times and id (millstream's own)."""
        self._with_metadata = with_metadata
        return self

    def set_authentication(self, auth_plugin_class_name: str, auth_params_string: str) -> PulsarSourceBuilder:
        """Say how to log in, in the words of Pulsar's Java client; the parameters are shown nowhere.

        Args:
            auth_plugin_class_name: `org.apache.pulsar.client.impl.auth.AuthenticationToken` or another one of Pulsar's
                own; `token`, `basic`, `tls`, `oauth2` and `athenz` for short.
            auth_params_string: `token:…`, or what else the plug-in takes.

        Raises:
            NotSupportedError: If there is no such plug-in outside of Java.
        """
        self._log_in(auth_plugin_class_name, auth_params_string)
        return self

    def set_config(self, key: str | ConfigOption, value: Any) -> PulsarSourceBuilder:
        """Set one of Flink's options of the source.

        Raises:
            ConfigurationError: If its value does not fit, or another one was set before.
            NotSupportedError: If there is no such option.
        """
        self._set(key, value)
        return self

    def set_config_with_dict(self, config: Mapping[str, Any]) -> PulsarSourceBuilder:
        """Set options; `set_properties` is the newer name."""
        warnings.warn(
            "set_config_with_dict is deprecated, set_properties is not", DeprecationWarning, stacklevel=2
        )
        return self.set_properties(config)

    def set_properties(self, config: Mapping[str, Any]) -> PulsarSourceBuilder:
        """Set options; those that were set before stay."""
        for key, value in config.items():
            self._set(key, value)
        return self

    def set_patience(self, patience: Patience) -> PulsarSourceBuilder:
        """Choose how long the cluster is waited for (millstream's own)."""
        self._patience = patience
        return self

    def build(self) -> PulsarSource:
        """Return the source.

        Raises:
            ConfigurationError: If something is missing or does not fit, or the client library is not installed.
        """
        connection = self._connection("source")
        options = self._options
        subscription = options.get("pulsar.consumer.subscriptionName")
        if not subscription:
            raise ConfigurationError(
                "the Pulsar source has no subscription", hint="set_subscription_name('name-of-the-job')."
            )
        if self._topics is None:
            raise ConfigurationError("the Pulsar source has no topic", hint="set_topics('orders').")
        if isinstance(self._topics, TopicPattern) and connection.admin_url is None:
            raise ConfigurationError(
                "the Pulsar source has a topic pattern, and no REST API to ask for topics",
                hint="set_admin_url('http://host:8080').",
            )
        if self._schema is None:
            raise ConfigurationError(
                "the Pulsar source has no schema", hint="set_deserialization_schema(SimpleStringSchema())."
            )
        pulsar_package()
        settings = SourceSettings(
            self._topics,
            subscription,
            options.get("pulsar.consumer.consumerName"),
            self._start,
            self._stop,
            self._discovery_ms(),
            options.get("pulsar.source.verifyInitialOffsets") != "WARN_ON_MISMATCH",
            options.get("pulsar.consumer.receiverQueueSize", _RECEIVER_QUEUE),
        )
        decoder = RecordDecoder(self._schema, self._policy, self._with_metadata)
        return PulsarSource(connection, settings, self._keys, decoder, self._boundedness)

    def _discovery_ms(self) -> int | None:
        """Return how often new partitions are looked for: never where reading ends, unless that was asked for."""
        asked: int | None = self._options.get("pulsar.source.partitionDiscoveryIntervalMs")
        if self._boundedness is Boundedness.BOUNDED or (asked is not None and asked <= 0):
            return None
        if asked is None and self._stop != StopCursor.never():
            return None
        return asked or _DISCOVERY_MS

    def _read(self, topics: Topics) -> PulsarSourceBuilder:
        if self._topics is not None:
            raise ConfigurationError(
                f"a Pulsar source was told to read {topics}, and {self._topics} before",
                hint="Call one of set_topics and set_topic_pattern, once.",
            )
        self._topics = topics
        return self


def _checked(value: Any, kind: type[Any], method: str) -> Any:
    if not isinstance(value, kind):
        raise TypeMismatchError(f"{method} was given a {type(value).__name__}, not a {kind.__name__}")
    return value
