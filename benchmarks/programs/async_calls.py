"""Asynchronous calls: 200 at a time, of 50 ms each, in one subtask or in two."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Iterable
from typing import Any

from programs.api import PARALLELISM, Api, Workload

CONCURRENT = 200
CALL_S = 0.05
CALL_SAMPLE = 7
STEP = 200


def calls(api: Api, env: Any, size: int, subtasks: int) -> Any:
    """Every call waits, and returns when it began and ended; a last filter keeps one result in seven."""
    types = api.common.Types
    env.set_parallelism(subtasks)

    class Call(api.datastream.AsyncFunction):
        async def async_invoke(self, value):
            began = time.time()
            await asyncio.sleep(CALL_S)
            return [(value * 3, began, time.time())]

    return api.datastream.AsyncDataStream.unordered_wait(
        api.numbers(env, size),
        Call(),
        api.common.Time.seconds(10),
        CONCURRENT // subtasks,
        types.TUPLE([types.LONG(), types.DOUBLE(), types.DOUBLE()]),
    ).filter(lambda call: call[0] % CALL_SAMPLE == 0)


def one_subtask(api: Api, env: Any, size: int) -> Any:
    return calls(api, env, size, 1)


def two_subtasks(api: Api, env: Any, size: int) -> Any:
    return calls(api, env, size, PARALLELISM)


def calls_oracle(size: int) -> Iterable[int]:
    return (number * 3 for number in range(0, size, CALL_SAMPLE))


def numbers_called(records: list[tuple[int, float, float]], size: int) -> Iterable[int]:
    return (record[0] for record in records)


def calling_s(records: list[tuple[int, float, float]]) -> float:
    """Return the time from the first call's beginning to the last one's end."""
    return max(ended for _, _, ended in records) - min(began for _, began, _ in records)


WORKLOADS = {
    name: Workload(build, calls_oracle, step=STEP, judge=numbers_called, worked_s=calling_s)
    for name, build in {"async": one_subtask, "async_two": two_subtasks}.items()
}
