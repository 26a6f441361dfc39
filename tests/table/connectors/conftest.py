from __future__ import annotations

import pytest

from millstream.config.configuration import Configuration
from millstream.table.environment import TableEnvironment
from millstream.table.environment_settings import EnvironmentSettings
from servers.mariadb import MariaDbServer
from servers.postgres import PostgresServer
from servers.process import running


@pytest.fixture
def tables():
    """A table environment whose jobs run in this process, by one subtask."""
    options = {"execution.target": "local", "parallelism.default": "1", "table.local-time-zone": "UTC"}
    settings = EnvironmentSettings.new_instance().with_configuration(Configuration.from_dict(options)).build()
    return TableEnvironment.create(settings)


@pytest.fixture
def rows(tables):
    """Gives the rows of a query, as tuples."""

    def of(query):
        with tables.execute_sql(query).collect() as found:
            return [tuple(row) for row in found]

    return of


@pytest.fixture(scope="session")
def postgres_server():
    yield from running(PostgresServer())


@pytest.fixture
def postgres(postgres_server):
    """A new database of PostgreSQL."""
    with postgres_server.new_database() as database:
        yield database


@pytest.fixture(scope="session")
def mariadb_server():
    yield from running(MariaDbServer())


@pytest.fixture
def mariadb(mariadb_server):
    """A new database of MariaDB."""
    with mariadb_server.new_database() as database:
        yield database
