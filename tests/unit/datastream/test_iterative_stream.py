"""Loops: every record goes round as often as it has to, on any parallelism and with any epochs."""

from __future__ import annotations

import pytest

from millstream.base.errors import JobDefinitionError, TypeMismatchError
from millstream.base.time import Duration
from millstream.common.watermark_strategy import TimestampAssigner, WatermarkStrategy
from millstream.config.configuration import Configuration
from millstream.datastream import KeyedProcessFunction, StreamExecutionEnvironment


def environment(parallelism: int = 1, records: int = 7) -> StreamExecutionEnvironment:
    options = {"execution.target": "local", "millstream.epoch.fixed-records": records}
    made = StreamExecutionEnvironment.get_execution_environment(Configuration.from_dict(options))
    return made.set_parallelism(parallelism)


def collatz_steps(number: int) -> int:
    steps = 0
    while number != 1:
        number = number // 2 if number % 2 == 0 else 3 * number + 1
        steps += 1
    return steps


def step(record):
    start, number, steps = record
    return (start, number // 2 if number % 2 == 0 else 3 * number + 1, steps + 1)


@pytest.mark.parametrize("parallelism", [1, 3])
@pytest.mark.parametrize("records", [1, 1000])
def test_each_record_goes_round_until_it_is_done(parallelism, records):
    starts = range(2, 40)
    env = environment(parallelism, records)
    loop = env.from_collection([(n, n, 0) for n in starts]).rebalance().map(lambda r: r).iterate()
    stepped = loop.key_by(lambda r: r[1] % 5).map(step)
    loop.close_with(stepped.filter(lambda r: r[1] != 1))
    done = stepped.filter(lambda r: r[1] == 1).map(lambda r: (r[0], r[2]))
    assert sorted(done.execute_and_collect()) == [(n, collatz_steps(n)) for n in starts]


def test_two_feedbacks_go_to_the_same_head():
    env = environment()
    loop = env.from_collection([24, 7]).iterate()
    big = loop.filter(lambda n: n >= 10).map(lambda n: n - 10)
    small = loop.filter(lambda n: 2 <= n < 10).map(lambda n: n - 2)
    loop.close_with(big)
    loop.close_with(small)
    assert sorted(loop.execute_and_collect()) == [0, 1, 2, 3, 4, 5, 7, 14, 24]


def test_the_final_watermark_comes_behind_what_goes_round():
    class Last(KeyedProcessFunction):
        def process_element(self, value, ctx):
            ctx.timer_service().register_event_time_timer(10**12)
            yield value

        def on_timer(self, timestamp, ctx):
            yield "end"

    class Assigner(TimestampAssigner):
        def extract_timestamp(self, value, record_timestamp):
            return value

    strategy = WatermarkStrategy.for_bounded_out_of_orderness(Duration.of_millis(0))
    env = environment()
    stamped = env.from_collection([3]).assign_timestamps_and_watermarks(
        strategy.with_timestamp_assigner(Assigner())
    )
    loop = stamped.iterate()
    loop.close_with(loop.filter(lambda n: n > 0).map(lambda n: n - 1))
    assert list(loop.key_by(lambda n: 0).process(Last()).execute_and_collect()) == [3, 2, 1, 0, "end"]


def test_a_loop_without_feedback_is_refused():
    env = environment()
    env.from_collection([1]).iterate().print()
    with pytest.raises(JobDefinitionError, match="has no feedback"):
        env.execute()


def test_a_feedback_from_elsewhere_is_refused():
    env = environment()
    loop = env.from_collection([1]).iterate()
    with pytest.raises(JobDefinitionError, match="not made of the iteration"):
        loop.close_with(env.from_collection([2]))
    with pytest.raises(TypeMismatchError, match="close_with was given a int"):
        loop.close_with(1)
