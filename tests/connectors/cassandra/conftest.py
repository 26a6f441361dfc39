"""Tables of a Cassandra node, each with a name of its own."""

from __future__ import annotations

import itertools
from collections.abc import Callable
from typing import Any

import pytest

from servers.cassandra import CassandraServer

WORDS = "CREATE TABLE {} (id bigint PRIMARY KEY, word text)"

_numbers = itertools.count()


@pytest.fixture(scope="session")
def keyspace(cassandra_server: CassandraServer) -> str:
    cassandra_server.execute(
        "CREATE KEYSPACE tests WITH replication = {'class': 'SimpleStrategy', 'replication_factor': 1}"
    )
    return "tests"


@pytest.fixture
def new_table(cassandra: CassandraServer, keyspace: str) -> Callable[..., str]:
    """Make a table: `new_table("CREATE TABLE {} (id int PRIMARY KEY)")`; return its name with its keyspace."""

    def make(definition: str = WORDS) -> str:
        name = f"{keyspace}.t{next(_numbers)}"
        cassandra.execute(definition.format(name))
        return name

    return make


@pytest.fixture
def fill(cassandra: CassandraServer) -> Callable[..., None]:
    """Write rows: `fill(table, "id, word", (1, "a"), (2, "b"))`."""

    def write(table: str, columns: str, *rows: tuple[Any, ...]) -> None:
        marks = ", ".join(["%s"] * len(columns.split(",")))
        for row in rows:
            cassandra.execute(f"INSERT INTO {table} ({columns}) VALUES ({marks})", *row)

    return write
