"""Servers that connectors are tested with: one of each kind for a session, something of its own in it for each test."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from servers.postgres import PostgresDatabase, PostgresServer


@pytest.fixture(scope="session")
def postgres_server() -> Iterator[PostgresServer]:
    server = PostgresServer()
    try:
        server.start()
        yield server
    finally:
        server.close()


@pytest.fixture
def postgres(postgres_server: PostgresServer) -> Iterator[PostgresDatabase]:
    """A new database. Tests that stop or pause its server start it again, or leave that to this fixture."""
    with postgres_server.new_database() as database:
        yield database
