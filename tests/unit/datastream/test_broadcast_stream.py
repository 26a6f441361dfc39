from __future__ import annotations

import pytest

from millstream.base.errors import (
    ConfigurationError,
    JobDefinitionError,
    JobExecutionError,
    TypeMismatchError,
)
from millstream.common import Types
from millstream.datastream import (
    BroadcastConnectedStream,
    BroadcastProcessFunction,
    BroadcastStream,
    DataStream,
    KeyedBroadcastProcessFunction,
)
from millstream.datastream.state import MapStateDescriptor, ValueStateDescriptor

RULES = MapStateDescriptor("rules", Types.STRING(), Types.INT())


def collect(stream):
    with stream.execute_and_collect() as results:
        return list(results)


class Apply(BroadcastProcessFunction):
    def process_element(self, value, ctx):
        for name, factor in ctx.get_broadcast_state(RULES).items():
            yield name, value * factor

    def process_broadcast_element(self, value, ctx):
        ctx.get_broadcast_state(RULES).put(*value)


class KeyedApply(KeyedBroadcastProcessFunction):
    def open(self, runtime_context):
        self.total = runtime_context.get_state(ValueStateDescriptor("total"))

    def process_element(self, value, ctx):
        self.total.update((self.total.value() or 0) + value)
        if self.total.value() > ctx.get_broadcast_state(RULES).get("limit"):
            yield ctx.get_current_key(), self.total.value()

    def process_broadcast_element(self, value, ctx):
        ctx.get_broadcast_state(RULES).put(*value)


@pytest.mark.parametrize("parallelism", [1, 2, 3])
def test_rules_of_an_epoch_reach_every_subtask_before_its_records(new_environment, parallelism):
    environment = new_environment("local", parallelism, {"millstream.epoch.fixed-records": 2})
    data = environment.from_collection([1, 2, 3, 4, 5, 6])
    rules = environment.from_collection([("one", 1), ("ten", 10), ("ten", 20), ("nul", 0)])
    results = collect(data.connect(rules.broadcast(RULES)).process(Apply()))
    expected = [("one", number) for number in range(1, 7)]
    expected += [("ten", 10), ("ten", 20), ("ten", 60), ("ten", 80), ("ten", 100), ("ten", 120)]
    expected += [("nul", 0)] * 4
    assert sorted(results) == sorted(expected)


@pytest.mark.parametrize("parallelism", [1, 2, 3])
def test_keyed_stream_has_its_state_and_the_broadcast_one(new_environment, parallelism):
    environment = new_environment("local", parallelism, {"millstream.epoch.fixed-records": 3})
    data = environment.from_collection([1, 2, 3, 11, 12, 13]).key_by(lambda value: value % 10)
    rules = environment.from_collection([("limit", 2)]).broadcast(RULES)
    connected = data.connect(rules)
    assert isinstance(connected, BroadcastConnectedStream)
    stream = connected.process(KeyedApply(), Types.TUPLE([Types.INT(), Types.INT()]))
    assert stream.get_type() == Types.TUPLE([Types.INT(), Types.INT()])
    assert sorted(collect(stream)) == [(1, 12), (2, 14), (3, 3), (3, 16)]


def test_list_of_types_is_a_row_as_in_pyflink(new_environment):
    stream = new_environment().from_collection([1])
    result = stream.connect(stream.broadcast(RULES)).process(Apply(), [Types.STRING(), Types.INT()])
    assert result.get_type() == Types.ROW([Types.STRING(), Types.INT()])


def test_broadcast_without_descriptor_is_a_stream_and_with_one_it_keeps_them(new_environment):
    stream = new_environment().from_collection([1])
    other = MapStateDescriptor("other")
    assert isinstance(stream.broadcast(), DataStream)
    broadcast = stream.broadcast(RULES, other)
    assert isinstance(broadcast, BroadcastStream)
    assert broadcast.broadcast_state_descriptors == [RULES, other]


def test_what_does_not_fit_is_refused_where_it_is_named(new_environment):
    environment = new_environment()
    stream = environment.from_collection([1])
    broadcast = stream.broadcast(RULES)
    for call, seen in (
        (lambda: stream.broadcast(ValueStateDescriptor("x")), "ValueStateDescriptor"),
        (lambda: stream.connect(broadcast).process(KeyedApply()), "not a BroadcastProcessFunction"),
        (lambda: stream.key_by(str).connect(broadcast).process(Apply()), "not a KeyedBroadcastProcess"),
        (lambda: stream.connect(broadcast).process(len), "given a builtin_function"),
    ):
        with pytest.raises(TypeMismatchError, match=seen):
            call()
    with pytest.raises(ConfigurationError, match='the name "rules"'):
        stream.broadcast(RULES, MapStateDescriptor("rules"))
    with pytest.raises(JobDefinitionError, match="different environments"):
        stream.connect(new_environment().from_collection([1]).broadcast(RULES))


class Writes(BroadcastProcessFunction):
    def process_element(self, value, ctx):
        ctx.get_broadcast_state(RULES).put("x", value)

    def process_broadcast_element(self, value, ctx): ...


def test_writing_on_the_data_side_fails_the_job_with_the_reason(new_environment):
    stream = new_environment().from_collection([1])
    with pytest.raises(JobExecutionError) as raised:
        collect(stream.connect(stream.broadcast(RULES)).process(Writes()))
    assert 'broadcast state "rules" was written' in str(raised.value.__cause__)
    assert "process_broadcast_element" in str(raised.value.__cause__)
