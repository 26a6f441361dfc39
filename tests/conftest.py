"""Runs programs on an executor of choice; Spark's session is shared by all tests of this process."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from typing import Any

import cloudpickle
import pytest
from hypothesis import settings

from millstream.common.configuration import Configuration
from millstream.datastream import StreamExecutionEnvironment

# Machines are slow now and then; what takes too long is caught by the limit on the test as a whole.
settings.register_profile("millstream", deadline=None)
settings.load_profile("millstream")

NewEnvironment = Callable[..., StreamExecutionEnvironment]


@pytest.fixture(scope="module")
def new_environment(request: pytest.FixtureRequest) -> Iterator[NewEnvironment]:
    """Make environments: `new_environment("local[2]", 2, {"millstream.epoch.fixed-records": 10})`.

    Functions and classes of the test's module travel by value: slots cannot import tests.
    """
    module = sys.modules[request.module.__name__]
    cloudpickle.register_pickle_by_value(module)

    def make(
        target: str = "local", parallelism: int = 1, options: dict[str, Any] | None = None
    ) -> StreamExecutionEnvironment:
        configuration = Configuration.from_dict({"execution.target": target, **(options or {})})
        environment = StreamExecutionEnvironment.get_execution_environment(configuration)
        environment.set_parallelism(parallelism)
        return environment

    yield make
    cloudpickle.unregister_pickle_by_value(module)
