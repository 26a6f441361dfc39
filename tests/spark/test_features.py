"""What needs more than one kind of operator, on Spark's slots as on the local executor: the same results."""

from __future__ import annotations

import asyncio
import os
from dataclasses import dataclass
from enum import Enum

import pytest

from millstream.base.time import Time
from millstream.common import Duration, Types, WatermarkStrategy
from millstream.common.watermark_strategy import TimestampAssigner
from millstream.datastream import (
    AsyncDataStream,
    AsyncFunction,
    KeyedBroadcastProcessFunction,
    KeyedCoProcessFunction,
    KeyedProcessFunction,
    MapFunction,
    ProcessJoinFunction,
    RuntimeExecutionMode,
)
from millstream.datastream.connectors.number_seq import NumberSequenceSource
from millstream.datastream.state import ListStateDescriptor, MapStateDescriptor, ValueStateDescriptor
from millstream.datastream.window import (
    CountTrigger,
    GlobalWindows,
    PurgingTrigger,
    SlidingEventTimeWindows,
)

pytestmark = pytest.mark.spark

SMALL_EPOCHS = {"millstream.epoch.fixed-records": 20}


class Stamp(TimestampAssigner):
    def extract_timestamp(self, value, record_timestamp):
        return value * 10


def numbers(environment, last=200):
    strategy = WatermarkStrategy.for_bounded_out_of_orderness(Duration.of_millis(5))
    source = NumberSequenceSource(1, last)
    # One subtask up to the exchange by key: what comes later depends on the order within each key.
    stamped = environment.from_source(source, strategy.with_timestamp_assigner(Stamp()), "numbers")
    return stamped.set_parallelism(1)


class Kind(Enum):
    EVEN = "even"
    ODD = "odd"


@dataclass(frozen=True)
class Reading:
    kind: Kind
    value: int


class Remember(KeyedProcessFunction):
    def open(self, runtime_context):
        self.seen = runtime_context.get_list_state(ListStateDescriptor("seen", Types.LONG()))

    def process_element(self, value, ctx):
        self.seen.add(value.value)
        ctx.timer_service().register_event_time_timer(value.value * 10 // 500 * 500 + 500)

    def on_timer(self, timestamp, ctx):
        due = [value for value in self.seen.get() if value * 10 < timestamp]
        self.seen.update([value for value in self.seen.get() if value * 10 >= timestamp])
        yield ctx.get_current_key().name, timestamp, sum(due)


def classes_lists_and_timers(environment):
    readings = numbers(environment).map(lambda n: Reading(Kind.ODD if n % 2 else Kind.EVEN, n))
    readings.set_parallelism(1)
    return readings.key_by(lambda reading: reading.kind).process(Remember())


class Named(KeyedProcessFunction):
    def open(self, runtime_context):
        self.total = runtime_context.get_state(ValueStateDescriptor("total", Types.LONG()))

    def process_element(self, value, ctx):
        self.total.update((self.total.value() or 0) + value)
        ctx.timer_service().register_event_time_timer(10**9)

    def on_timer(self, timestamp, ctx):
        yield type(ctx.get_current_key()).__name__, str(ctx.get_current_key()), self.total.value()


def keys_of_every_kind(environment):
    def key(n):
        kinds = (
            [1, 1.0, True],
            [1],
            {"a": {1, 2}},
            float("nan"),
            1,
            1.0,
            True,
            Reading(Kind.ODD, [1]),
            frozenset("a"),
        )
        return kinds[n % 9]

    return numbers(environment).key_by(key).process(Named())


def windows_with_triggers(environment):
    keyed = numbers(environment).map(lambda n: (n % 3, n)).set_parallelism(1).key_by(lambda pair: pair[0])
    counted = keyed.window(GlobalWindows.create()).trigger(PurgingTrigger.of(CountTrigger.of(10)))
    sliding = keyed.window(SlidingEventTimeWindows.of(Time.milliseconds(600), Time.milliseconds(200)))
    add = lambda a, b: (a[0], a[1] + b[1])  # noqa: E731
    return counted.reduce(add).union(sliding.reduce(add))


class Both(KeyedCoProcessFunction):
    def open(self, runtime_context):
        self.total = runtime_context.get_state(ValueStateDescriptor("total", Types.LONG()))

    def process_element1(self, value, ctx):
        self.total.update((self.total.value() or 0) + value)
        ctx.timer_service().register_event_time_timer(10**9)

    def process_element2(self, value, ctx):
        self.total.update((self.total.value() or 0) - value)

    def on_timer(self, timestamp, ctx):
        yield ctx.get_current_key(), self.total.value()


class Pair(ProcessJoinFunction):
    def process_element(self, left, right, ctx):
        yield left, right


def two_streams(environment):
    left, right = numbers(environment), numbers(environment, 100).map(lambda n: n)
    connected = left.connect(right).key_by(lambda n: n % 5, lambda n: n % 5).process(Both())
    joined = left.key_by(lambda n: n % 4).interval_join(right.key_by(lambda n: n % 4))
    bounds = joined.between(Time.milliseconds(-40), Time.milliseconds(40))
    return connected.union(bounds.process(Pair()))


RULES = MapStateDescriptor("rules", Types.STRING(), Types.LONG())


class Above(KeyedBroadcastProcessFunction):
    def process_element(self, value, ctx):
        ctx.timer_service().register_event_time_timer(10**9 + value)

    def process_broadcast_element(self, value, ctx):
        ctx.get_broadcast_state(RULES).put("limit", value)

    def on_timer(self, timestamp, ctx):
        if timestamp - 10**9 > ctx.get_broadcast_state(RULES).get("limit"):
            yield timestamp - 10**9


def broadcast_state(environment):
    rules = environment.from_collection([150], Types.LONG()).broadcast(RULES)
    return numbers(environment).key_by(lambda n: n % 3).connect(rules).process(Above())


class Wait(AsyncFunction):
    async def async_invoke(self, value):
        await asyncio.sleep(0.001)
        return [value * 2]


def async_calls_and_a_loop(environment):
    loop = numbers(environment, 60).rebalance().map(lambda n: n).iterate()
    halved = loop.map(lambda n: n // 2)
    loop.close_with(halved.filter(lambda n: n > 1))
    ends = halved.filter(lambda n: n <= 1)
    doubled = AsyncDataStream.unordered_wait(numbers(environment, 60), Wait(), Time.seconds(10), 20)
    return ends.union(doubled)


def batch_mode(environment):
    environment.set_runtime_mode(RuntimeExecutionMode.BATCH)
    pairs = numbers(environment).map(lambda n: (n % 7, n)).key_by(lambda pair: pair[0])
    return pairs.reduce(lambda a, b: (a[0], a[1] + b[1]))


@pytest.mark.parametrize(
    "program",
    [
        classes_lists_and_timers,
        keys_of_every_kind,
        windows_with_triggers,
        two_streams,
        broadcast_state,
        async_calls_and_a_loop,
        batch_mode,
    ],
)
def test_program_gives_on_spark_what_it_gives_locally(new_environment, program):
    def run(target, parallelism):
        with program(new_environment(target, parallelism, SMALL_EPOCHS)).execute_and_collect() as records:
            return sorted(records, key=repr)

    expected = run("local", 1)
    assert expected
    assert run("local[2]", 2) == expected


class FailOnce(MapFunction):
    def __init__(self, marker):
        self.marker = str(marker)

    def map(self, value):
        if value == 150 and not os.path.exists(self.marker):
            with open(self.marker, "w"):
                raise ValueError("once")
        return value


@pytest.mark.parametrize(
    "program", [classes_lists_and_timers, keys_of_every_kind, windows_with_triggers, two_streams]
)
def test_a_job_that_fails_on_spark_goes_on_from_its_checkpoint(
    new_environment, program, tmp_path, monkeypatch
):
    def failing_numbers(environment, last=200):
        return unfailing(environment, last).map(FailOnce(tmp_path / "failed")).set_parallelism(1)

    unfailing = numbers
    with program(new_environment("local", 1)).execute_and_collect() as records:
        expected = sorted(records, key=repr)
    monkeypatch.setitem(program.__globals__, "numbers", failing_numbers)
    options = {
        **SMALL_EPOCHS,
        "execution.checkpointing.interval": 1,
        "restart-strategy.type": "fixed-delay",
        "restart-strategy.fixed-delay.delay": "10 ms",
    }
    with program(new_environment("local[2]", 2, options)).execute_and_collect() as records:
        assert sorted(records, key=repr) == expected
    assert (tmp_path / "failed").exists()
