"""A server for each test: it takes no time to start."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from servers.websocket import WebSocketServer


@pytest.fixture
def socket_server() -> Iterator[WebSocketServer]:
    server = WebSocketServer()
    server.start()
    try:
        yield server
    finally:
        server.stop()
