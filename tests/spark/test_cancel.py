"""A cancelled job ends although one of its functions never does."""

from __future__ import annotations

import asyncio
import time
from pathlib import Path

import pytest

from millstream.base.errors import JobExecutionError
from millstream.base.time import Time
from millstream.common.async_functions import AsyncFunction
from millstream.common.job_status import JobStatus
from millstream.datastream import MapFunction
from millstream.datastream.async_data_stream import AsyncDataStream

pytestmark = pytest.mark.spark


class NeverEnds(AsyncFunction):
    def __init__(self, began: Path):
        self.began = began

    async def async_invoke(self, value):
        self.began.touch()
        await asyncio.Event().wait()


class Blocks(MapFunction):
    def __init__(self, began: Path):
        self.began = began

    def map(self, value):
        self.began.touch()
        time.sleep(600)
        return value


def waiting(stream, began):
    return AsyncDataStream.unordered_wait(stream, NeverEnds(began), Time.milliseconds(0), 10)


def blocking(stream, began):
    return stream.map(Blocks(began))


@pytest.mark.parametrize("build", [waiting, blocking])
def test_a_job_on_spark_is_cancelled_although_a_function_never_ends(
    build, new_environment, processes, tmp_path
):
    # A function that waits is told and gives up; one that blocks has the slot's timeout, and is killed.
    env = new_environment("local[2]", 1, {"millstream.slot.timeout": "2 s"} if build is blocking else {})
    began = tmp_path / "began"
    build(env.from_collection([1, 2, 3]), began).print()
    client = env.execute_async()
    processes.wait_until(began.exists, "the function was called", seconds=120)
    client.cancel().result()
    assert client.get_job_status().result() is JobStatus.CANCELED
    with pytest.raises(JobExecutionError, match="the job was cancelled"):
        client.get_job_execution_result().result()
    processes.wait_until_no_slot()
