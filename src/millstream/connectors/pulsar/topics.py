"""Which topics a source reads, and which partitions they have."""

from __future__ import annotations

import re
import zlib
from dataclasses import dataclass

from millstream.base.errors import ConfigurationError
from millstream.connectors.pulsar.connection import PulsarClient

__all__ = ["TopicNames", "TopicPattern", "Topics", "full_name", "owner_of"]

_PERSISTENT = "persistent://"
_PARTITION = re.compile(r"-partition-(\d+)$")


def full_name(topic: str) -> str:
    """Return a topic's name with tenant and namespace.

    >>> full_name("orders"), full_name("acme/shop/orders")
    ('persistent://public/default/orders', 'persistent://acme/shop/orders')

    Raises:
        ConfigurationError: If it is no name of a topic that is kept.
    """
    if not isinstance(topic, str) or not topic or topic.startswith("non-persistent://"):
        raise ConfigurationError(
            f"{topic!r} is no topic that can be used", detail="Its messages have to be kept: persistent://…"
        )
    name = topic.removeprefix(_PERSISTENT)
    parts = name.split("/")
    if len(parts) not in (1, 3) or not all(parts):
        raise ConfigurationError(
            f"{topic!r} is no name of a topic",
            hint="persistent://tenant/namespace/topic, or the topic alone.",
        )
    return f"{_PERSISTENT}{'public/default/' if len(parts) == 1 else ''}{name}"


def owner_of(partition: str, parallelism: int) -> int:
    """Return the subtask that reads a partition: those of one topic go round.

    >>> [owner_of(f"persistent://a/b/c-partition-{number}", 2) for number in range(3)]
    [1, 0, 1]
    """
    found = _PARTITION.search(partition)
    number = int(found[1]) if found else 0
    return (zlib.crc32(_PARTITION.sub("", partition).encode()) + number) % parallelism


@dataclass(frozen=True, slots=True)
class TopicNames:
    """Topics by name.

    Attributes:
        names: Their full names; a single partition may be named too.
    """

    names: tuple[str, ...]

    def find(self, client: PulsarClient) -> list[str]:
        """Return the partitions that there are.

        Raises:
            SourceError: If there is no such topic, or the cluster stays away.
        """
        return [partition for name in self.names for partition in client.partitions(name)]

    def __str__(self) -> str:
        return ", ".join(self.names)


@dataclass(frozen=True, slots=True)
class TopicPattern:
    """Topics of one namespace, by a regular expression.

    Attributes:
        namespace: `tenant/namespace`.
        pattern: Of the whole name behind it.
    """

    namespace: str
    pattern: str

    @staticmethod
    def of(pattern: str) -> TopicPattern:
        """Return what a text says: `persistent://tenant/namespace/regex`, or the expression alone.

        Raises:
            ConfigurationError: If it is no regular expression, or has no namespace.
        """
        text = pattern.removeprefix(_PERSISTENT)
        parts = text.split("/", 2)
        if len(parts) == 2 or not text:
            raise ConfigurationError(
                f"{pattern!r} is no pattern of topics", hint="persistent://tenant/namespace/orders-.*"
            )
        namespace = "public/default" if len(parts) == 1 else f"{parts[0]}/{parts[1]}"
        try:
            re.compile(parts[-1])
        except re.error as error:
            raise ConfigurationError(f"{pattern!r} is no regular expression: {error}") from error
        return TopicPattern(namespace, parts[-1])

    def find(self, client: PulsarClient) -> list[str]:
        """Return the partitions of the topics that there are.

        Raises:
            SourceError: If the REST API does not list them.
        """
        listed: list[str] = client.ask_admin(f"persistent/{self.namespace}")
        listed += client.ask_admin(f"persistent/{self.namespace}/partitioned")
        prefix = f"{_PERSISTENT}{self.namespace}/"
        names = {_PARTITION.sub("", each).removeprefix(prefix) for each in listed}
        chosen = [each for each in names if re.fullmatch(self.pattern, each) and not each.startswith("__")]
        return [partition for name in sorted(chosen) for partition in client.partitions(prefix + name)]

    def __str__(self) -> str:
        return f"like {self.pattern!r} in {self.namespace}"


Topics = TopicNames | TopicPattern
