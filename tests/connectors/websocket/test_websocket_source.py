"""Receiving from a real server."""

from __future__ import annotations

import threading
import time
from typing import Any

import pytest

from millstream.base.errors import JobExecutionError, MalformedRecordError, MillstreamError, SourceError
from millstream.common.serialization import SimpleStringSchema
from millstream.datastream.connectors.websocket import (
    MalformedPolicy,
    Patience,
    WebSocketSource,
    WebSocketSourceBuilder,
)
from millstream.testing import MiniCluster
from servers.websocket import WebSocketServer

SHORT = Patience(total_s=0.3)
LONG = Patience(total_s=30)
IDLE = {"millstream.execution.stop-when-idle": "2 s"}


def builder(server: WebSocketServer, path: str = "/feed") -> WebSocketSourceBuilder:
    new = WebSocketSource.builder().set_url(server.url + path).set_patience(SHORT)
    return new.set_value_only_deserializer(SimpleStringSchema())


def texts(count: int) -> list[str]:
    return [str(number) for number in range(count)]


def collect(source: WebSocketSource, **options: Any) -> list[Any]:
    with MiniCluster(parallelism=1, options={**IDLE, **options}) as cluster:
        return cluster.collect(cluster.environment().add_source(source))


def cause_of(error: BaseException) -> BaseException:
    while error.__cause__ is not None and not isinstance(error, (SourceError, MalformedRecordError)):
        error = error.__cause__
    return error


def failing(source: WebSocketSource) -> str:
    options = {"restart-strategy.type": "none", "millstream.execution.stop-when-idle": "60 s"}
    with pytest.raises((JobExecutionError, MillstreamError)) as failed:
        collect(source, **options)
    return str(cause_of(failed.value))


def test_text_and_binary_messages_behind_a_subscription(socket_server):
    socket_server.wants_first_message = True
    socket_server.items.extend(["a", b"b", "c", "x" * 200_000])
    new = builder(socket_server).set_subscribe_messages('{"subscribe": "all"}')

    assert collect(new.build()) == ["a", "b", "c", "x" * 200_000]
    assert socket_server.first_messages == ['{"subscribe": "all"}']


def test_what_was_received_is_processed_once_when_a_job_fails(socket_server):
    socket_server.items.extend(texts(60))
    options = {**IDLE, "millstream.epoch.fixed-records": 10}
    with MiniCluster(parallelism=1, options=options) as cluster:
        cluster.fail_after(60)  # all of it has been received
        stream = cluster.environment().add_source(builder(socket_server).build())
        assert cluster.collect(stream.map(cluster.tap())) == texts(60)
    assert len(cluster.failures) == 1


@pytest.mark.long
def test_server_that_is_restarted_while_a_job_receives(socket_server):
    found: list[Any] = []
    with MiniCluster(parallelism=1, options={"millstream.execution.stop-when-idle": "5 s"}) as cluster:
        source = builder(socket_server).set_patience(LONG).build()
        job = threading.Thread(
            target=lambda: found.extend(cluster.collect(cluster.environment().add_source(source)))
        )
        socket_server.items.extend(texts(50))
        job.start()
        for part in range(3):
            while socket_server.items:
                time.sleep(0.05)
            time.sleep(1)  # what was sent is received
            socket_server.stop()
            time.sleep(0.2)
            socket_server.start()
            socket_server.items.extend(f"{part} {each}" for each in texts(50))
        job.join()

    assert found == [*texts(50), *(f"{part} {each}" for part in range(3) for each in texts(50))]


def test_malformed_messages(socket_server):
    socket_server.items.extend(["a", b"\xff", "b"])
    assert "message of the WebSocket ws://127.0.0.1" in failing(builder(socket_server).build())
    socket_server.items.extend(["a", b"\xff", "b"])
    skipping = builder(socket_server).set_malformed_policy(MalformedPolicy.skip()).build()
    assert collect(skipping)[-2:] == ["a", "b"]


class TestTrouble:
    def test_server_that_is_down(self, socket_server, caplog):
        socket_server.stop()
        url = f"ws://me:secret-word@127.0.0.1:{socket_server.port}/feed?key=secret-key"
        new = builder(socket_server).set_url(url).set_headers({"X-Key": "secret-header"})
        source = new.set_subscribe_messages("secret-message").build()
        said = failing(source)

        assert f"ws://127.0.0.1:{socket_server.port}/feed refused or did not answer" in said
        assert "Check that the server runs" in said
        assert "secret" not in said + repr(source) + caplog.text

    def test_login(self, socket_server):
        socket_server.items.append("a")
        url = f"ws://me:secret-word@127.0.0.1:{socket_server.port}/secret"
        assert collect(builder(socket_server).set_url(url).build()) == ["a"]
        said = failing(builder(socket_server).set_url(url.replace("secret-w", "false-w")).build())

        assert "status 401" in said and "user and password" in said and "-word" not in said

    def test_server_that_closes_for_good_reason(self, socket_server):
        socket_server.close_codes.append(1008)

        assert "1008 (policy violation) not now" in failing(builder(socket_server).build())

    @pytest.mark.long
    def test_server_that_closes_each_connection(self, socket_server):
        socket_server.close_codes.extend([1001] * 30)

        assert "was closed 10 times shortly after it was opened" in failing(builder(socket_server).build())

    @pytest.mark.long
    def test_message_that_is_too_large(self, socket_server):
        socket_server.items.append("x" * 1_000)
        said = failing(builder(socket_server).set_max_message_bytes(100).build())

        assert "set_max_message_bytes" in said
