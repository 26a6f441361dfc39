"""How an attempt ends that does not end well: cancelled within an epoch, or failing again while it is ended."""

from __future__ import annotations

import asyncio
import threading

import pytest

from millstream.base.errors import JobExecutionError, UserFunctionError
from millstream.base.time import Time
from millstream.common.async_functions import AsyncFunction
from millstream.common.job_status import JobStatus
from millstream.config.configuration import Configuration
from millstream.datastream import MapFunction, StreamExecutionEnvironment
from millstream.datastream.async_data_stream import AsyncDataStream
from millstream.operators import async_io

EVENTS = {}
"""What functions, which are pickled, share with the test, which is in the same process."""


class NeverEnds(AsyncFunction):
    async def async_invoke(self, value):
        EVENTS["began"].set()
        await asyncio.Event().wait()

    def close(self):
        EVENTS["closed"].set()


class FailsTwice(MapFunction):
    """Fails for a record, and again when it is closed."""

    def __init__(self, name):
        self.name = name

    def map(self, value):
        if value == 3:
            raise ValueError("the first failure")
        return value

    def close(self):
        EVENTS["closed"].append(self.name)
        raise KeyError(f"close of {self.name}")


def environment(parallelism=1):
    options = {"execution.target": "local", "millstream.epoch.fixed-records": "2"}
    env = StreamExecutionEnvironment.get_execution_environment(Configuration.from_dict(options))
    env.set_parallelism(parallelism)
    return env


def test_a_job_is_cancelled_although_an_asynchronous_call_never_ends(monkeypatch):
    monkeypatch.setattr(async_io, "_CHECK_S", 0.01)
    EVENTS.update(began=threading.Event(), closed=threading.Event())
    env = environment()
    numbers = env.from_collection([1, 2, 3])
    AsyncDataStream.unordered_wait(numbers, NeverEnds(), Time.milliseconds(0), 10).print()
    client = env.execute_async()
    assert EVENTS["began"].wait(30)
    client.cancel().result()
    assert client.get_job_status().result() is JobStatus.CANCELED
    with pytest.raises(JobExecutionError, match="the job was cancelled"):
        client.get_job_execution_result().result()
    assert EVENTS["closed"].is_set()


@pytest.mark.parametrize("parallelism", [1, 2])
def test_an_error_of_close_does_not_hide_why_the_job_failed(parallelism, caplog):
    EVENTS.update(closed=[])
    env = environment(parallelism)
    stream = env.from_collection([1, 2, 3, 4]).map(FailsTwice("first")).disable_chaining()
    stream.map(FailsTwice("second")).disable_chaining().print()
    with pytest.raises(JobExecutionError) as failure:
        env.execute()
    cause = failure.value.__cause__
    assert isinstance(cause, UserFunctionError)
    assert "the first failure" in cause.user_traceback
    assert "close of" not in str(failure.value)
    assert sorted(EVENTS["closed"]) == ["first"] * parallelism + ["second"] * parallelism
    (warning,) = [
        record for record in caplog.records if "while the failed attempt was ended" in record.message
    ]
    assert warning.levelname == "WARNING"
    assert "close of first" in warning.getMessage()


def test_an_error_of_close_fails_a_job_that_ran_well():
    EVENTS.update(closed=[])
    env = environment()
    env.from_collection([1, 2]).map(FailsTwice("only")).print()
    with pytest.raises(JobExecutionError) as failure:
        env.execute()
    assert "close of only" in failure.value.__cause__.user_traceback
