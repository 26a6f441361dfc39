"""What a Kafka source reads and how: the declared half, picklable."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from millstream.base.errors import ConfigurationError, SourceError
from millstream.connectors.kafka.clients import Cluster
from millstream.connectors.kafka.offsets import KafkaOffsetResetStrategy, KafkaOffsetsInitializer
from millstream.connectors.kafka.partitions import Subscription
from millstream.connectors.kafka.properties import KafkaProperties
from millstream.connectors.patience import Patience

__all__ = ["SourceOptions", "SourceSettings"]

_DISCOVERY = "partition.discovery.interval.ms"
_COMMITS = "commit.offsets.on.checkpoint"
_CLIENT = "client.id.prefix"
_PATIENCE = "default.api.timeout.ms"
_OF_SOURCE = frozenset({_DISCOVERY, _COMMITS, _CLIENT, _PATIENCE, "register.consumer.metrics"})
_ISOLATIONS = ("read_committed", "read_uncommitted")


@dataclass(frozen=True)
class SourceOptions:
    """Flink's options among the properties of a source, and those of a client that the source acts on itself.

    Attributes:
        client: The other properties: those of clients.
        discovery_interval_ms: How often partitions are looked for; None for never, and "5 minutes" if nothing is said.
        is_discovery_set: Whether the program says something about that.
        commits_offsets: Whether offsets are committed when a checkpoint is complete.
        client_id_prefix: What names of clients begin with.
        group: The consumer group; None if there is none.
        isolation: `read_committed` or `read_uncommitted`.
        reset: Where to go on behind records that are gone; NONE if nothing is said.
        is_reset_set: Whether the program says something about that.
        patience_s: How long brokers that are away are waited for.
    """

    client: KafkaProperties
    discovery_interval_ms: int | None
    is_discovery_set: bool
    commits_offsets: bool
    client_id_prefix: str | None
    group: str | None
    isolation: str
    reset: KafkaOffsetResetStrategy
    is_reset_set: bool
    patience_s: float

    @staticmethod
    def of(properties: Mapping[str, Any]) -> SourceOptions:
        """Read the options.

        Raises:
            ConfigurationError: If one has a value that does not fit.
        """
        text = KafkaProperties(properties)
        interval_ms = _integer(text, _DISCOVERY, 300_000)
        isolation = text.get("isolation.level", "read_committed").lower()
        if isolation not in _ISOLATIONS:
            raise _unfit("isolation.level", isolation, " or ".join(_ISOLATIONS))
        return SourceOptions(
            client=KafkaProperties({key: text[key] for key in text if key not in _OF_SOURCE}),
            discovery_interval_ms=interval_ms if interval_ms > 0 else None,
            is_discovery_set=_DISCOVERY in text,
            commits_offsets=_boolean(text, _COMMITS, default=True),
            client_id_prefix=text.get(_CLIENT),
            group=text.get("group.id") or None,
            isolation=isolation,
            reset=_reset(text),
            is_reset_set="auto.offset.reset" in text,
            patience_s=_integer(text, _PATIENCE, 60_000) / 1000,
        )


def _integer(properties: Mapping[str, str], key: str, default: int) -> int:
    value = properties.get(key)
    try:
        return default if value is None else int(value)
    except ValueError as error:
        raise _unfit(key, value, "a number of milliseconds") from error


def _boolean(properties: Mapping[str, str], key: str, *, default: bool) -> bool:
    value = properties.get(key, str(default)).lower()
    if value not in ("true", "false"):
        raise _unfit(key, value, "true or false")
    return value == "true"


def _reset(properties: Mapping[str, str]) -> KafkaOffsetResetStrategy:
    value = properties.get("auto.offset.reset", "none")
    name = {
        "beginning": "EARLIEST",
        "smallest": "EARLIEST",
        "end": "LATEST",
        "largest": "LATEST",
        "error": "NONE",
    }
    try:
        return KafkaOffsetResetStrategy[name.get(value.lower(), value.upper())]
    except KeyError as error:
        raise _unfit("auto.offset.reset", value, "earliest, latest or none") from error


def _unfit(key: str, value: object, must: str) -> ConfigurationError:
    return ConfigurationError(f"property {key!r} of a Kafka source is {value!r}, must be {must}")


@dataclass(frozen=True)
class SourceSettings:
    """What is read.

    Attributes:
        options: Properties.
        subscription: Which partitions.
        starts: Where partitions begin that are there at first.
        stops: Where they end; None for never.
        discovery_interval_ms: How often new partitions are looked for; None for never.
        drops_unsubscribed: Whether partitions of a checkpoint are left out that the subscription does not name.
        adds_subscribed: Whether partitions that a checkpoint has not got are read, even if none are looked for later.
    """

    options: SourceOptions
    subscription: Subscription
    starts: KafkaOffsetsInitializer
    stops: KafkaOffsetsInitializer | None
    discovery_interval_ms: int | None
    drops_unsubscribed: bool = False
    adds_subscribed: bool = False

    @property
    def group(self) -> str | None:
        """The consumer group."""
        return self.options.group

    @property
    def isolation(self) -> str:
        """The isolation level."""
        return self.options.isolation

    @property
    def reset(self) -> KafkaOffsetResetStrategy:
        """Where to go on behind records that are gone."""
        return self.options.reset

    @property
    def commits_offsets(self) -> bool:
        """Whether offsets are committed when a checkpoint is complete."""
        return self.options.commits_offsets

    def open_cluster(self, who: str) -> Cluster:
        """Return the cluster, for clients that are named after the source and `who` asks."""
        properties = self.options.client
        prefix = self.options.client_id_prefix or self.options.group
        if prefix is not None and "client.id" not in properties:
            properties = properties.updated({"client.id": f"{prefix}-{who}"})
        patience = Patience(total_s=self.options.patience_s)
        return Cluster(properties, SourceError, patience)
