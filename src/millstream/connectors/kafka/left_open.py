"""Transactions that are open on a cluster, and how to end them: for jobs that will not be started again."""

from __future__ import annotations

from dataclasses import dataclass, field

from millstream.base.errors import SinkError
from millstream.connectors.kafka.clients import Cluster
from millstream.connectors.kafka.transactions import end_transaction
from millstream.connectors.kafka.wire import connected

__all__ = ["OpenTransaction", "abort", "open_transactions"]

# Those that are being committed or aborted end by themselves.
_OPEN = "Ongoing"


@dataclass(frozen=True, slots=True)
class OpenTransaction:
    """A transaction that holds readers of committed messages back.

    Attributes:
        transactional_id: Whose it is.
        started_ms: When it was begun, epoch milliseconds.
        timeout_ms: After so long the brokers end it.
        topics: What was written to; a topic that begins with two underscores has markers and offsets.
    """

    transactional_id: str
    started_ms: int
    timeout_ms: int
    topics: list[str] = field(default_factory=list)


def open_transactions(cluster: Cluster, prefix: str = "") -> list[OpenTransaction]:
    """Return the open transactions whose ids begin with a prefix, by id.

    Raises:
        SinkError: If a broker cannot be reached, or refuses.
        NotSupportedError: If it takes a login that this cannot do.
    """
    doing = "transactions could not be listed"
    found = []
    for broker in cluster.reach(doing).brokers.values():
        try:
            with connected(broker.host, broker.port, cluster.properties) as connection:
                for name, state in connection.transactions():
                    if state == _OPEN and name.startswith(prefix):
                        about = connection.describe(name)
                        found.append(
                            OpenTransaction(name, about["started_ms"], about["timeout_ms"], about["topics"])
                        )
        except OSError as error:
            raise SinkError(
                f"{doing}: broker {broker.host}:{broker.port} could not be reached", detail=str(error)
            ) from error
    return sorted(found, key=lambda each: each.transactional_id)


def abort(cluster: Cluster, transactional_id: str) -> None:
    """End the transaction of an id, whatever it wrote is dropped; a producer that still has the id is fenced.

    Raises:
        SinkError: If the brokers cannot be reached, or refuse.
    """
    doing = f"transaction {transactional_id!r} could not be aborted"
    cluster.call(lambda: end_transaction(cluster, transactional_id), doing)
