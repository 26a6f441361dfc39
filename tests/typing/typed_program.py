"""A program with types, as a user writes one; comments tell what a type checker has to see."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import reveal_type

from millstream.common import Time, Types, WatermarkStrategy
from millstream.datastream import (
    AggregateFunction,
    AsyncDataStream,
    AsyncFunction,
    CoMapFunction,
    DataStream,
    FlatMapFunction,
    KeyedCoProcessFunction,
    KeyedProcessFunction,
    KeyedStream,
    MapFunction,
    ProcessFunction,
    ProcessWindowFunction,
    ReduceFunction,
    StreamExecutionEnvironment,
)
from millstream.datastream.functions import JoinFunction, ProcessAllWindowFunction, ProcessJoinFunction
from millstream.datastream.window import TimeWindow, TumblingEventTimeWindows

env = StreamExecutionEnvironment.get_execution_environment()
numbers = env.from_collection([1, 2, 3], Types.LONG())
reveal_type(numbers)  # is: DataStream[int]

# Chains

texts = numbers.map(lambda number: f"{number + 1}").name("texts").uid("texts").set_parallelism(1)
reveal_type(texts)  # is: DataStream[str]
reveal_type(numbers.map(str))  # is: DataStream[str]
reveal_type(texts.flat_map(lambda text: [len(text)]))  # is: DataStream[int]
reveal_type(texts.filter(lambda text: text.isdigit()))  # is: DataStream[str]
reveal_type(texts.rebalance().union(texts))  # is: DataStream[str]
stamped = numbers.assign_timestamps_and_watermarks(WatermarkStrategy.no_watermarks())
reveal_type(stamped)  # is: DataStream[int]


class Halve(MapFunction[int, float]):
    def map(self, value: int) -> float:
        return value / 2


class Words(FlatMapFunction[str, tuple[str, int]]):
    def flat_map(self, value: str) -> Iterator[tuple[str, int]]:
        for word in value.split():
            yield word, 1


class Plain(MapFunction):
    def map(self, value: int) -> int:
        return value


class Labels(ProcessFunction[int, str]):
    def process_element(self, value: int, ctx: ProcessFunction.Context) -> Iterable[str]:
        yield f"{value} at {ctx.timestamp()}"


reveal_type(numbers.map(Halve()))  # is: DataStream[float]
reveal_type(numbers.map(Plain()))  # is: DataStream[Any]
reveal_type(numbers.process(Labels()))  # is: DataStream[str]
words = texts.flat_map(Words())
reveal_type(words)  # is: DataStream[tuple[str, int]]

# Keys

by_word = words.key_by(lambda word: word[0], Types.STRING())
reveal_type(by_word)  # is: KeyedStream[tuple[str, int], str]
reveal_type(by_word.sum(1))  # is: DataStream[tuple[str, int]]
reveal_type(by_word.reduce(lambda a, b: (a[0], a[1] + b[1])))  # is: DataStream[tuple[str, int]]


class Count(KeyedProcessFunction[tuple[str, int], int, str]):
    def process_element(self, value: tuple[str, int], ctx: KeyedProcessFunction.Context) -> Iterable[int]:
        yield value[1]


reveal_type(by_word.process(Count()))  # is: DataStream[int]

# Windows


class Longest(ReduceFunction[tuple[str, int]]):
    def reduce(self, value1: tuple[str, int], value2: tuple[str, int]) -> tuple[str, int]:
        return max(value1, value2)


class Mean(AggregateFunction[tuple[str, int], list[int], float]):
    def create_accumulator(self) -> list[int]:
        return [0, 0]

    def add(self, value: tuple[str, int], accumulator: list[int]) -> list[int]:
        return [accumulator[0] + value[1], accumulator[1] + 1]

    def get_result(self, accumulator: list[int]) -> float:
        return accumulator[0] / accumulator[1]

    def merge(self, acc_a: list[int], acc_b: list[int]) -> list[int]:
        return [acc_a[0] + acc_b[0], acc_a[1] + acc_b[1]]


class Named(ProcessWindowFunction[float, dict[str, float], str, TimeWindow]):
    def process(
        self, key: str, context: ProcessWindowFunction.Context, elements: Iterable[float]
    ) -> Iterable[dict[str, float]]:
        yield {key: max(elements)}


class Everything(ProcessAllWindowFunction[int, list[int], TimeWindow]):
    def process(
        self, context: ProcessAllWindowFunction.Context, elements: Iterable[int]
    ) -> Iterable[list[int]]:
        yield list(elements)


windows = by_word.window(TumblingEventTimeWindows.of(Time.seconds(1))).allowed_lateness(5)
reveal_type(windows)  # is: WindowedStream[tuple[str, int], str]
reveal_type(windows.reduce(Longest()))  # is: DataStream[tuple[str, int]]
reveal_type(windows.aggregate(Mean()))  # is: DataStream[float]
reveal_type(windows.aggregate(Mean(), Named()))  # is: DataStream[dict[str, float]]
reveal_type(numbers.count_window_all(2).process(Everything()))  # is: DataStream[list[int]]

# Two streams


class Either(CoMapFunction[int, str, str]):
    def map1(self, value: int) -> str:
        return str(value)

    def map2(self, value: str) -> str | None:
        return value or None


class Both(KeyedCoProcessFunction[int, str, bool, int]):
    def process_element1(self, value: int, ctx: KeyedCoProcessFunction.Context) -> Iterable[bool]:
        yield True

    def process_element2(self, value: str, ctx: KeyedCoProcessFunction.Context) -> Iterable[bool]:
        yield False


class Pair(JoinFunction[int, str, tuple[int, str]]):
    def join(self, first: int, second: str) -> tuple[int, str]:
        return first, second


class Near(ProcessJoinFunction[int, str, bytes]):
    def process_element(self, left: int, right: str, ctx: ProcessJoinFunction.Context) -> Iterable[bytes]:
        yield f"{left}{right}".encode()


connected = numbers.connect(texts)
reveal_type(connected)  # is: ConnectedStreams[int, str]
reveal_type(connected.map(Either()))  # is: DataStream[str]
by_key = connected.key_by(lambda number: number, lambda text: len(text))
reveal_type(by_key.process(Both()))  # is: DataStream[bool]
seconds = TumblingEventTimeWindows.of(Time.seconds(1))
joined = numbers.join(texts).where(lambda number: number).equal_to(lambda text: len(text))
reveal_type(joined.window(seconds).apply(Pair()))  # is: DataStream[tuple[int, str]]
near = numbers.key_by(lambda number: number).interval_join(texts.key_by(lambda text: len(text)))
reveal_type(near.between(Time.seconds(-1), Time.seconds(1)).process(Near()))  # is: DataStream[bytes]


class Fetch(AsyncFunction[str, bytes]):
    async def async_invoke(self, value: str) -> list[bytes]:
        return [value.encode()]


reveal_type(AsyncDataStream.unordered_wait(texts, Fetch(), Time.seconds(1)))  # is: DataStream[bytes]

# Results

reveal_type(texts.execute_and_collect())  # is: CloseableIterator[str]
reveal_type(texts.execute_and_collect("job", 5))  # is: list[str]
reveal_type(texts.execute_and_collect(limit=5))  # is: list[str]
with texts.execute_and_collect() as results:
    for result in results:
        reveal_type(result)  # is: str


# Annotations


def lengths(stream: DataStream[str]) -> KeyedStream[int, bool]:
    return stream.map(len).key_by(lambda length: length > 3)


def untyped(stream: DataStream) -> DataStream:
    return stream.map(lambda record: record)


lengths(texts)
untyped(texts)
numbers.flatMap(lambda number: [number])  # error: attr-defined
numbers.sum(0)  # error: attr-defined
lengths(numbers)  # error: arg-type
texts.map(Halve())  # error: arg-type
