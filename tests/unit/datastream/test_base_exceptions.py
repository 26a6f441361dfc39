"""Whatever a function raises is its own error: `sys.exit()`, KeyboardInterrupt and the like too."""

import asyncio
import subprocess
import sys

import pytest

from millstream.base.errors import JobExecutionError, UserFunctionError
from millstream.common import Duration, Time, WatermarkStrategy
from millstream.common.watermark_strategy import TimestampAssigner
from millstream.datastream import AsyncDataStream
from millstream.datastream.functions import (
    AggregateFunction,
    AsyncFunction,
    CoMapFunction,
    KeyedProcessFunction,
    MapFunction,
    ProcessFunction,
    ProcessWindowFunction,
    SinkFunction,
    SourceFunction,
)
from millstream.datastream.window import TumblingEventTimeWindows

KINDS = [SystemExit, KeyboardInterrupt, GeneratorExit, asyncio.CancelledError]


def fail(kind, value=3):
    if value == 3:
        raise kind("of the user")
    return value


class OpenMap(MapFunction):
    def __init__(self, kind):
        self.kind = kind

    def open(self, runtime_context):
        fail(self.kind)

    def map(self, value):
        return value


class CloseMap(MapFunction):
    def __init__(self, kind):
        self.kind = kind

    def map(self, value):
        return value

    def close(self):
        fail(self.kind)


class Process(ProcessFunction):
    def __init__(self, kind):
        self.kind = kind

    def process_element(self, value, ctx):
        yield fail(self.kind, value)


class OnTimer(KeyedProcessFunction):
    def __init__(self, kind):
        self.kind = kind

    def process_element(self, value, ctx):
        ctx.timer_service().register_event_time_timer(value)

    def on_timer(self, timestamp, ctx):
        yield fail(self.kind, timestamp)


class Invoke(AsyncFunction):
    def __init__(self, kind):
        self.kind = kind

    async def async_invoke(self, value):
        return [fail(self.kind, value)]

    def timeout(self, value):
        return []


class InvokeTimeout(AsyncFunction):
    def __init__(self, kind):
        self.kind = kind

    async def async_invoke(self, value):
        await asyncio.sleep(60)

    def timeout(self, value):
        fail(self.kind)


class InWindow(ProcessWindowFunction):
    def __init__(self, kind):
        self.kind = kind

    def process(self, key, context, elements):
        yield fail(self.kind)


class Aggregate(AggregateFunction):
    def __init__(self, kind):
        self.kind = kind

    def create_accumulator(self):
        return 0

    def add(self, value, accumulator):
        return fail(self.kind, value)

    def get_result(self, accumulator):
        return accumulator

    def merge(self, a, b):
        return a


class Sink(SinkFunction):
    def __init__(self, kind):
        self.kind = kind

    def invoke(self, value):
        fail(self.kind, value)


class Both(CoMapFunction):
    def __init__(self, kind):
        self.kind = kind

    def map1(self, value):
        return fail(self.kind, value)

    def map2(self, value):
        return value


class Runs(SourceFunction):
    def __init__(self, kind):
        self.kind = kind

    def run(self, ctx):
        ctx.collect(1)
        fail(self.kind)

    def cancel(self):
        pass


class Stamps(TimestampAssigner):
    def __init__(self, kind):
        self.kind = kind

    def extract_timestamp(self, value, record_timestamp):
        return fail(self.kind, value)


def stamped(stream):
    strategy = WatermarkStrategy.for_monotonous_timestamps().with_timestamp_assigner(Stamps(None))
    return stream.filter(lambda x: x != 3).assign_timestamps_and_watermarks(strategy)


def windowed(stream):
    return stamped(stream).key_by(lambda x: 0).window(TumblingEventTimeWindows.of(Time.milliseconds(10)))


def aggregated(stream, kind):
    # Stamped by another field, so that the value 3 gets as far as the aggregate.
    strategy = WatermarkStrategy.for_bounded_out_of_orderness(Duration.of_millis(1))
    moved = stream.map(lambda x: x + 10).assign_timestamps_and_watermarks(
        strategy.with_timestamp_assigner(Stamps(None))
    )
    window = (
        moved.map(lambda x: x - 10).key_by(lambda x: 0).window(TumblingEventTimeWindows.of(Time.seconds(1)))
    )
    return window.aggregate(Aggregate(kind))


PROGRAMS = {
    "open": lambda stream, kind: stream.map(OpenMap(kind)),
    "close": lambda stream, kind: stream.map(CloseMap(kind)),
    "map": lambda stream, kind: stream.map(lambda x: fail(kind, x)),
    "filter": lambda stream, kind: stream.filter(lambda x: fail(kind, x)),
    "flat_map": lambda stream, kind: stream.flat_map(lambda x: (fail(kind, each) for each in [x])),
    "process": lambda stream, kind: stream.process(Process(kind)),
    "timer": lambda stream, kind: stamped(stream).map(lambda x: 3).key_by(lambda x: x).process(OnTimer(kind)),
    "key selector": lambda stream, kind: stream.key_by(lambda x: fail(kind, x)).reduce(lambda a, b: b),
    "reduce": lambda stream, kind: stream.key_by(lambda x: 0).reduce(lambda a, b: fail(kind, b)),
    "window": lambda stream, kind: windowed(stream).process(InWindow(kind)),
    "aggregate": aggregated,
    "async": lambda stream, kind: AsyncDataStream.unordered_wait(stream, Invoke(kind), Time.seconds(5)),
    "async timeout": lambda stream, kind: AsyncDataStream.unordered_wait(
        stream, InvokeTimeout(kind), Time.milliseconds(5)
    ),
    "co_map": lambda stream, kind: stream.connect(stream.map(lambda x: x)).map(Both(kind)),
    "timestamps": lambda stream, kind: stream.assign_timestamps_and_watermarks(
        WatermarkStrategy.for_monotonous_timestamps().with_timestamp_assigner(Stamps(kind))
    ),
    "partitioner": lambda stream, kind: stream.partition_custom(
        lambda key, count: 0, lambda x: fail(kind, x)
    ).map(lambda x: x),
    "source function": lambda stream, kind: stream.get_execution_environment().add_source(Runs(kind)),
    "sink": lambda stream, kind: stream.add_sink(Sink(kind)),
}
SHOWN = {"map", "filter", "flat_map", "process", "reduce", "aggregate", "async", "co_map", "sink"}


def run(environment, program, kind):
    stream = PROGRAMS[program](environment.from_collection([1, 2, 3, 4]), kind)
    if program != "sink":
        stream.print()
    with pytest.raises(JobExecutionError) as raised:
        environment.execute()
    return raised.value.__cause__


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("program", PROGRAMS)
def test_what_a_function_raises_is_told_with_traceback_operator_and_subtask(new_environment, program, kind):
    error = run(new_environment(), program, kind)
    assert isinstance(error, UserFunctionError), error
    assert f"{kind.__name__}: of the user" in error.user_traceback
    assert "in fail" in error.user_traceback
    assert error.operator not in (None, "?")
    assert error.subtask == 0
    if program in SHOWN:
        assert error.element == "3"


def test_a_restart_strategy_decides_about_sys_exit_too(new_environment):
    options = {"restart-strategy.type": "fixed-delay", "restart-strategy.fixed-delay.attempts": 2}
    environment = new_environment(options={**options, "restart-strategy.fixed-delay.delay": "1 ms"})
    environment.from_collection([3]).map(lambda x: fail(SystemExit, x)).print()
    job = environment.execute_async()
    with pytest.raises(JobExecutionError):
        job.get_job_execution_result().result()
    assert [each.restart_delay_ms for each in job.get_failures().result()] == [1, 1, None]


def test_a_task_of_the_users_own_that_exits_fails_the_job(new_environment):
    class Spawns(AsyncFunction):
        async def async_invoke(self, value):
            async def helper():
                fail(SystemExit)

            await asyncio.create_task(helper())

        def timeout(self, value):
            return []

    environment = new_environment()
    stream = environment.from_collection([1])
    AsyncDataStream.unordered_wait(stream, Spawns(), Time.seconds(5)).name("spawns").print()
    with pytest.raises(JobExecutionError) as raised:
        environment.execute()
    assert "SystemExit" in str(raised.value.__cause__)
    assert raised.value.__cause__.operator == "spawns"


CTRL_C_IN_DEBUG = """
import os, signal, sys
from millstream.config.configuration import Configuration
from millstream.datastream import StreamExecutionEnvironment

signal.signal(signal.SIGINT, signal.default_int_handler)
env = StreamExecutionEnvironment.get_execution_environment(Configuration.from_dict({"millstream.debug": True}))

def interrupt(x):
    os.kill(os.getpid(), signal.SIGINT)
    while True:
        pass

env.from_collection([1]).map(interrupt).print()
try:
    env.execute()
except KeyboardInterrupt:
    print("interrupted")
"""


def test_ctrl_c_still_interrupts_a_job_that_runs_on_the_main_thread():
    done = subprocess.run(
        [sys.executable, "-c", CTRL_C_IN_DEBUG], capture_output=True, text=True, timeout=60, check=False
    )
    assert done.stdout == "interrupted\n", done.stderr
