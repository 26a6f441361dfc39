"""Asynchronous calls: 200 at a time, of 50 ms each, in one subtask or in two."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable
from typing import Any

from programs.api import PARALLELISM, Api, Workload

CONCURRENT = 200
CALL_S = 0.05
CALL_SAMPLE = 7
STEP = 200


def calls(api: Api, env: Any, size: int, subtasks: int) -> Any:
    """Every call waits and returns; a last filter keeps one result in seven for the check."""
    types = api.common.Types
    env.set_parallelism(subtasks)

    class Call(api.datastream.AsyncFunction):
        async def async_invoke(self, value):
            await asyncio.sleep(CALL_S)
            return [value * 3]

    return api.datastream.AsyncDataStream.unordered_wait(
        api.numbers(env, size),
        Call(),
        api.common.Time.seconds(10),
        CONCURRENT // subtasks,
        types.LONG(),
    ).filter(lambda number: number % CALL_SAMPLE == 0)


def one_subtask(api: Api, env: Any, size: int) -> Any:
    return calls(api, env, size, 1)


def two_subtasks(api: Api, env: Any, size: int) -> Any:
    return calls(api, env, size, PARALLELISM)


def calls_oracle(size: int) -> Iterable[int]:
    return (number * 3 for number in range(0, size, CALL_SAMPLE))


WORKLOADS = {
    "async": Workload(one_subtask, calls_oracle, step=STEP),
    "async_two": Workload(two_subtasks, calls_oracle, step=STEP),
}
