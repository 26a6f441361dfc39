"""Jobs whose functions take long or make much of little, on the local executor."""

from __future__ import annotations

import itertools
import time

import pytest

from millstream.base.time import Time
from millstream.common import Types, WatermarkStrategy
from millstream.common.output_tag import OutputTag
from millstream.common.watermark_strategy import TimestampAssigner
from millstream.datastream import KeyedProcessFunction, ProcessFunction, ProcessWindowFunction
from millstream.datastream.connectors.number_seq import NumberSequenceSource
from millstream.datastream.window import SlidingEventTimeWindows, TumblingEventTimeWindows
from millstream.operators.portions import PORTION


def numbers(environment, count):
    return environment.from_source(
        NumberSequenceSource(0, count - 1), WatermarkStrategy.no_watermarks(), "numbers"
    )


def endless(first):
    yield from itertools.count(first)


class Seconds(TimestampAssigner):
    def extract_timestamp(self, value, record_timestamp):
        return value * 1_000


class Endless(ProcessFunction):
    def process_element(self, value, ctx):
        yield from itertools.count(value)


class KeyedEndless(KeyedProcessFunction):
    def process_element(self, value, ctx):
        for number in itertools.count():
            yield ctx.get_current_key(), number


@pytest.mark.parametrize("parallelism", [1, 2])
@pytest.mark.parametrize("kind", ["flat_map", "process", "keyed process"])
def test_results_of_a_function_that_never_ends_flow_across_an_exchange(new_environment, kind, parallelism):
    stream = numbers(new_environment("local", parallelism), 1)
    if kind == "flat_map":
        made = stream.flat_map(endless)
    elif kind == "process":
        made = stream.process(Endless())
    else:
        made = stream.key_by(lambda value: 7).process(KeyedEndless()).map(lambda pair: pair[1])
    with made.rebalance().filter(lambda number: number % 1_000 == 0).execute_and_collect() as results:
        found = set(itertools.islice(results, 60))
    assert all(number % 1_000 == 0 for number in found)
    assert len(found) == 60


@pytest.mark.parametrize("chained", [True, False])
def test_slow_records_come_out_one_by_one_and_not_when_all_are_done(new_environment, chained):
    def slow(value):
        time.sleep(0.02)
        return value, time.monotonic()

    stream = numbers(new_environment("local", 1), 100)
    stream = stream if chained else stream.rebalance().key_by(lambda value: value % 3)
    delays = [time.monotonic() - made for _, made in stream.map(slow).execute_and_collect()]
    assert len(delays) == 100
    assert sorted(delays)[50] < 1.0, "a hundred take two seconds"


def test_portions_keep_order_timestamps_and_side_outputs(new_environment):
    late = OutputTag("odd", Types.LONG())
    count = 3 * PORTION + 7

    class Many(ProcessFunction):
        def process_element(self, value, ctx):
            for number in range(count):
                yield (late, number) if number % 2 else number

    class Stamped(ProcessFunction):
        def process_element(self, value, ctx):
            yield value, ctx.timestamp()

    stream = (
        new_environment("local", 1)
        .from_collection([5, 6])
        .assign_timestamps_and_watermarks(
            WatermarkStrategy.for_monotonous_timestamps().with_timestamp_assigner(Seconds())
        )
    )
    many = stream.process(Many())
    even = [(number, stamp) for stamp in (5_000, 6_000) for number in range(0, count, 2)]
    odd = [(number, stamp) for stamp in (5_000, 6_000) for number in range(1, count, 2)]
    both = many.process(Stamped()).union(many.get_side_output(late).process(Stamped()))
    assert sorted(both.execute_and_collect()) == sorted(even + odd)


def asks_again(first):
    for number in itertools.count(first):
        time.sleep(0.02)
        yield number


def some(first):
    return [first] * 500


def slow(value):
    time.sleep(0.02)
    return value


class SlowWindow(ProcessWindowFunction):
    def process(self, key, context, elements):
        time.sleep(0.02)
        yield key


class SlowTimer(KeyedProcessFunction):
    def process_element(self, value, ctx):
        ctx.timer_service().register_event_time_timer(10_000_000)

    def on_timer(self, timestamp, ctx):
        time.sleep(0.02)
        yield ctx.get_current_key()


def stamped(environment, count):
    strategy = WatermarkStrategy.for_monotonous_timestamps().with_timestamp_assigner(Seconds())
    return environment.from_source(NumberSequenceSource(0, count - 1), strategy, "numbers").key_by(
        lambda value: value
    )


def slow_rounds(environment):
    loop = numbers(environment, 1).iterate()
    body = loop.flat_map(lambda value: [1] * 1_000 if value == 0 else [slow(value + 1)])
    loop.close_with(body.filter(lambda value: value == 1))
    return body.filter(lambda value: value > 1)


def slow_windows(environment):
    window = TumblingEventTimeWindows.of(Time.seconds(1_000))
    return stamped(environment, 1_000).window(window).process(SlowWindow())


def slow_sliding_windows(environment):
    window = SlidingEventTimeWindows.of(Time.seconds(1_000), Time.seconds(500))
    return stamped(environment, 1_000).window(window).reduce(lambda one, other: one, SlowWindow())


def slow_counts(environment):
    return stamped(environment, 1_000).count_window(1).process(SlowWindow())


LONG_FOR_ONE = {
    "a generator that waits for each result": lambda env: numbers(env, 1).flat_map(asks_again),
    "a slow map behind a flat map": lambda env: numbers(env, 1).flat_map(some).map(slow),
    "records that went round": slow_rounds,
    "windows": slow_windows,
    "sliding windows": slow_sliding_windows,
    "count windows": slow_counts,
    "timers": lambda env: stamped(env, 1_000).process(SlowTimer()),
}


@pytest.mark.parametrize("build", LONG_FOR_ONE.values(), ids=LONG_FOR_ONE)
def test_results_flow_though_one_record_or_watermark_makes_work_for_long(new_environment, build):
    stream = build(new_environment("local", 1)).map(lambda value: time.monotonic()).rebalance()
    with stream.map(lambda made: time.monotonic() - made).execute_and_collect() as results:
        delays = list(itertools.islice(results, 60))
    assert len(delays) == 60
    assert sorted(delays)[30] < 1.0, "all of them take ten seconds"


@pytest.mark.parametrize("kind", ["event time", "processing time"])
def test_timers_that_are_slow_let_a_savepoint_be_made_in_between(new_environment, tmp_path, kind):
    class Later(SlowTimer):
        def process_element(self, value, ctx):
            service = ctx.timer_service()
            if kind == "event time":
                service.register_event_time_timer(10_000_000)
            else:
                service.register_processing_time_timer(service.current_processing_time() + 100)

    environment = new_environment("local", 1)
    stamped(environment, 1_000 if kind == "event time" else 10**9).process(Later()).print()
    job = environment.execute_async("slow timers")
    time.sleep(2.0)
    began = time.monotonic()
    job.stop_with_savepoint(False, str(tmp_path)).result()
    assert time.monotonic() - began < 10.0, "all of them take twenty seconds"


@pytest.mark.parametrize("kind", ["suspended", "held"])
def test_a_slow_pipeline_does_not_hold_back_another_one_of_the_job(new_environment, tmp_path, kind):
    # The slow one runs until the fast one has ended, or has not within twenty seconds.
    done, given_up_s, count = tmp_path / "done", time.time() + 20, 2_000_000

    def is_over():
        return done.exists() or time.time() > given_up_s

    def ask(value):
        while not is_over():
            time.sleep(0.02)
            yield value

    def take(value):
        if not is_over():
            time.sleep(0.02)
        return value

    def end(value):
        done.touch()
        return time.time() < given_up_s

    environment = new_environment("local", 1)
    slow_one = numbers(environment, 1_000)
    slow_one = slow_one.flat_map(ask) if kind == "suspended" else slow_one.rebalance().map(take)
    slow_one.filter(lambda value: False).print()
    fast = numbers(environment, count).filter(lambda value: value == count - 1).map(end)
    assert list(fast.execute_and_collect()) == [True]
