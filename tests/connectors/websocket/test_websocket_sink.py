"""Sending to a real server."""

from __future__ import annotations

import threading
from typing import Any

import pytest

from millstream.base.errors import NotSupportedError, SinkError
from millstream.common.serialization import SimpleStringSchema
from millstream.datastream.connectors.websocket import (
    DeliveryGuarantee,
    Patience,
    WebSocketSink,
    WebSocketSinkBuilder,
)
from millstream.spi.batch import Rows
from millstream.spi.sink import Sink, WriterContext
from millstream.testing import SinkTarget, check_sink
from servers.websocket import WebSocketServer

SHORT = Patience(total_s=0.3)
LONG = Patience(total_s=30)


def builder(server: WebSocketServer) -> WebSocketSinkBuilder:
    new = WebSocketSink.builder().set_url(f"{server.url}/take").set_patience(SHORT)
    return new.set_value_serialization_schema(SimpleStringSchema())


def write(sink: Sink, *values: Any) -> None:
    writer = sink.build_writer(WriterContext("job", "sink", 0, 1, 0))
    writer.open()
    try:
        writer.write(Rows(list(values)), watermark_ms=0, now_ms=0)
        writer.prepare_commit(now_ms=0, checkpoint=True, end_of_input=False)
    finally:
        writer.close()


def wait_for(server: WebSocketServer, count: int) -> list[str | bytes]:
    """Return what the program behind the server's library has, once there is enough."""
    for _ in range(400):
        if len(server.taken) >= count:
            break
        threading.Event().wait(0.05)
    return server.taken


@pytest.mark.long
def test_sink_keeps_the_contract():
    servers = []

    def new_target() -> SinkTarget:
        server = WebSocketServer()
        server.start()
        servers.append(server)

        def read() -> list[str | bytes]:
            threading.Event().wait(0.05)  # what the library has received goes on to the program
            return list(server.taken)

        return SinkTarget(builder(server).build(), read)

    check_sink(new_target, parallelisms=((2, 1),))
    for server in servers:
        server.stop()


def test_text_messages_behind_a_first_one(socket_server):
    socket_server.wants_first_message = True
    write(builder(socket_server).set_first_messages("hello").build(), *range(2_500))

    assert wait_for(socket_server, 2_500) == list(map(str, range(2_500)))
    assert socket_server.first_messages == ["hello"]


def test_binary_messages(socket_server):
    write(builder(socket_server).set_binary().build(), "a", "b")

    assert wait_for(socket_server, 2) == [b"a", b"b"]


def test_exactly_once_is_refused(socket_server):
    with pytest.raises(NotSupportedError, match="not exactly once"):
        builder(socket_server).set_delivery_guarantee(DeliveryGuarantee.EXACTLY_ONCE)


class TestTrouble:
    def test_server_that_is_restarted_in_the_middle(self, socket_server):
        sink = builder(socket_server).set_patience(LONG).build()
        writer = sink.build_writer(WriterContext("job", "sink", 0, 1, 0))
        for value in ("a", "b"):
            writer.write(Rows([value]), watermark_ms=0, now_ms=0)
            if value == "b":
                socket_server.stop()
                threading.Timer(0.3, socket_server.start).start()
            writer.prepare_commit(now_ms=0, checkpoint=True, end_of_input=False)
        writer.close()

        assert wait_for(socket_server, 2) == ["a", "b"]

    def test_server_that_is_down_is_named_without_secrets(self, socket_server, caplog):
        socket_server.stop()
        url = f"ws://me:secret-word@127.0.0.1:{socket_server.port}/take?key=secret-key"
        sink = builder(socket_server).set_url(url).set_headers({"X-Key": "secret-header"}).build()
        with pytest.raises(SinkError, match="(?s)/take refused or did not answer.*server runs") as failed:
            sink.check()

        assert "secret" not in str(failed.value) + repr(sink) + caplog.text
        assert len([each for each in caplog.records if each.levelname in ("WARNING", "ERROR")]) == 1

    def test_wrong_password(self, socket_server):
        url = f"ws://me:false-word@127.0.0.1:{socket_server.port}/secret"
        with pytest.raises(SinkError, match="(?s)status 401.*user and password") as failed:
            builder(socket_server).set_url(url).build().check()
        assert "-word" not in str(failed.value)

    def test_server_that_refuses_messages(self, socket_server):
        socket_server.close_codes.append(1008)
        with pytest.raises(SinkError, match="1008"):
            write(builder(socket_server).build(), "a")
