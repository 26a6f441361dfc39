from __future__ import annotations

import pytest

from millstream.config.configuration import Configuration
from millstream.table.environment import TableEnvironment
from millstream.table.environment_settings import EnvironmentSettings


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
