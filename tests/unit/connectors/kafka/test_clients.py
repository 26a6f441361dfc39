"""Clients of a cluster of which no broker is there."""

from __future__ import annotations

import pytest

from millstream.base.errors import SinkError
from millstream.connectors.kafka import offsets
from millstream.connectors.kafka.clients import Cluster
from millstream.connectors.kafka.offsets import OffsetLookup
from millstream.connectors.kafka.partitions import KafkaTopicPartition
from millstream.connectors.patience import Patience

kafka = pytest.importorskip("confluent_kafka")

NOWHERE = {"bootstrap.servers": "127.0.0.1:1"}
A_PARTITION = KafkaTopicPartition("orders", 0)


def refuse() -> None:
    raise kafka.KafkaException(kafka.KafkaError(kafka.KafkaError._TIMED_OUT))


def test_what_was_asked_is_answered_though_another_call_fails_meanwhile(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(offsets, "_ANSWER_S", 0.5)
    cluster = Cluster(NOWHERE, SinkError, Patience(total_s=0))
    asked = OffsetLookup(cluster, None, "read_committed").request_ends([A_PARTITION])
    with pytest.raises(SinkError):
        cluster.call(refuse, "topic 'orders' cannot be written")  # the next call has another client
    error = asked[A_PARTITION].exception(timeout=10)
    assert isinstance(error, kafka.KafkaException)


def test_clients_that_have_answered_are_let_go_of(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(offsets, "_ANSWER_S", 0.1)
    cluster = Cluster(NOWHERE, SinkError, Patience(total_s=0))
    lookup = OffsetLookup(cluster, None, "read_committed")
    for _ in range(3):
        lookup.request_ends([A_PARTITION])[A_PARTITION].exception(timeout=10)
        with pytest.raises(SinkError):
            cluster.call(refuse, "topic 'orders' cannot be written")
    lookup.request_ends([A_PARTITION])
    assert len(cluster._due) == 1
