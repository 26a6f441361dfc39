"""A database of each kind, with tables of a test's own."""

from __future__ import annotations

import itertools
import sqlite3
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from millstream.datastream.connectors.jdbc import JdbcConnectionOptions

TABLE = "CREATE TABLE {} (id BIGINT NOT NULL PRIMARY KEY, word VARCHAR(100))"


class Target:
    """A database that sinks write and tests look at.

    Attributes:
        kind: `postgres`, `mariadb` or `sqlite`.
        url: For sinks.
    """

    def __init__(
        self, kind: str, url: str, user: str | None, password: str | None, connect: Callable[[], Any]
    ) -> None:
        self.kind = kind
        self.url = url
        self._login = (user, password)
        self._connect = connect
        self._connection: Any = None
        self._numbers = itertools.count()

    def options(self, *, wait_s: float = 20, password: str | None = None) -> JdbcConnectionOptions:
        builder = JdbcConnectionOptions.JdbcConnectionOptionsBuilder().with_url(self.url)
        user, right = self._login
        if user is not None:
            builder.with_user_name(user).with_password(password or right)
        return builder.with_connection_check_timeout_seconds(wait_s).build()

    def execute(self, sql: str, parameters: Any = ()) -> list[Any]:
        """Run a statement in a transaction of its own; return its rows."""
        if self._connection is None:
            self._connection = self._connect()
        cursor = self._connection.cursor()
        try:
            cursor.execute(
                sql, parameters or None
            ) if parameters or self.kind != "sqlite" else cursor.execute(sql)
            return [tuple(row) for row in cursor.fetchall()] if cursor.description is not None else []
        finally:
            cursor.close()

    def disconnect(self) -> None:
        """Before the server ends."""
        if self._connection is not None:
            self._connection.close()
            self._connection = None

    def new_name(self) -> str:
        return f"t{next(self._numbers)}"

    def new_table(self, definition: str = TABLE) -> str:
        name = self.new_name()
        self.execute(definition.format(name))
        return name

    def rows(self, table: str) -> list[Any]:
        return self.execute(f"SELECT * FROM {table} ORDER BY 1")

    def stage_tables(self) -> set[str]:
        query = {
            "postgres": "SELECT tablename FROM pg_tables",
            "mariadb": "SELECT table_name FROM information_schema.tables WHERE table_schema = DATABASE()",
            "sqlite": "SELECT name FROM sqlite_master",
        }[self.kind]
        return {name for (name,) in self.execute(query) if name.startswith("millstream_stage_")}

    def stages(self, markers: str = "millstream_commits") -> list[str]:
        """Return the names of the stages that are noted."""
        return [name for (name,) in self.execute(f"SELECT name FROM {markers}") if "+" in name]


@pytest.fixture(params=["postgres", "mariadb", "sqlite"])
def target(request: pytest.FixtureRequest) -> Target:
    """A database of each kind."""
    found: Target = request.getfixturevalue(f"{request.param}_target")
    return found


@pytest.fixture
def postgres_target(postgres: Any) -> Iterator[Target]:
    url = f"jdbc:postgresql://127.0.0.1:{postgres.port}/{postgres.name}"
    target = Target("postgres", url, postgres.user, postgres.password, postgres.connect)
    yield target
    target.disconnect()


@pytest.fixture
def mariadb_target(mariadb: Any) -> Iterator[Target]:
    url = f"jdbc:mariadb://127.0.0.1:{mariadb.port}/{mariadb.name}"
    target = Target(
        "mariadb", url, mariadb.user, mariadb.password, lambda: mariadb.server.connect(mariadb.name)
    )
    yield target
    target.disconnect()


@pytest.fixture
def sqlite_target(tmp_path: Any) -> Iterator[Target]:
    file = tmp_path / "target.db"
    target = Target(
        "sqlite",
        f"jdbc:sqlite:{file}",
        None,
        None,
        lambda: sqlite3.connect(file, isolation_level=None, timeout=10),
    )
    yield target
    target.disconnect()
