from __future__ import annotations

import pytest

from millstream.config.configuration import Configuration
from millstream.datastream import StreamExecutionEnvironment
from millstream.table import StreamTableEnvironment


@pytest.fixture
def t_env():
    """A table environment, with streams, whose jobs run in this process, by one subtask."""
    options = {"execution.target": "local", "parallelism.default": "1", "table.local-time-zone": "UTC"}
    environment = StreamExecutionEnvironment.get_execution_environment(Configuration.from_dict(options))
    return StreamTableEnvironment.create(environment)


@pytest.fixture
def rows_of(t_env):
    """Gives the rows of a statement's result, as tuples."""

    def of(statement):
        with t_env.execute_sql(statement).collect() as found:
            return [tuple(row) for row in found]

    return of
