"""Steps of transactions that the client library does not come to an end with."""

from __future__ import annotations

import socket
import threading
import time
from contextlib import closing

import pytest

from millstream.connectors.kafka.properties import KafkaProperties
from millstream.connectors.kafka.transactions import _bounded
from millstream.connectors.kafka.wire import BrokerConnection

kafka = pytest.importorskip("confluent_kafka")


def test_a_step_is_not_waited_for_when_its_coordinator_is_gone() -> None:
    never, asked = threading.Event(), iter([False, False, True])
    began = time.monotonic()
    with pytest.raises(kafka.KafkaException, match="_TRANSPORT"):
        _bounded(lambda seconds: never.wait(seconds), 30, is_lost=lambda: next(asked))
    assert time.monotonic() - began < 10
    never.set()


def test_no_step_is_begun_whose_coordinator_has_gone() -> None:
    begun = []
    with pytest.raises(kafka.KafkaException, match="_TRANSPORT"):
        _bounded(begun.append, 30, is_lost=lambda: True)
    assert not begun


def test_a_step_that_takes_too_long_is_given_up() -> None:
    never = threading.Event()
    with pytest.raises(kafka.KafkaException, match="_TIMED_OUT"):
        _bounded(lambda seconds: never.wait(), -0.9)
    never.set()


def test_a_connection_tells_that_the_broker_is_gone() -> None:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        connection = BrokerConnection(
            "127.0.0.1", listener.getsockname()[1], KafkaProperties({"bootstrap.servers": "127.0.0.1:1"})
        )
        with closing(connection):
            broker, _ = listener.accept()
            assert not connection.has_ended()
            broker.send(b"an answer")
            assert not connection.has_ended()
            broker.close()
            connection._socket.recv(9)
            deadline = time.monotonic() + 10
            while not connection.has_ended():
                assert time.monotonic() < deadline
        assert connection.has_ended()
