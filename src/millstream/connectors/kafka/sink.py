"""The Kafka sink (PyFlink's `KafkaSink`)."""

from __future__ import annotations

import hashlib
import os
import re
import threading
from collections.abc import Mapping
from typing import Any

from millstream.base.errors import ConfigurationError, SinkError
from millstream.connectors.guarantee import DeliveryGuarantee
from millstream.connectors.kafka.clients import Cluster, confluent_kafka
from millstream.connectors.kafka.direct import DirectWriter
from millstream.connectors.kafka.producing import Topics
from millstream.connectors.kafka.properties import KafkaProperties, translate
from millstream.connectors.kafka.serialization import KafkaRecordSerializationSchema
from millstream.connectors.kafka.staging import StagingWriter
from millstream.connectors.kafka.transactions import TransactionCommitter, abort_leftovers
from millstream.connectors.staged_blocks import make_writable
from millstream.spi.sink import Committer, Sink, SinkWriter, WriterContext

__all__ = ["KafkaSink", "KafkaSinkBuilder"]

_DEFAULT_TIMEOUT_MS = 60_000
_PREFIX = re.compile(r"[A-Za-z0-9._-]{1,150}")


class KafkaSink(Sink):
    """Writes records to topics; built by `builder()`.

    `NONE` writes records as they come; `AT_LEAST_ONCE` waits at each checkpoint until all before it are
    acknowledged. With `EXACTLY_ONCE` records wait in files of the slots until their checkpoint is complete, and come
    into the topics by transactions: readers have to read `read_committed`.

    Example:
        >>> from millstream.common import SimpleStringSchema
        >>> from millstream.datastream.connectors.kafka import DeliveryGuarantee, KafkaSink
        >>> from millstream.datastream.connectors.kafka import KafkaRecordSerializationSchema
        >>> schema = KafkaRecordSerializationSchema.builder().set_topic("sold")
        >>> sink = (
        ...     KafkaSink.builder()
        ...     .set_bootstrap_servers("localhost:9092")
        ...     .set_record_serializer(schema.set_value_serialization_schema(SimpleStringSchema()).build())
        ...     .set_delivery_guarantee(DeliveryGuarantee.EXACTLY_ONCE)
        ...     .set_transactional_id_prefix("shop-to-sold")
        ...     .build()
        ... )  # stream.sink_to(sink)
    """

    def __init__(
        self,
        properties: Mapping[str, Any],
        schema: KafkaRecordSerializationSchema,
        guarantee: DeliveryGuarantee = DeliveryGuarantee.NONE,
        transactional_id_prefix: str | None = None,
        staging_directory: str | None = None,
    ) -> None:
        self._properties = KafkaProperties(properties)
        self._schema = schema
        self._guarantee = guarantee
        self._prefix = transactional_id_prefix or ""
        self._directory = None if staging_directory is None else os.path.abspath(staging_directory)

    @staticmethod
    def builder() -> KafkaSinkBuilder:
        """Begin to build one."""
        return KafkaSinkBuilder()

    def get_transformer(self) -> None:
        """Return None: records are written as they are."""
        return None

    @property
    def _is_exactly_once(self) -> bool:
        return self._guarantee is DeliveryGuarantee.EXACTLY_ONCE

    def check(self) -> None:
        """Reach the brokers, find the topic, and end what transactions a dead run left open.

        Raises:
            SinkError: If they cannot be reached, or refuse something.
            ConfigurationError: If properties do not fit.
        """
        cluster = Cluster(self._properties, SinkError)
        topic = self._schema.topic
        what = "the topics that a selector names" if topic is None else f"topic {topic!r}"
        doing = f"{what} cannot be written"
        try:
            cluster.reach(doing)
            if topic is not None:
                Topics(cluster).partitions(topic)
            if self._is_exactly_once:
                self._check_transactions(cluster)
        finally:
            cluster.close()

    def _check_transactions(self, cluster: Cluster) -> None:
        if self._directory is not None:
            make_writable(self._directory)
        _check_timeout(cluster)
        place = (cluster.properties["bootstrap.servers"], self._prefix)
        with _ended_lock:
            if place in _ended:
                return  # a restart: what its last attempt left is ended as it is committed again
        abort_leftovers(cluster, self._prefix)
        with _ended_lock:
            _ended.add(place)

    def build_writer(self, context: WriterContext) -> SinkWriter:
        """Make the writer of one subtask."""
        if not self._is_exactly_once:
            flushes = self._guarantee is DeliveryGuarantee.AT_LEAST_ONCE
            return DirectWriter(self._properties, self._schema, flushes=flushes)
        sink = hashlib.blake2b(context.operator_id.encode(), digest_size=4).hexdigest()
        return StagingWriter(self._properties, self._schema, self._directory, sink, context)

    def build_committer(self) -> Committer | None:
        """Make the committer, if the sink is exactly once."""
        if not self._is_exactly_once:
            return None
        return TransactionCommitter(self._properties, self._prefix)


# Brokers and prefixes whose leftovers this process has ended.
_ended: set[tuple[str, str]] = set()
_ended_lock = threading.Lock()


def _check_timeout(cluster: Cluster) -> None:
    """Compare the transactions' timeout with what the brokers allow, if this user may know that.

    Raises:
        ConfigurationError: If it is larger.
    """
    timeout_ms = int(cluster.properties.get("transaction.timeout.ms", _DEFAULT_TIMEOUT_MS))
    allowed_ms = _most_allowed(cluster)
    if allowed_ms is not None and timeout_ms > allowed_ms:
        raise ConfigurationError(
            f"transaction.timeout.ms of the Kafka sink is {timeout_ms:,} ms",
            detail=f"The brokers allow {allowed_ms:,} ms (transaction.max.timeout.ms).",
            hint="Set the property to less: a transaction is open only as long as a commit takes.",
        )


def _most_allowed(cluster: Cluster) -> int | None:
    metadata = cluster.reach("the brokers could not be asked")
    resource = confluent_kafka("confluent_kafka.admin").ConfigResource(
        "broker", str(next(iter(metadata.brokers)))
    )
    try:
        asked = cluster.ask(lambda admin: admin.describe_configs([resource], request_timeout=10))
        settings = asked[resource].result()
        return int(settings["transaction.max.timeout.ms"].value)
    except (confluent_kafka().KafkaException, KeyError):
        return None  # it is not allowed to ask: the first transaction would be refused


class KafkaSinkBuilder:
    """Builds a `KafkaSink`: bootstrap servers and a record serializer are needed.

    Example:
        >>> from millstream.datastream.connectors.kafka import KafkaSink
        >>> KafkaSink.builder().set_bootstrap_servers("localhost:9092").build()
        Traceback (most recent call last):
            ...
        millstream.base.errors.ConfigurationError: [CONFIGURATION] no record serializer is set
        Hint: Use set_record_serializer.
    """

    def __init__(self) -> None:
        self._properties: dict[str, Any] = {}
        self._schema: KafkaRecordSerializationSchema | None = None
        self._guarantee = DeliveryGuarantee.NONE
        self._prefix: str | None = None
        self._directory: str | None = None

    def set_bootstrap_servers(self, bootstrap_servers: str) -> KafkaSinkBuilder:
        """Set the brokers to begin with: `host:9092,other:9092`."""
        self._properties["bootstrap.servers"] = bootstrap_servers
        return self

    def set_record_serializer(self, record_serializer: KafkaRecordSerializationSchema) -> KafkaSinkBuilder:
        """Set what makes messages of records."""
        if not isinstance(record_serializer, KafkaRecordSerializationSchema):
            raise ConfigurationError(
                f"{type(record_serializer).__name__} is no KafkaRecordSerializationSchema",
                hint="Use KafkaRecordSerializationSchema.builder().",
            )
        self._schema = record_serializer
        return self

    def set_delivery_guarantee(self, delivery_guarantee: DeliveryGuarantee) -> KafkaSinkBuilder:
        """Set how often a record is seen if the job fails; `NONE` by default."""
        if not isinstance(delivery_guarantee, DeliveryGuarantee):
            raise ConfigurationError(f"{delivery_guarantee!r} is no DeliveryGuarantee")
        self._guarantee = delivery_guarantee
        return self

    def set_transactional_id_prefix(self, transactional_id_prefix: str) -> KafkaSinkBuilder:
        """Set what the sink's transactional ids begin with: no other sink on these brokers may have the same."""
        if not _PREFIX.fullmatch(transactional_id_prefix):
            raise ConfigurationError(
                f"transactional id prefix {transactional_id_prefix!r} is not allowed",
                detail="It has 1 to 150 letters, digits, '.', '_' and '-'.",
            )
        self._prefix = transactional_id_prefix
        return self

    def set_staging_directory(self, directory: str) -> KafkaSinkBuilder:
        """Set where records of an exactly-once sink wait: every slot and the driver see it, as durable as checkpoints.

        By default they wait in `written-ahead`, in the directory of checkpoints.
        """
        self._directory = directory
        return self

    def set_property(self, key: str, value: str) -> KafkaSinkBuilder:
        """Set one of Kafka's properties."""
        self._properties[key] = value
        return self

    def set_properties(self, properties: Mapping[str, Any]) -> KafkaSinkBuilder:
        """Set several of Kafka's properties."""
        self._properties.update(properties)
        return self

    def build(self) -> KafkaSink:
        """Return the sink.

        Raises:
            ConfigurationError: If something is missing, or a property cannot be had.
        """
        if not self._properties.get("bootstrap.servers"):
            raise ConfigurationError("no Kafka brokers are named", hint="Use set_bootstrap_servers.")
        if self._schema is None:
            raise ConfigurationError("no record serializer is set", hint="Use set_record_serializer.")
        if self._guarantee is DeliveryGuarantee.EXACTLY_ONCE and self._prefix is None:
            raise ConfigurationError(
                "a Kafka sink that is exactly once has no transactional id prefix",
                detail="It tells its transactions from those of other jobs, and has to stay the same when the job "
                "is started again.",
                hint="Use set_transactional_id_prefix with a name that no other sink on these brokers has.",
            )
        translate(KafkaProperties(self._properties), "producer")
        return KafkaSink(self._properties, self._schema, self._guarantee, self._prefix, self._directory)
