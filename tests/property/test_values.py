"""Functions that change everything they can lay hands on give what they would give if each emission were a deep copy.

Each function changes its input before it emits it, and afterwards; keeps what it was given and what it has emitted, and
changes all of that with each call; emits members, what is in its state, and the same object more than once. The oracle
is a plain list of records for each step: what a step adds to a record's log while it may, and nothing else.
"""

from __future__ import annotations

import os
from collections import Counter
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from batch_forms import in_each_form
from millstream.base.time import Time
from millstream.common import Row, Types
from millstream.common.watermark_strategy import Duration, TimestampAssigner, WatermarkStrategy
from millstream.datastream import OutputTag
from millstream.datastream.functions import (
    CoMapFunction,
    FilterFunction,
    FlatMapFunction,
    KeyedProcessFunction,
    MapFunction,
    ProcessFunction,
    ProcessWindowFunction,
    ReduceFunction,
)
from millstream.datastream.state import ListStateDescriptor, MapStateDescriptor, ValueStateDescriptor
from millstream.datastream.window import SlidingEventTimeWindows, TumblingEventTimeWindows

common = settings(
    deadline=None,
    derandomize="CI" in os.environ,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.function_scoped_fixture],
)
SIDE = OutputTag("side")
PICKLED = Types.PICKLED_BYTE_ARRAY()


# Records: an id and a log, in any kind of thing that can be changed.


@dataclass
class Thing:
    id: int
    log: list


SHAPES = {
    "dict": lambda id, log: {"id": id, "log": log},
    "list": lambda id, log: [id, log],
    "pair": lambda id, log: (id, log),
    "row": lambda id, log: Row(id=id, log=log),
    "thing": Thing,
    "nested": lambda id, log: {"in": [{"id": id}, ({"log": log},)]},
}


def parts(record: Any) -> tuple[int, list]:
    if isinstance(record, Thing):
        return record.id, record.log
    if isinstance(record, dict):
        if "in" in record:
            return record["in"][0]["id"], record["in"][1][0]["log"]
        return record["id"], record["log"]
    return record[0], record[1]


def id_of(record: Any) -> int:
    return parts(record)[0]


def note(record: Any, tag: str) -> Any:
    parts(record)[1].append(tag)
    return record


def spoil(record: Any) -> None:
    """Change all that can be changed."""
    parts(record)[1].append("TOO LATE")
    if isinstance(record, Thing):
        record.id = -1
    elif isinstance(record, Row):
        record["id"] = -1
    elif isinstance(record, list):
        record[0] = -1
    elif isinstance(record, dict):
        if "in" in record:
            record["in"][0]["id"] = -1
        else:
            record["id"] = -1


def again(record: Any) -> Any:
    """Return a new record that has the log of another."""
    id, log = parts(record)
    for name, make in SHAPES.items():
        made = make(id, log)
        if type(made) is type(record) and (
            not isinstance(record, dict) or ("in" in record) == (name == "nested")
        ):
            return made
    raise AssertionError(record)


class Spoiler:
    """What all functions have: they keep what they can, and spoil it with the next call."""

    def __init__(self, tag: str) -> None:
        self.tag = tag
        self.kept: list[Any] = []

    def keep(self, record: Any) -> Any:
        self.kept = self.kept[-3:]
        self.kept.append(record)
        return record

    def spoil_kept(self) -> None:
        for record in self.kept:
            spoil(record)


class ChangeInput(Spoiler, MapFunction):
    def map(self, value):
        self.spoil_kept()
        return self.keep(note(value, self.tag))


class ShareParts(Spoiler, MapFunction):
    def map(self, value):
        self.spoil_kept()
        self.keep(value)
        return again(note(value, self.tag))


class EmitMember(Spoiler, MapFunction):
    def map(self, value):
        self.member = again(value)
        return note(self.member, self.tag)


class YieldAndChange(Spoiler, FlatMapFunction):
    def flat_map(self, value):
        self.spoil_kept()
        for _ in range(2):
            yield note(value, self.tag)
        self.keep(value)
        spoil(value)


class SameTwice(Spoiler, FlatMapFunction):
    def flat_map(self, value):
        self.spoil_kept()
        self.keep(note(value, self.tag))
        self.listed = [value, value, again(value)]
        return self.listed


class ChangeAndKeep(Spoiler, FilterFunction):
    def filter(self, value):
        self.spoil_kept()
        self.keep(note(value, self.tag))
        return id_of(value) % 5 != 0


class MainAndSide(Spoiler, ProcessFunction):
    def process_element(self, value, ctx):
        self.spoil_kept()
        self.keep(value)
        yield note(value, self.tag)
        yield SIDE, note(value, "side")
        spoil(value)


class InValueState(Spoiler, KeyedProcessFunction):
    def open(self, runtime_context):
        self.state = runtime_context.get_state(ValueStateDescriptor("value", PICKLED))

    def process_element(self, value, ctx):
        self.state.update(value)
        found = self.state.value()
        yield note(found, self.tag)
        spoil(found)


class InListState(Spoiler, KeyedProcessFunction):
    def open(self, runtime_context):
        self.state = runtime_context.get_list_state(ListStateDescriptor("list", PICKLED))

    def process_element(self, value, ctx):
        self.state.update([note(value, self.tag)])
        yield from self.state.get()
        spoil(value)


class InMapState(Spoiler, KeyedProcessFunction):
    def open(self, runtime_context):
        self.state = runtime_context.get_map_state(MapStateDescriptor("map", Types.STRING(), PICKLED))

    def process_element(self, value, ctx):
        self.spoil_kept()
        self.keep(value)
        self.state.put("one", note(value, self.tag))
        for _, found in self.state.items():
            yield found
            spoil(found)


class AtTimer(Spoiler, KeyedProcessFunction):
    def open(self, runtime_context):
        self.state = runtime_context.get_list_state(ListStateDescriptor("waiting", PICKLED))

    def process_element(self, value, ctx):
        self.state.add(note(value, self.tag))
        ctx.timer_service().register_event_time_timer(1_000_000)

    def on_timer(self, timestamp, ctx):
        for waiting in self.state.get():
            yield waiting
            spoil(waiting)


class InBoth(Spoiler, CoMapFunction):
    def map1(self, value):
        self.spoil_kept()
        return self.keep(note(value, self.tag + "1"))

    def map2(self, value):
        self.spoil_kept()
        return self.keep(note(value, self.tag + "2"))


class EachOfWindow(Spoiler, ProcessWindowFunction):
    def process(self, key, context, elements):
        self.spoil_kept()
        for element in elements:
            self.keep(element)
            yield note(element, f"{self.tag}@{context.window().start}")
            spoil(element)


class LogsTogether(Spoiler, ReduceFunction):
    def reduce(self, value1, value2):
        parts(value1)[1].extend(parts(value2)[1])
        spoil(value2)
        return value1


class Stamp(TimestampAssigner):
    def extract_timestamp(self, value, record_timestamp):
        return id_of(value) * 10


def group(record: Any) -> int:
    return id_of(record) % 3


# Steps: what is added to the program, and what becomes of (id, log, timestamp).

Records = list[tuple[int, tuple[str, ...], int]]

FUNCTIONS = {
    "change input": lambda stream, tag: stream.map(ChangeInput(tag)),
    "share parts": lambda stream, tag: stream.map(ShareParts(tag)),
    "emit member": lambda stream, tag: stream.map(EmitMember(tag)),
    "value state": lambda stream, tag: stream.key_by(group).process(InValueState(tag)),
    "list state": lambda stream, tag: stream.key_by(group).process(InListState(tag)),
    "map state": lambda stream, tag: stream.key_by(group).process(InMapState(tag)),
    "timers": lambda stream, tag: stream.key_by(group).process(AtTimer(tag)),
    "yield and change": lambda stream, tag: stream.flat_map(YieldAndChange(tag)),
    "same twice": lambda stream, tag: stream.flat_map(SameTwice(tag)),
    "filter": lambda stream, tag: stream.filter(ChangeAndKeep(tag)),
    "rebalance": lambda stream, tag: stream.rebalance(),
    "shuffle": lambda stream, tag: stream.shuffle(),
    "sliding": lambda stream, tag: (
        stream.key_by(group)
        .window(SlidingEventTimeWindows.of(Time.milliseconds(20), Time.milliseconds(10)))
        .process(EachOfWindow(tag))
    ),
    "window reduce": lambda stream, tag: (
        stream.key_by(group)
        .window(TumblingEventTimeWindows.of(Time.milliseconds(40)))
        .reduce(LogsTogether(tag))
    ),
}
ENDINGS = ("timers", "window reduce")


def build(stream: Any, steps: list) -> Any:
    for number, step in enumerate(steps):
        stream = build_step(stream, step, f"{step[0]} {number}")
    return stream


def build_step(stream: Any, step: tuple, tag: str) -> Any:
    match step:
        case ("side", first, second):
            main = stream.process(MainAndSide(tag))
            return build(main, first).union(build(main.get_side_output(SIDE), second))
        case ("fork", first, second):
            return build(stream, first).union(build(stream, second))
        case ("connect", first, second):
            return build(stream, first).connect(build(stream, second)).map(InBoth(tag))
    return FUNCTIONS[step[0]](stream, tag)


_MOST_RECORDS = 3_000


class TooManyError(Exception):
    """A program makes so much of its records that it would take minutes."""


def expect(records: Records, steps: list) -> Records:
    for number, step in enumerate(steps):
        records = expect_step(records, step, f"{step[0]} {number}")
        if len(records) > _MOST_RECORDS:
            raise TooManyError
    return records


def add(records: Records, *tags: str) -> Records:
    return [(id, (*log, *tags), stamp) for id, log, stamp in records]


def expect_step(records: Records, step: tuple, tag: str) -> Records:
    match step[0]:
        case "yield and change":
            return add(records, tag) + add(records, tag, tag)
        case "same twice":
            return add(records, tag) * 3
        case "filter":
            return [record for record in add(records, tag) if record[0] % 5 != 0]
        case "timers":
            return [(id, log, 1_000_000) for id, log, _ in add(records, tag)]
        case "rebalance" | "shuffle":
            return records
        case "side":
            return expect(add(records, tag), step[1]) + expect(add(records, tag, "side"), step[2])
        case "fork":
            return expect(records, step[1]) + expect(records, step[2])
        case "connect":
            return add(expect(records, step[1]), tag + "1") + add(expect(records, step[2]), tag + "2")
        case "sliding":
            return [
                (id, (*log, f"{tag}@{start}"), start + 19)
                for id, log, stamp in records
                for start in (stamp - stamp % 10, stamp - stamp % 10 - 10)
            ]
        case "window reduce":
            return reduced(records)
    return add(records, tag)


def reduced(records: Records) -> Records:
    """Each window has the ids of its first record: only one record of a key is in a window, whatever its number."""
    windows: dict[tuple[int, int], list] = {}
    for id, log, stamp in records:
        window = windows.setdefault((id % 3, stamp - stamp % 40), [id, []])
        window[0] = min(window[0], id)
        window[1].extend(log)
    return [(id, tuple(log), start + 39) for (_, start), (id, log) in windows.items()]


def comparable(records: Any) -> Counter:
    """Which ids and logs there are; the order within a log depends on which record came first."""
    return Counter((id % 3, tuple(sorted(log))) for id, log in records)


def steps(depth: int) -> st.SearchStrategy:
    simple = st.sampled_from([(name,) for name in FUNCTIONS if name not in ENDINGS])
    if not depth:
        return st.lists(simple, max_size=3)
    deeper = steps(depth - 1)
    forks = st.tuples(st.sampled_from(["fork", "side", "connect"]), deeper, deeper)
    return st.lists(st.one_of(simple, simple, forks), min_size=1, max_size=4)


@st.composite
def programs(draw: Any) -> tuple:
    body = draw(steps(2))
    ending = draw(
        st.sampled_from([[], [("window reduce",)], [("timers",)], [("timers",), ("change input",)]])
    )
    return body + ending


def run(
    new_environment: Any, program: list, shape: str, target: str, parallelism: int, epoch: int
) -> Counter:
    environment = new_environment(target, parallelism, {"millstream.epoch.fixed-records": epoch})
    records = environment.from_collection([SHAPES[shape](id, []) for id in range(12)])
    strategy = WatermarkStrategy.for_bounded_out_of_orderness(Duration.of_days(1)).with_timestamp_assigner(
        Stamp()
    )
    stream = build(records.assign_timestamps_and_watermarks(strategy), program)
    return comparable(map(parts, stream.execute_and_collect()))


def expected(program: list) -> Counter:
    records = expect([(id, (), id * 10) for id in range(12)], program)
    return comparable((id, log) for id, log, _ in records)


def check(new_environment: Any, program: list, *arguments: Any) -> None:
    wanted = expected(program)
    assert run(new_environment, program, *arguments) == wanted


@settings(common, max_examples=25)
@given(programs(), st.sampled_from(list(SHAPES)), st.sampled_from([1, 2]), st.sampled_from([1, 3, 5, 1000]))
@in_each_form
def test_what_is_changed_later_is_not_seen(new_environment, program, shape, parallelism, epoch):
    with suppress(TooManyError):
        check(new_environment, program, shape, "local", parallelism, epoch)


@pytest.mark.long
@pytest.mark.timeout(1_800)
@settings(common, max_examples=1_000)
@given(programs(), st.sampled_from(list(SHAPES)), st.sampled_from([1, 2]), st.sampled_from([1, 3, 5, 1000]))
@in_each_form
def test_what_is_changed_later_is_not_seen_in_many_programs(
    new_environment, program, shape, parallelism, epoch
):
    with suppress(TooManyError):
        check(new_environment, program, shape, "local", parallelism, epoch)


EVERYTHING = [
    ("fork", [("change input",), ("value state",)], [("share parts",), ("sliding",)]),
    ("side", [("same twice",)], [("yield and change",), ("rebalance",)]),
    ("map state",),
    ("connect", [("filter",)], [("emit member",)]),
    ("list state",),
]


@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("parallelism", [1, 2])
def test_everything_at_once(new_environment, shape, parallelism):
    check(new_environment, EVERYTHING, shape, "local", parallelism, 1000)


@pytest.mark.spark
@pytest.mark.parametrize("shape", ["nested", "thing"])
def test_on_spark_too(new_environment, shape):
    check(new_environment, EVERYTHING, shape, "local[2]", 2, 1000)
