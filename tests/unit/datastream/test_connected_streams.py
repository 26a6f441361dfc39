from __future__ import annotations

import pytest

from millstream.base.errors import JobDefinitionError, JobExecutionError, TypeMismatchError
from millstream.common import Types
from millstream.datastream import (
    CoFlatMapFunction,
    CoMapFunction,
    ConnectedStreams,
    CoProcessFunction,
    DataStreamUtils,
    KeyedCoProcessFunction,
    KeyedProcessFunction,
    KeyedStream,
    OutputTag,
    ProcessFunction,
)
from millstream.datastream.state import ValueStateDescriptor
from millstream.graph.job_graph import build_job_graph
from millstream.graph.stream_graph import build_stream_graph

SIDE = OutputTag("side", Types.STRING())


def collect(stream):
    with stream.execute_and_collect() as results:
        return sorted(results)


class Show(CoMapFunction):
    def map1(self, value):
        return f"first {value}"

    def map2(self, value):
        return f"second {value}" if value else None


class Repeat(CoFlatMapFunction):
    def flat_map1(self, value):
        yield from [value] * 2

    def flat_map2(self, value):
        yield from range(value)


class Total(KeyedCoProcessFunction):
    """Adds the first stream's numbers to a key's total, takes the second's away."""

    def open(self, runtime_context):
        self.total = runtime_context.get_state(ValueStateDescriptor("total", Types.LONG()))

    def process_element1(self, value, ctx):
        self.total.update((self.total.value() or 0) + value[1])
        ctx.timer_service().register_event_time_timer(1_000)

    def process_element2(self, value, ctx):
        self.total.update((self.total.value() or 0) - value[1])
        yield SIDE, f"taken {value[1]} of {ctx.get_current_key()}"

    def on_timer(self, timestamp, ctx):
        yield ctx.get_current_key(), self.total.value()


@pytest.mark.parametrize("parallelism", [1, 3])
def test_map_and_flat_map_of_streams_of_different_types(new_environment, parallelism):
    environment = new_environment("local", parallelism)
    first = environment.from_collection([1, 2], Types.INT())
    second = environment.from_collection(["x", ""], Types.STRING())
    shown = first.connect(second).map(Show(), Types.STRING())
    assert (shown.get_name(), shown.get_type()) == ("Co-Map", Types.STRING())
    assert collect(shown) == ["first 1", "first 2", "second x"]
    repeated = first.connect(environment.from_collection([3])).flat_map(Repeat())
    assert repeated.get_name() == "Co-Flat Map"
    assert collect(repeated) == [0, 1, 1, 1, 2, 2, 2]


@pytest.mark.parametrize("parallelism", [1, 3])
@pytest.mark.parametrize("epoch_records", [1, 100])
@pytest.mark.parametrize("keyed_before", [False, True])
def test_keyed_streams_share_state_timers_and_side_outputs(
    new_environment, parallelism, epoch_records, keyed_before
):
    environment = new_environment("local", parallelism, {"millstream.epoch.fixed-records": epoch_records})
    first = environment.from_collection([("a", 5), ("b", 7), ("a", 1), ("c", 2)])
    second = environment.from_collection([(3, 1, "a"), (4, 2, "b"), (9, 3, "d")])
    if keyed_before:
        connected = first.key_by(lambda value: value[0]).connect(second.key_by(lambda value: value[2]))
    else:
        connected = first.connect(second).key_by(lambda value: value[0], lambda value: value[2])
    totals = connected.process(Total())
    assert totals.get_name() == "Keyed Co-Process"
    results = collect(totals.map(str).union(totals.get_side_output(SIDE)))
    assert results == ["('a', 5)", "('b', 5)", "('c', 2)", "taken 1 of a", "taken 2 of b", "taken 3 of d"]


class KeyedShow(CoMapFunction):
    def open(self, runtime_context):
        self.count = runtime_context.get_state(ValueStateDescriptor("count"))

    def map1(self, value):
        self.count.update((self.count.value() or 0) + 1)

    def map2(self, value):
        return value, self.count.value()


def test_co_map_of_keyed_streams_has_keyed_state_and_of_half_keyed_ones_has_not(new_environment):
    options = {"millstream.epoch.fixed-records": 100}
    environment = new_environment("local", 2, options)
    first, second = environment.from_collection([1, 2, 11]), environment.from_collection([21, 33])
    connected = first.connect(second).key_by(lambda value: value % 10, lambda value: value % 10)
    assert collect(connected.map(KeyedShow())) == [(21, 2), (33, None)]
    half = first.key_by(lambda value: value).connect(second).map(KeyedShow())
    with pytest.raises(JobExecutionError) as raised:
        collect(half)
    assert "not keyed" in str(raised.value.__cause__)


class Noop(CoProcessFunction):
    def process_element1(self, value, ctx): ...
    def process_element2(self, value, ctx): ...


class Plain(ProcessFunction):
    def process_element(self, value, ctx): ...


def test_key_by_replaces_keys_and_keeps_declared_types(new_environment):
    environment = new_environment()
    first = environment.from_collection([(1, 2)]).key_by(lambda value: value[0], Types.INT())
    connected = first.connect(environment.from_collection([3]))
    rekeyed = connected.key_by(lambda value: "x", str, Types.STRING())
    assert isinstance(rekeyed, ConnectedStreams)
    assert isinstance(rekeyed.stream1, KeyedStream)
    assert isinstance(rekeyed.stream2, KeyedStream)
    assert rekeyed.process(Noop()).get_name() == "Keyed Co-Process"
    assert connected.process(Noop()).get_name() == "Co-Process"


def test_keyed_function_needs_two_keyed_streams(new_environment):
    environment = new_environment()
    plain = environment.from_collection([1])
    keyed = plain.key_by(str)
    for connected, missing in (
        (plain.connect(plain), "neither stream is keyed"),
        (plain.connect(keyed), "stream 1 is not keyed"),
        (keyed.connect(plain), "stream 2 is not keyed"),
    ):
        with pytest.raises(TypeMismatchError, match=missing):
            connected.process(Total())


def test_what_does_not_fit_is_refused_where_it_is_named(new_environment):
    environment, other = new_environment(), new_environment()
    stream = environment.from_collection([1])
    connected = stream.connect(stream)
    for call, seen in (
        (lambda: connected.map(Noop()), "map was given a Noop"),
        (lambda: connected.flat_map(Show()), "flat_map was given a Show"),
        (lambda: connected.process(Plain()), "process was given a Plain"),
        (lambda: stream.connect("x"), "connect was given a str"),
        (lambda: stream.key_by(str, Types.INT()).connect(stream.key_by(str, Types.STRING())), "keys of"),
    ):
        with pytest.raises(TypeMismatchError, match=seen):
            call()
    with pytest.raises(JobDefinitionError, match="different environments"):
        stream.connect(other.from_collection([1]))
    with pytest.raises(JobDefinitionError, match="different environments"):
        stream.union(other.from_collection([1]))


def test_a_stream_may_be_connected_and_united_with_itself(new_environment):
    stream = new_environment("local", 2).from_collection([1, 2])
    assert collect(stream.connect(stream).map(Show())) == ["first 1", "first 2", "second 1", "second 2"]
    assert collect(stream.union(stream, stream)) == [1, 1, 1, 2, 2, 2]


def test_union_is_of_one_type_and_undeclared_streams_fit_any(new_environment):
    environment = new_environment()
    ints = environment.from_collection([1], Types.INT())
    strings = environment.from_collection(["a"], Types.STRING())
    undeclared = ints.map(lambda value: value)
    with pytest.raises(TypeMismatchError, match="a union of streams of"):
        ints.union(strings)
    with pytest.raises(TypeMismatchError, match="a union of streams of"):
        undeclared.union(ints, strings)
    assert ints.union(ints).get_type() == Types.INT()
    assert ints.union(undeclared).get_type() == Types.PICKLED_BYTE_ARRAY()
    assert undeclared.union(ints).get_type() == Types.PICKLED_BYTE_ARRAY()


class Count(KeyedProcessFunction):
    def open(self, runtime_context):
        self.count = runtime_context.get_state(ValueStateDescriptor("count"))

    def process_element(self, value, ctx):
        self.count.update((self.count.value() or 0) + 1)
        yield value, self.count.value()


def count_twice(environment):
    numbers = environment.from_collection(list(range(30)))
    counted = numbers.key_by(lambda value: value % 7).process(Count())
    again = DataStreamUtils.reinterpret_as_keyed_stream(counted, lambda value: value[0] % 7)
    assert isinstance(again, KeyedStream)
    return again.process(Count())


def test_reinterpreted_stream_is_chained_and_keeps_state_by_key(new_environment):
    results = collect(count_twice(new_environment("local", 3)))
    assert results == [((number, number // 7 + 1), number // 7 + 1) for number in range(30)]
    environment = new_environment("local", 3)
    count_twice(environment).print()
    transformations = environment._job_transformations()
    graph = build_stream_graph(transformations, parallelism=1, max_parallelism=128)
    assert [vertex.name for vertex in build_job_graph(graph).vertices[1:]] == [
        "KeyedProcess -> Reinterpret As Keyed -> KeyedProcess -> Print to Std. Out"
    ]


def test_reinterpreted_stream_that_is_not_dealt_by_its_key_fails_and_names_the_key(new_environment):
    environment = new_environment("local", 3)
    numbers = environment.from_collection(list(range(30))).map(lambda value: value)
    wrong = DataStreamUtils.reinterpret_as_keyed_stream(numbers, lambda value: f"key {value}")
    with pytest.raises(JobExecutionError) as raised:
        collect(wrong.process(Count()))
    assert "key 'key " in str(raised.value.__cause__)
    assert "belongs to subtask" in str(raised.value.__cause__)


def test_only_an_operators_direct_result_is_reinterpreted(new_environment):
    stream = new_environment().from_collection([1])
    for other in (stream.rebalance(), stream.union(stream), stream.key_by(str)):
        with pytest.raises(JobDefinitionError, match="direct result"):
            DataStreamUtils.reinterpret_as_keyed_stream(other, str)
