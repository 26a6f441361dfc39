"""Flink's options of Pulsar's connector, and what the client library calls the same.

An option that is not here is refused: what it asks for would not be done. Some are known and mean nothing here; they
are accepted, as programs have them.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from millstream.base.errors import ConfigurationError, NotSupportedError

__all__ = ["CONNECTION", "IGNORED", "PRODUCER", "SINK", "SOURCE", "Option", "PulsarOptions"]


@dataclass(frozen=True, slots=True)
class Option:
    """How an option is read.

    Attributes:
        parse: Makes a value of its text.
        argument: What the client library calls it; empty if it is for the connector.
    """

    parse: Callable[[str], Any]
    argument: str = ""


def _flag(text: str) -> bool:
    if text.lower() not in ("true", "false"):
        raise ValueError("it has to be true or false")
    return text.lower() == "true"


def _thousandth(text: str) -> int:
    return max(1, int(text) // 1_000)


def _one_of(*names: str) -> Callable[[str], str]:
    def parse(text: str) -> str:
        found = text.strip().replace("-", "_").upper()
        if found not in names:
            raise ValueError(f"it has to be one of {', '.join(names)}")
        return found

    return parse


CONNECTION = {
    "pulsar.client.serviceUrl": Option(str),
    "pulsar.admin.adminUrl": Option(str),
    "pulsar.client.authPluginClassName": Option(str),
    "pulsar.client.authParams": Option(str),
    "pulsar.client.operationTimeoutMs": Option(_thousandth, "operation_timeout_seconds"),
    "pulsar.client.connectionTimeoutMs": Option(int, "connection_timeout_ms"),
    "pulsar.client.numIoThreads": Option(int, "io_threads"),
    "pulsar.client.concurrentLookupRequest": Option(int, "concurrent_lookup_requests"),
    "pulsar.client.listenerName": Option(str, "listener_name"),
    "pulsar.client.tlsTrustCertsFilePath": Option(str, "tls_trust_certs_file_path"),
    "pulsar.client.tlsCertificateFilePath": Option(str, "tls_certificate_file_path"),
    "pulsar.client.tlsKeyFilePath": Option(str, "tls_private_key_file_path"),
    "pulsar.client.tlsAllowInsecureConnection": Option(_flag, "tls_allow_insecure_connection"),
    "pulsar.client.tlsHostnameVerificationEnable": Option(_flag, "tls_validate_hostname"),
}
SOURCE = {
    "pulsar.consumer.subscriptionName": Option(str),
    "pulsar.consumer.consumerName": Option(str),
    "pulsar.consumer.receiverQueueSize": Option(int),
    "pulsar.source.partitionDiscoveryIntervalMs": Option(int),
    "pulsar.source.verifyInitialOffsets": Option(_one_of("FAIL_ON_MISMATCH", "WARN_ON_MISMATCH")),
}
SINK = {
    "pulsar.producer.producerName": Option(str),
    "pulsar.sink.messageKeyHash": Option(str),
}
PRODUCER = {
    "pulsar.producer.batchingEnabled": Option(_flag, "batching_enabled"),
    "pulsar.producer.batchingMaxMessages": Option(int, "batching_max_messages"),
    "pulsar.producer.batchingMaxBytes": Option(int, "batching_max_allowed_size_in_bytes"),
    "pulsar.producer.batchingMaxPublishDelayMicros": Option(_thousandth, "batching_max_publish_delay_ms"),
    "pulsar.producer.compressionType": Option(
        _one_of("NONE", "LZ4", "ZLIB", "ZSTD", "SNAPPY"), "compression_type"
    ),
    "pulsar.producer.chunkingEnabled": Option(_flag, "chunking_enabled"),
}
IGNORED = frozenset(
    {
        "pulsar.client.enableTransaction",
        "pulsar.client.statsIntervalSeconds",
        "pulsar.source.enableAutoAcknowledgeMessage",
        "pulsar.source.autoCommitCursorInterval",
        "pulsar.source.maxFetchRecords",
        "pulsar.source.maxFetchTime",
        "pulsar.source.fetchOneMessageTime",
        "pulsar.source.enableMetrics",
        "pulsar.source.resetSubscriptionCursor",
        "pulsar.sink.enableMetrics",
        "pulsar.producer.maxPendingMessages",
        "pulsar.producer.sendTimeoutMs",
        "pulsar.sink.transactionTimeoutMillis",
        "pulsar.sink.maxRecommitTimes",
    }
)
"""Known in Flink, and without a meaning here."""


class PulsarOptions:
    """Options as a program gives them, checked one by one; values are shown nowhere, as some are secrets.

    Args:
        known: The options that there are.
    """

    def __init__(self, known: Mapping[str, Option]) -> None:
        self._known = known
        self._values: dict[str, Any] = {}
        self._texts: dict[str, str] = {}

    def set(self, key: str, value: Any) -> None:
        """Set an option.

        Raises:
            ConfigurationError: If its value does not fit, or another one was set before.
            NotSupportedError: If there is no such option.
        """
        if key in IGNORED:
            return
        option = self._known.get(key)
        if option is None:
            raise NotSupportedError(
                f"the Pulsar connector has no option {key!r}",
                detail=f"It has {', '.join(sorted(self._known))}.",
                hint="Leave it out, or see whether the builder has a method for it.",
            )
        text = str(value).lower() if isinstance(value, bool) else str(value)
        if self._texts.setdefault(key, text) != text:
            raise ConfigurationError(f"the option {key!r} was set before, to something else")
        try:
            self._values[key] = option.parse(text)
        except ValueError as error:
            raise ConfigurationError(f"the value of option {key!r} does not fit: {error}") from error

    def get(self, key: str, default: Any = None) -> Any:
        """Return an option's value."""
        return self._values.get(key, default)

    def arguments(self, options: Mapping[str, Option]) -> dict[str, Any]:
        """Return those that the client library is given, by its names."""
        return {
            option.argument: self._values[key]
            for key, option in options.items()
            if option.argument and key in self._values
        }
