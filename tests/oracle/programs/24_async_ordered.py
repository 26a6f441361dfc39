"""Asynchronous calls whose results keep the order of their records, though the first take longest."""

import asyncio

from pyflink.common import Time, Types
from pyflink.datastream import AsyncDataStream, AsyncFunction, MapFunction, StreamExecutionEnvironment


class Ask(AsyncFunction):
    def open(self, runtime_context):
        self.name = "asked"

    async def async_invoke(self, value):
        await asyncio.sleep(0.05 / (value + 1))
        return [] if value == 3 else [f"{self.name} {value}"] * (2 if value == 5 else 1)


class Number(MapFunction):
    def __init__(self):
        self.count = 0

    def map(self, value):
        self.count += 1
        return f"{self.count}: {value}"


env = StreamExecutionEnvironment.get_execution_environment()
env.set_parallelism(1)
numbers = env.from_collection(list(range(8)), Types.INT())
asked = AsyncDataStream.ordered_wait(numbers, Ask(), Time.seconds(20), 4, Types.STRING())
asked.map(Number(), Types.STRING()).print()
env.execute()
