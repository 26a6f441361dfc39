"""A server for each test: it takes no time to start."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from servers.web import WebServer


@pytest.fixture
def web() -> Iterator[WebServer]:
    server = WebServer()
    server.start()
    try:
        yield server
    finally:
        server.stop()
