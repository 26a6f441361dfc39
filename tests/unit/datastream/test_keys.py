"""Keys of every kind through every keyed operator; the counts are those of PyFlink 2.3.

There a key is what it is pickled to, so NaN is one key; lists, dicts and bytearrays are keys as good as any.
"""

from __future__ import annotations

import pytest

from millstream.base.errors import JobExecutionError
from millstream.common import Configuration, Row, Time, Types, WatermarkStrategy
from millstream.common.functions import ReduceFunction
from millstream.common.watermark_strategy import TimestampAssigner
from millstream.datastream import (
    KeyedCoProcessFunction,
    KeyedProcessFunction,
    ProcessJoinFunction,
    ProcessWindowFunction,
    StreamExecutionEnvironment,
)
from millstream.datastream.state import ListStateDescriptor, MapStateDescriptor, ValueStateDescriptor
from millstream.datastream.window import (
    CountSlidingWindowAssigner,
    EventTimeSessionWindows,
    SlidingEventTimeWindows,
    TumblingEventTimeWindows,
)

NAN = float("nan")

KINDS = {
    "nan": (NAN, -NAN),
    "tuple with nan": ((1, NAN), (1, float("inf") * 0)),
    "list": ([1, 2], [1, 2]),
    "dict": ({"a": 1, "b": 2}, {"b": 2, "a": 1}),
    "bytearray": (bytearray(b"x"), bytearray(b"x")),
    "frozenset": (frozenset(["ab", "cd", "ef"]), frozenset(["ef", "cd", "ab"])),
    "set": ({8, 16}, {16, 8}),
    "row": (Row(a=1), Row(a=1)),
    "true": (True, True),
    "float": (1.0, 1.0),
}
OTHERS = (1, "x", 0.0)
BACKENDS = ("hashmap", "rocksdb")


def records(kind):
    """One record of each of the two keys, twice, with other keys between."""
    first, second = KINDS[kind]
    keys = [key for one in (first, second) for key in (one, *OTHERS)] * 2
    return [(number, key) for number, key in enumerate(keys)]


@pytest.fixture(params=[1, 2], ids=["alone", "two"])
def parallelism(request):
    return request.param


@pytest.fixture(params=BACKENDS)
def backend(request):
    return request.param


def environment(parallelism=1, backend="hashmap"):
    options = {"execution.target": "local", "state.backend.type": backend}
    made = StreamExecutionEnvironment.get_execution_environment(Configuration.from_dict(options))
    return made.set_parallelism(parallelism)


class Assigner(TimestampAssigner):
    def extract_timestamp(self, value, record_timestamp):
        return value[0]


def keyed(kind, parallelism=1, backend="hashmap"):
    strategy = WatermarkStrategy.for_monotonous_timestamps().with_timestamp_assigner(Assigner())
    stream = environment(parallelism, backend).from_collection(records(kind))
    return stream.assign_timestamps_and_watermarks(strategy).key_by(lambda record: record[1])


def results(stream):
    with stream.execute_and_collect() as collected:
        return list(collected)


class Count(KeyedProcessFunction):
    def open(self, runtime_context):
        self.count = runtime_context.get_state(ValueStateDescriptor("count", Types.LONG()))
        self.seen = runtime_context.get_list_state(ListStateDescriptor("seen", Types.LONG()))
        self.map = runtime_context.get_map_state(MapStateDescriptor("map", Types.STRING(), Types.LONG()))

    def process_element(self, value, ctx):
        count = (self.count.value() or 0) + 1
        self.count.update(count)
        self.seen.add(value[0])
        self.map.put("last", value[0])
        ctx.timer_service().register_event_time_timer(1_000)
        yield "counted", ctx.get_current_key(), count

    def on_timer(self, timestamp, ctx):
        yield "timer", ctx.get_current_key(), (list(self.seen.get()), self.map.get("last"))


@pytest.mark.parametrize("kind", KINDS)
def test_state_and_timers_of_one_key(kind, parallelism, backend):
    made = results(keyed(kind, parallelism, backend).process(Count()))
    mine = [(what, key, told) for what, key, told in made if type(key) is type(KINDS[kind][0])]
    mine = [each for each in mine if repr(each[1]) != "0.0"]
    assert [told for what, _, told in mine if what == "counted"] == [1, 2, 3, 4]
    assert [told for what, _, told in mine if what == "timer"] == [([0, 4, 8, 12], 12)]
    key = mine[0][1]
    assert key == KINDS[kind][0] or key != key or kind == "tuple with nan"


@pytest.mark.parametrize("kind", KINDS)
def test_rolling_reduce_of_one_key(kind, parallelism, backend):
    made = results(keyed(kind, parallelism, backend).reduce(lambda a, b: (a[0] + b[0], a[1])))
    assert max(total for total, key in made if repr(key) != "0.0" and type(key) is type(KINDS[kind][0])) == 24


class Names(ProcessWindowFunction):
    def process(self, key, context, elements):
        yield repr(key), type(key), [number for number, _ in elements]


WINDOWS = {
    "tumbling": TumblingEventTimeWindows.of(Time.seconds(1)),
    "sliding": SlidingEventTimeWindows.of(Time.milliseconds(1_000), Time.milliseconds(500)),
    "session": EventTimeSessionWindows.with_gap(Time.milliseconds(100)),
    "counts": CountSlidingWindowAssigner.of(4, 4),
}


@pytest.mark.parametrize("assigner", WINDOWS)
@pytest.mark.parametrize("kind", KINDS)
def test_windows_of_one_key(kind, assigner, parallelism):
    made = results(keyed(kind, parallelism).window(WINDOWS[assigner]).process(Names()))
    first = KINDS[kind][0]
    mine = [numbers for name, type_, numbers in made if type_ is type(first) and name != "0.0"]
    assert [0, 4, 8, 12] in mine
    assert all(numbers == [0, 4, 8, 12] for numbers in mine)


class Both(ProcessJoinFunction):
    def process_element(self, left, right, ctx):
        yield left[0], right[0]


@pytest.mark.parametrize("kind", KINDS)
def test_interval_join_of_one_key(kind, parallelism):
    one = keyed(kind, parallelism)
    between = one.interval_join(one).between(Time.milliseconds(0), Time.milliseconds(0))
    made = results(between.process(Both()))
    assert sorted(made) == [(number, number) for number in range(16)]


@pytest.mark.parametrize("kind", KINDS)
def test_window_join_of_one_key(kind, parallelism):
    one = keyed(kind, parallelism)

    def second(record):
        return record[1]

    joined = one.join(one).where(second).equal_to(second).window(WINDOWS["tumbling"])
    made = results(joined.apply(lambda a, b: (a[0], b[0])))
    assert len(made) == 4 * 16
    assert all(left % 4 == right % 4 for left, right in made)


class CountBoth(KeyedCoProcessFunction):
    def open(self, runtime_context):
        self.count = runtime_context.get_state(ValueStateDescriptor("count", Types.LONG()))

    def process_element1(self, value, ctx):
        self.count.update((self.count.value() or 0) + 1)
        yield self.count.value()

    process_element2 = process_element1


@pytest.mark.parametrize("kind", KINDS)
def test_connected_streams_of_one_key(kind, parallelism):
    one = keyed(kind, parallelism)
    assert max(results(one.connect(one).process(CountBoth()))) == 8


# key: 1 | 'x' | True | 'x' | 1.0 | ...  PyFlink: each of 1, True and 1.0 is counted by itself, so are 0.0, -0.0 and 0
@pytest.mark.parametrize("keys", [(1, True, 1.0), (0.0, -0.0, 0), ((1,), (True,), (1.0,)), ([1, 2], (1, 2))])
def test_equal_keys_of_different_kinds_are_different_keys(keys, parallelism, backend):
    stream = environment(parallelism, backend).from_collection(
        [key for _ in range(2) for key in keys for _ in "12"]
    )
    made = results(stream.key_by(lambda key: key).process(CountKeys()))
    assert sorted(made) == sorted((repr(key), count) for key in keys for count in (1, 2, 3, 4))


class CountKeys(KeyedProcessFunction):
    def open(self, runtime_context):
        self.count = runtime_context.get_state(ValueStateDescriptor("count", Types.LONG()))

    def process_element(self, value, ctx):
        self.count.update((self.count.value() or 0) + 1)
        yield repr(ctx.get_current_key()), self.count.value()


class Unpicklable:
    def __reduce__(self):
        raise TypeError("holds a lock")


def test_a_key_that_cannot_be_told_apart_is_refused_at_any_parallelism(parallelism):
    stream = environment(parallelism).from_collection([1, 2])
    with pytest.raises(JobExecutionError) as caught:
        results(stream.key_by(lambda number: Unpicklable()).reduce(ReduceAll()))
    assert "a key of type Unpicklable has no canonical form" in str(caught.value.__cause__)
    assert "holds a lock" in str(caught.value.__cause__)


class ReduceAll(ReduceFunction):
    def reduce(self, value1, value2):
        return value1


def test_an_error_in_a_key_selector_names_its_record(parallelism):
    stream = environment(parallelism).from_collection([3, 2, 0, 1])
    with pytest.raises(JobExecutionError) as caught:
        results(stream.key_by(lambda number: 6 // number).reduce(lambda a, b: a))
    assert caught.value.__cause__.element == "0"


class Numbered(ReduceFunction):
    def open(self, runtime_context):
        self.calls = runtime_context.get_state(ValueStateDescriptor("calls", Types.LONG()))

    def reduce(self, value1, value2):
        self.calls.update((self.calls.value() or 0) + 1)
        return value1[0], value1[1] + value2[1], self.calls.value()


@pytest.mark.parametrize("interval", [None, "1ms"])
def test_state_in_a_reduce_function_is_that_of_the_key(parallelism, backend, interval):
    records = [("a", 1, 0), ("b", 1, 0), ("a", 1, 0), ("a", 1, 0), ("b", 5, 0)]
    env = environment(parallelism, backend)
    if interval is not None:
        env.enable_checkpointing(1)
    made = results(env.from_collection(records).key_by(lambda record: record[0]).reduce(Numbered()))
    # as PyFlink 2.3 gives them
    assert sorted(made) == [("a", 1, 0), ("a", 2, 1), ("a", 3, 2), ("b", 1, 0), ("b", 6, 1)]


# PyFlink 2.3 with Types.DOUBLE(): 0.0 twice, -0.0 twice and nan twice, whatever they came as
def test_keys_of_a_declared_type_are_of_that_type(parallelism, backend):
    stream = environment(parallelism, backend).from_collection([1, 1.0, 0.0, -0.0, 0, NAN, -NAN])
    made = results(stream.key_by(lambda key: key, Types.DOUBLE()).process(CountKeys()))
    once = [("1.0", 1), ("0.0", 1), ("-0.0", 1), ("nan", 1)]
    assert sorted(made) == sorted([*once, ("1.0", 2), ("0.0", 2), ("nan", 2)])
    pairs = environment(parallelism).from_collection([[1, "a"], (1, "a")])
    by_pair = pairs.key_by(lambda pair: pair, Types.TUPLE([Types.DOUBLE(), Types.STRING()]))
    assert sorted(results(by_pair.process(CountKeys()))) == [("(1.0, 'a')", 1), ("(1.0, 'a')", 2)]


def test_a_key_that_does_not_fit_its_declared_type_stays_as_it_is(parallelism):
    stream = environment(parallelism).from_collection([1, "one", 1.0])
    made = results(stream.key_by(lambda key: key, Types.DOUBLE()).process(CountKeys()))
    assert sorted(made) == [("'one'", 1), ("1.0", 1), ("1.0", 2)]
