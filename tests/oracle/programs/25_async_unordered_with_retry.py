"""Asynchronous calls in any order: tried again on errors and on empty results; one of them takes too long."""

import asyncio

from pyflink.common import Time, Types
from pyflink.datastream import AsyncDataStream, AsyncFunction, AsyncRetryStrategy, StreamExecutionEnvironment


class Flaky(AsyncFunction):
    def open(self, runtime_context):
        self.attempts = {}

    async def async_invoke(self, value):
        attempt = self.attempts[value] = self.attempts.get(value, 0) + 1
        if value % 4 == 0 and attempt < 3:
            raise ValueError(f"{value} fails")
        if value % 4 == 1 and attempt < 2:
            return []
        return [(value, attempt)]


class Slow(AsyncFunction):
    async def async_invoke(self, value):
        await asyncio.sleep(60 if value == 2 else 0)
        return [f"{value} in time"]

    def timeout(self, value):
        return [f"{value} too late"]


env = StreamExecutionEnvironment.get_execution_environment()
env.set_parallelism(1)
numbers = env.from_collection(list(range(10)), Types.INT())
retry = AsyncRetryStrategy.fixed_delay(
    5, 10, lambda results: not results, lambda error: isinstance(error, ValueError)
)
AsyncDataStream.unordered_wait_with_retry(
    numbers, Flaky(), Time.seconds(20), retry, 100, Types.TUPLE([Types.INT(), Types.INT()])
).print("retried")
AsyncDataStream.unordered_wait(
    numbers.filter(lambda n: n < 4), Slow(), Time.milliseconds(300), 10, Types.STRING()
).print("timed")
env.execute()
