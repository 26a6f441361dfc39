"""What Kafka's client says went wrong, as errors that tell what to do; and what may pass by itself."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from millstream.base.errors import SinkError, SourceError
from millstream.connectors.kafka.properties import KafkaProperties

if TYPE_CHECKING:
    from confluent_kafka import KafkaError

__all__ = ["KafkaProblem", "error_of", "explain", "is_passing"]

KafkaProblem = type[SourceError] | type[SinkError]

# Name of the error -> (what it is, what to do).
_EXPLAINED = {
    "_TRANSPORT": (
        "no broker could be reached",
        "Check bootstrap.servers and security.protocol, and that the brokers run and can be reached from here.",
    ),
    "_RESOLVE": (
        "the name of a broker does not resolve",
        "Check bootstrap.servers, and the brokers' advertised.listeners.",
    ),
    "_NOENT": (
        "no broker leads a partition",
        "Check that the brokers run which have replicas of it.",
    ),
    "_TIMED_OUT": (
        "the brokers did not answer in time",
        "Check that they run, and that their advertised.listeners can be reached from here.",
    ),
    "_AUTHENTICATION": (
        "the broker refused the login",
        "Check security.protocol, sasl.mechanism, and user name and password in sasl.jaas.config.",
    ),
    "_SSL": (
        "no secure connection to the broker was made",
        "Check ssl.truststore.location (PEM), security.protocol, and the host names in the brokers' certificates.",
    ),
    "UNKNOWN_TOPIC_OR_PART": (
        "a topic or partition does not exist",
        "Create the topic, or check its name.",
    ),
    "TOPIC_EXCEPTION": ("a topic's name is not allowed", "Use letters, digits, '.', '_' and '-', up to 249."),
    "TOPIC_AUTHORIZATION_FAILED": (
        "access to a topic is not allowed",
        "Give the user the right to read (sources), or to write and describe (sinks) it.",
    ),
    "GROUP_AUTHORIZATION_FAILED": (
        "access to a consumer group is not allowed",
        "Give the user the right to read the group; of an exactly-once sink, groups that begin with its prefix.",
    ),
    "TRANSACTIONAL_ID_AUTHORIZATION_FAILED": (
        "access to a transactional id is not allowed",
        "Give the user the right to write and describe transactional ids that begin with the sink's prefix.",
    ),
    "CLUSTER_AUTHORIZATION_FAILED": (
        "an operation of the cluster is not allowed",
        "Give the user the right that it needs, such as IdempotentWrite.",
    ),
    "MSG_SIZE_TOO_LARGE": (
        "a record is too large",
        "Raise max.request.size of the sink and max.message.bytes of the topic, or make records smaller.",
    ),
    "INVALID_TRANSACTION_TIMEOUT": (
        "transaction.timeout.ms is larger than the brokers' transaction.max.timeout.ms",
        "Set the sink's property transaction.timeout.ms to less (brokers allow 900000 unless set otherwise).",
    ),
    "CONCURRENT_TRANSACTIONS": (
        "a transaction has not ended in all its partitions",
        "Look for transactions that are open: millstream kafka transactions ls.",
    ),
    "_FENCED": (
        "the transactional id was taken over by another producer",
        "If another job uses the same transactional id prefix, give each its own.",
    ),
    "_AUTO_OFFSET_RESET": (
        "the position to read from is not there any more",
        "Records were deleted before they were read, or the topic was made anew: raise its retention.",
    ),
    "OFFSET_OUT_OF_RANGE": (
        "the position to read from is not there any more",
        "Records were deleted before they were read, or the topic was made anew: raise its retention.",
    ),
    "NOT_ENOUGH_REPLICAS": (
        "too few replicas of a partition are in sync",
        "Start the brokers that are missing, or lower min.insync.replicas.",
    ),
}  # fmt: skip
_EXPLAINED["_ALL_BROKERS_DOWN"] = _EXPLAINED["_TRANSPORT"]
_EXPLAINED["SASL_AUTHENTICATION_FAILED"] = _EXPLAINED["_AUTHENTICATION"]
_EXPLAINED["UNSUPPORTED_SASL_MECHANISM"] = _EXPLAINED["_AUTHENTICATION"]
_EXPLAINED["ILLEGAL_SASL_STATE"] = _EXPLAINED["_AUTHENTICATION"]
_EXPLAINED["_UNKNOWN_TOPIC"] = _EXPLAINED["UNKNOWN_TOPIC_OR_PART"]
_EXPLAINED["_UNKNOWN_PARTITION"] = _EXPLAINED["UNKNOWN_TOPIC_OR_PART"]
_EXPLAINED["_MSG_TIMED_OUT"] = _EXPLAINED["_TIMED_OUT"]
_EXPLAINED["REQUEST_TIMED_OUT"] = _EXPLAINED["_TIMED_OUT"]
_EXPLAINED["INVALID_PRODUCER_EPOCH"] = _EXPLAINED["_FENCED"]
_EXPLAINED["PRODUCER_FENCED"] = _EXPLAINED["_FENCED"]
_EXPLAINED["NOT_ENOUGH_REPLICAS_AFTER_APPEND"] = _EXPLAINED["NOT_ENOUGH_REPLICAS"]
_EXPLAINED["RECORD_LIST_TOO_LARGE"] = _EXPLAINED["MSG_SIZE_TOO_LARGE"]

# A server that is away, starts, or has just elected another leader.
_PASSING = frozenset({
    "_TRANSPORT", "_RESOLVE", "_ALL_BROKERS_DOWN", "_TIMED_OUT", "_TIMED_OUT_QUEUE", "_MSG_TIMED_OUT",
    "_WAIT_COORD", "_NOENT", "_WAIT_CACHE", "_LEADER_CHANGE", "REQUEST_TIMED_OUT", "NETWORK_EXCEPTION",
    "LEADER_NOT_AVAILABLE", "NOT_LEADER_FOR_PARTITION", "BROKER_NOT_AVAILABLE", "REPLICA_NOT_AVAILABLE",
    "COORDINATOR_LOAD_IN_PROGRESS", "COORDINATOR_NOT_AVAILABLE", "NOT_COORDINATOR", "NOT_ENOUGH_REPLICAS",
    "NOT_ENOUGH_REPLICAS_AFTER_APPEND", "CONCURRENT_TRANSACTIONS", "NOT_CONTROLLER", "KAFKA_STORAGE_ERROR",
    "UNSTABLE_OFFSET_COMMIT", "OFFSET_NOT_AVAILABLE", "FENCED_LEADER_EPOCH", "UNKNOWN_LEADER_EPOCH",
    "LISTENER_NOT_FOUND", "ELIGIBLE_LEADERS_NOT_AVAILABLE", "THROTTLING_QUOTA_EXCEEDED",
})  # fmt: skip


def error_of(cause: Exception | KafkaError) -> Any:
    """Return the `KafkaError` of what the client raised or reported; None if it has none."""
    told = cause if hasattr(cause, "fatal") else next(iter(getattr(cause, "args", ())), None)
    return told if hasattr(told, "fatal") else None


def is_passing(cause: Exception | KafkaError) -> bool:
    """Return whether an error may pass by itself, so that the same is worth trying again."""
    error = error_of(cause)
    return error is not None and not error.fatal() and error.name() in _PASSING


def explain(
    cause: Exception | KafkaError,
    *,
    kind: KafkaProblem,
    doing: str,
    properties: KafkaProperties,
    reason: KafkaError | None = None,
) -> SourceError | SinkError:
    """Return an error that says what was being done, what went wrong, and what to do.

    Args:
        cause: What the client raised or reported.
        kind: `SourceError` or `SinkError`.
        doing: What failed, with its object: `topic 'orders' could not be read`.
        properties: The client's, for the brokers' addresses, and so that secrets are not told.
        reason: What the client reported meanwhile of its connections, if that tells more.
    """
    error = error_of(cause)
    told = reason if reason is not None and (error is None or is_passing(error)) else error
    name = "" if told is None else told.name()
    fact, hint = _EXPLAINED.get(name, ("", None))
    text = str(cause) if told is None else f"{name}: {told.str()}"
    where = properties.get("bootstrap.servers", "no bootstrap.servers")
    return kind(
        properties.without_secrets(f"{doing}: {fact}" if fact else doing),
        detail=properties.without_secrets(f"Kafka at {where}: {text}"),
        hint=hint,
    )
