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
from millstream.operators.base import EpochTime, OperatorContext, Output
from millstream.operators.co_process import CoProcessSpec, KeyedCoProcessSpec, as_co_process
from millstream.operators.user_code import attached_element
from millstream.spi.batch import Rows
from millstream.state.heap import HeapKeyedStateBackend
from millstream.state.operator_state import OperatorStateBackend


class Recorder(Output):
    def __init__(self):
        self.records = []
        self.sides = []
        self.watermarks = []

    def emit(self, batch):
        values, timestamps = batch.values, batch.timestamps
        self.records += zip(values, timestamps or [None] * len(values), strict=True)

    def emit_side(self, tag_id, batch):
        values = batch.values
        self.sides += [(tag_id, value) for value in values]

    def emit_watermark(self, timestamp_ms):
        self.watermarks.append(timestamp_ms)

    def emit_status(self, status):
        raise AssertionError


def start(spec, *, sides=frozenset()):
    operator = spec.build()
    context = OperatorContext(
        job_id="job",
        name="co",
        operator_id="co",
        subtask_index=0,
        parallelism=1,
        max_parallelism=128,
        attempt=0,
        time=EpochTime(1_000),
        keyed_state=HeapKeyedStateBackend() if spec.is_keyed else None,
        side_outputs=sides,
        operator_state=OperatorStateBackend(),
    )
    operator.setup(context, Recorder())
    operator.open()
    return operator


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
    operator = start(keyed(Remember()))
    first, second = operator.batch_handlers()
    first(Rows([("a", 1), ("b", 10), ("a", 2)]))
    second(Rows([("x", "a"), ("x", "b"), ("x", "c")], [7, 8, 9]))
    assert operator.output.records == [(("a", 3, 7), 7), (("b", 10, 8), 8), (("c", None, 9), 9)]


class Timers(KeyedCoProcessFunction):
    def process_element1(self, value, ctx):
        ctx.timer_service().register_event_time_timer(value[1])

    def process_element2(self, value, ctx):
        ctx.timer_service().register_processing_time_timer(value[0])
        yield "at", ctx.timer_service().current_processing_time(), ctx.timer_service().current_watermark()

    def on_timer(self, timestamp, ctx):
        yield ctx.time_domain(), ctx.get_current_key(), timestamp


def test_timers_of_both_domains_fire_under_their_key_from_either_input():
    operator = start(keyed(Timers()))
    first, second = operator.batch_handlers()
    operator.process_watermark(3)
    second(Rows([(1_500, "k")]))
    first(Rows([("b", 20), ("a", 10), ("c", 30)], [0, 0, 0]))
    assert operator.output.records == [(("at", 1_000, 3), None)]
    assert operator.next_processing_time() == 1_500
    operator.process_watermark(20)
    operator.context.time.now_ms = 1_600
    operator.on_processing_time()
    assert operator.output.records[1:] == [
        ((TimeDomain.EVENT_TIME, "a", 10), 10),
        ((TimeDomain.EVENT_TIME, "b", 20), 20),
        ((TimeDomain.PROCESSING_TIME, "k", 1_500), None),
    ]
    assert operator.output.watermarks == [3, 20]


LATE = OutputTag("late")


class Sides(CoProcessFunction):
    def process_element1(self, value, ctx):
        yield LATE, value
        yield value, "first"

    def process_element2(self, value, ctx):
        yield value, ctx.timer_service().current_watermark()


def test_records_of_streams_without_keys_keep_their_timestamps_and_go_to_side_outputs():
    operator = start(CoProcessSpec(Sides()), sides=frozenset({"late"}))
    first, second = operator.batch_handlers()
    operator.process_watermark(4)
    first(Rows([1], [5]))
    second(Rows([2, 3], [6, 7]))
    assert operator.output.records == [((1, "first"), 5), ((2, 4), 6), ((3, 4), 7)]
    assert operator.output.sides == [("late", 1)]


class RegistersTimer(CoProcessFunction):
    def process_element1(self, value, ctx):
        ctx.timer_service().register_event_time_timer(1)

    def process_element2(self, value, ctx):
        raise KeyError(value)

    def on_timer(self, timestamp, ctx):
        yield "fired", timestamp


def test_a_timer_without_keys_is_refused_and_with_keys_a_co_process_function_has_timers():
    operator = start(CoProcessSpec(RegistersTimer()))
    with pytest.raises(StateAccessError, match="not keyed"):
        operator.process(Rows([("a", 1)]))
    with_keys = start(keyed(RegistersTimer()))
    with_keys.process(Rows([("a", 1)]))
    with_keys.process_watermark(1)
    assert with_keys.output.records == [(("fired", 1), 1)]


@pytest.mark.parametrize("spec", [CoProcessSpec(RegistersTimer()), keyed(RegistersTimer())])
def test_failing_record_of_the_second_input_is_named(spec):
    _, second = start(spec).batch_handlers()
    with pytest.raises(KeyError) as raised:
        second(Rows([("bad", "key")]))
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
    operator = start(CoProcessSpec(as_co_process(lengths)))
    first, second = operator.batch_handlers()
    first(Rows(["abc", "", "d"]))
    second(Rows(["x", None, 0]))
    operator.close()
    assert [value for value, _ in operator.output.records] == [3, 1, "x", 0]
    assert lengths.life == ["co", "closed"]
    operator = start(CoProcessSpec(as_co_process(Words())))
    first, second = operator.batch_handlers()
    second(Rows(["never seen"], [1]))
    first(Rows(["a b", "", "c"], [1, 2, 3]))
    assert operator.output.records == [("a", 1), ("b", 1), ("c", 3)]
