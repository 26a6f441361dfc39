from __future__ import annotations

import pytest

from millstream.base.errors import StateAccessError
from millstream.common.co_functions import (
    CoFlatMapFunction,
    CoMapFunction,
    CoProcessFunction,
    KeyedCoProcessFunction,
)
from millstream.common.functions import TimeDomain
from millstream.common.output_tag import OutputTag
from millstream.common.state import ValueStateDescriptor
from millstream.operators.co_process import CoProcessSpec, KeyedCoProcessSpec, as_co_process
from millstream.operators.user_code import attached_element
from millstream.testing import OperatorHarness, Watermark


def start(spec):
    return OperatorHarness(spec, inputs=2, processing_time=1_000)


def keyed(function):
    return KeyedCoProcessSpec(function, lambda value: value[0], lambda value: value[1])


class Remember(KeyedCoProcessFunction):
    """Adds up the first stream's numbers, and tells the sum for each record of the second."""

    def open(self, runtime_context):
        self.total = runtime_context.get_state(ValueStateDescriptor("total"))

    def process_element1(self, value, ctx):
        self.total.update((self.total.value() or 0) + value[1])

    def process_element2(self, value, ctx):
        yield ctx.get_current_key(), self.total.value(), ctx.timestamp()


def test_both_inputs_share_the_state_of_a_key():
    harness = start(keyed(Remember()))
    harness.push_batch([("a", 1), ("b", 10), ("a", 2)])
    harness.push_batch([("x", "a"), ("x", "b"), ("x", "c")], [7, 8, 9], input=1)
    assert harness.take_records() == [(("a", 3, 7), 7), (("b", 10, 8), 8), (("c", None, 9), 9)]


class Timers(KeyedCoProcessFunction):
    def process_element1(self, value, ctx):
        ctx.timer_service().register_event_time_timer(value[1])

    def process_element2(self, value, ctx):
        ctx.timer_service().register_processing_time_timer(value[0])
        yield "at", ctx.timer_service().current_processing_time(), ctx.timer_service().current_watermark()

    def on_timer(self, timestamp, ctx):
        yield ctx.time_domain(), ctx.get_current_key(), timestamp


def test_timers_of_both_domains_fire_under_their_key_from_either_input():
    harness = start(keyed(Timers()))
    harness.push_watermark(3)
    harness.push_batch([(1_500, "k")], input=1)
    harness.push_batch([("b", 20), ("a", 10), ("c", 30)], [0, 0, 0])
    assert harness.take_records() == [(("at", 1_000, 3), None)]
    assert harness.next_processing_time == 1_500
    harness.push_watermark(20)
    harness.set_processing_time(1_600)
    assert harness.take_records() == [
        ((TimeDomain.EVENT_TIME, "a", 10), 10),
        ((TimeDomain.EVENT_TIME, "b", 20), 20),
        ((TimeDomain.PROCESSING_TIME, "k", 1_500), None),
    ]
    assert harness.take_elements() == [Watermark(3), Watermark(20)]


LATE = OutputTag("late")


class Sides(CoProcessFunction):
    def process_element1(self, value, ctx):
        yield LATE, value
        yield value, "first"

    def process_element2(self, value, ctx):
        yield value, ctx.timer_service().current_watermark()


def test_records_of_streams_without_keys_keep_their_timestamps_and_go_to_side_outputs():
    harness = start(CoProcessSpec(Sides()))
    harness.push_watermark(4)
    harness.push_batch([1], [5])
    harness.push_batch([2, 3], [6, 7], input=1)
    assert harness.take_records() == [((1, "first"), 5), ((2, 4), 6), ((3, 4), 7)]
    assert harness.take_side(LATE) == [1]


class RegistersTimer(CoProcessFunction):
    def process_element1(self, value, ctx):
        ctx.timer_service().register_event_time_timer(1)

    def process_element2(self, value, ctx):
        raise KeyError(value)

    def on_timer(self, timestamp, ctx):
        yield "fired", timestamp


def test_a_timer_without_keys_is_refused_and_with_keys_a_co_process_function_has_timers():
    harness = start(CoProcessSpec(RegistersTimer()))
    with pytest.raises(StateAccessError, match="not keyed"):
        harness.push(("a", 1))
    with_keys = start(keyed(RegistersTimer()))
    with_keys.push(("a", 1))
    with_keys.push_watermark(1)
    assert with_keys.take_records() == [(("fired", 1), 1)]


@pytest.mark.parametrize("spec", [CoProcessSpec(RegistersTimer()), keyed(RegistersTimer())])
def test_failing_record_of_the_second_input_is_named(spec):
    harness = start(spec)
    with pytest.raises(KeyError) as raised:
        harness.push_batch([("bad", "key")], input=1)
    assert attached_element(raised.value) == "('bad', 'key')"


class Lengths(CoMapFunction):
    def __init__(self):
        self.life = []

    def open(self, runtime_context):
        self.life.append(runtime_context.get_task_name())

    def close(self):
        self.life.append("closed")

    def map1(self, value):
        return len(value) or None

    def map2(self, value):
        return value


class Words(CoFlatMapFunction):
    def flat_map1(self, value):
        yield from value.split()

    def flat_map2(self, value):
        return None


def test_co_map_drops_none_and_co_flat_map_takes_no_result_for_nothing():
    lengths = Lengths()
    harness = start(CoProcessSpec(as_co_process(lengths)))
    harness.push_batch(["abc", "", "d"])
    harness.push_batch(["x", None, 0], input=1)
    harness.close()
    assert harness.take() == [3, 1, "x", 0]
    assert lengths.life == ["operator", "closed"]
    harness = start(CoProcessSpec(as_co_process(Words())))
    harness.push_batch(["never seen"], [1], input=1)
    harness.push_batch(["a b", "", "c"], [1, 2, 3])
    assert harness.take_records() == [("a", 1), ("b", 1), ("c", 3)]
