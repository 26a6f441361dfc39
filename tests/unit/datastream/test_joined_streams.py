from __future__ import annotations

import pytest

from millstream.base.errors import JobDefinitionError, TypeMismatchError
from millstream.base.time import Time
from millstream.common import WatermarkStrategy
from millstream.common.watermark_strategy import TimestampAssigner
from millstream.datastream.functions import (
    CoGroupFunction,
    FlatJoinFunction,
    JoinFunction,
    MapFunction,
)
from millstream.datastream.window import (
    CountEvictor,
    CountTrigger,
    PurgingTrigger,
    SlidingEventTimeWindows,
    TumblingEventTimeWindows,
)
from millstream.graph.job_graph import build_job_graph
from millstream.graph.stream_graph import build_stream_graph
from millstream.types.typeinfo import Types

WINDOW = TumblingEventTimeWindows.of(Time.milliseconds(10))


class Stamp(TimestampAssigner):
    def extract_timestamp(self, value, record_timestamp):
        return value[1]


def stamped(environment, records):
    strategy = WatermarkStrategy.for_monotonous_timestamps().with_timestamp_assigner(Stamp())
    return environment.from_collection(records).assign_timestamps_and_watermarks(strategy).set_parallelism(1)


def key_of(record):
    return record[0]


def collect(stream):
    with stream.execute_and_collect() as results:
        return sorted(results, key=str)


ORDERS = [("a", 1, "o1"), ("b", 2, "o2"), ("a", 9, "o3"), ("a", 12, "o4")]
BILLS = [("a", 3, "b1"), ("c", 4, "b2"), ("a", 8, "b3"), ("b", 15, "b4")]


class Name(JoinFunction):
    def open(self, runtime_context):
        self.name = runtime_context.get_task_name()

    def join(self, first, second):
        return self.name, first[2], second[2]


class Both(FlatJoinFunction):
    def join(self, first, second):
        if first[1] < second[1]:
            yield first[2]
            yield second[2]


class Sides(CoGroupFunction):
    def co_group(self, first, second):
        yield [value[2] for value in first], [value[2] for value in second]


@pytest.fixture(params=[1, 3])
def sources(new_environment, request):
    environment = new_environment("local", request.param, {"millstream.epoch.fixed-records": 2})
    return stamped(environment, ORDERS), stamped(environment, BILLS)


def test_join_pairs_records_of_a_key_in_a_window(sources):
    orders, bills = sources
    windowed = orders.join(bills).where(key_of).equal_to(lambda bill: bill[0]).window(WINDOW)
    pairs = [("o1", "b1"), ("o1", "b3"), ("o3", "b1"), ("o3", "b3")]
    assert collect(windowed.apply(Name())) == sorted(("Window Join", *pair) for pair in pairs)
    typed = windowed.apply(lambda order, bill: order[2] + bill[2], Types.STRING())
    assert typed.get_type() == Types.STRING()
    assert collect(typed) == sorted(order + bill for order, bill in pairs)
    assert collect(windowed.apply(Both())) == sorted(["o1", "b1", "o1", "b3"])


def test_co_group_gives_both_sides_of_every_key_also_if_one_is_empty(sources):
    orders, bills = sources
    windowed = orders.co_group(bills).where(key_of).equal_to(key_of).window(WINDOW)
    grouped = windowed.apply(Sides())
    assert grouped.get_name() == "Window CoGroup"
    expected = [(["o1", "o3"], ["b1", "b3"]), (["o2"], []), ([], ["b2"]), (["o4"], []), ([], ["b4"])]
    assert collect(grouped) == sorted(expected, key=str)
    counts = windowed.apply(lambda first, second: [len(first) - len(second)], Types.INT())
    assert collect(counts) == sorted([0, 1, -1, 1, -1], key=str)


def test_join_in_sliding_windows_gives_a_pair_for_each_window_they_share(sources):
    orders, bills = sources
    windows = SlidingEventTimeWindows.of(Time.milliseconds(10), Time.milliseconds(5))
    joined = orders.join(bills).where(key_of).equal_to(key_of).window(windows).apply(Name())
    # windows of a: [-5,5) o1 b1; [0,10) o1 o3 b1 b3; [5,15) o3 o4 b3
    expected = [("o1", "b1")] * 2 + [("o1", "b3"), ("o3", "b1"), ("o3", "b3"), ("o3", "b3"), ("o4", "b3")]
    assert [pair[1:] for pair in collect(joined)] == sorted(expected)


def test_results_have_the_time_of_their_window(sources):
    orders, bills = sources
    joined = orders.join(bills).where(key_of).equal_to(key_of).window(WINDOW).apply(lambda a, b: (a[0], 1))
    windowed = joined.key_by(key_of).window(WINDOW).reduce(lambda one, two: (one[0], one[1] + two[1]))
    assert collect(windowed) == [("a", 4)]


def test_late_record_within_the_lateness_joins_again_and_after_it_not(new_environment):
    environment = new_environment("local", 1, {"millstream.epoch.fixed-records": 1})
    first = stamped(environment, [("a", 1, "l1"), ("a", 30, "l2"), ("a", 31, "l3"), ("a", 2, "late")])
    second = stamped(environment, [("a", 1, "r1"), ("a", 30, "r2"), ("a", 31, "r3"), ("a", 32, "r4")])
    for lateness, again in ((0, []), (100, [("l1", "r1"), ("late", "r1")])):
        windowed = first.join(second).where(key_of).equal_to(key_of).window(WINDOW)
        joined = windowed.allowed_lateness(lateness).apply(lambda left, right: (left[2], right[2]))
        early = [pair for pair in collect(joined) if pair[1] == "r1"]
        assert early == sorted([("l1", "r1"), *again])


def test_trigger_sees_records_of_both_sides(new_environment):
    environment = new_environment("local", 1, {"millstream.epoch.fixed-records": 1})
    first = stamped(environment, [("a", 1, "l1"), ("a", 2, "l2"), ("a", 3, "l3")])
    second = stamped(environment, [("a", 1, "r1"), ("a", 2, "r2"), ("a", 3, "r3")])
    windowed = first.co_group(second).where(key_of).equal_to(key_of).window(WINDOW)
    grouped = windowed.trigger(PurgingTrigger.of(CountTrigger.of(2))).apply(Sides())
    assert collect(grouped) == [(["l1"], ["r1"]), (["l2"], ["r2"]), (["l3"], ["r3"])]


def test_evictor_takes_records_out_of_both_sides_together(new_environment):
    environment = new_environment()
    first = stamped(environment, [("a", 1, "l1"), ("a", 2, "l2")])
    second = stamped(environment, [("a", 3, "r1"), ("a", 4, "r2")])
    windowed = first.co_group(second).where(key_of).equal_to(key_of).window(WINDOW)
    [(left, right)] = collect(windowed.evictor(CountEvictor.of(3)).apply(Sides()))
    assert len(left) + len(right) == 3
    assert {*left, *right} < {"l1", "l2", "r1", "r2"}


def test_unions_and_keyed_streams_are_joined_too(sources):
    orders, bills = sources
    doubled = orders.union(orders).key_by(lambda order: order[1])
    joined = doubled.join(bills).where(key_of).equal_to(key_of).window(WINDOW)
    assert len(collect(joined.apply(lambda order, bill: 1))) == 8


def test_records_are_tagged_in_the_chain_that_makes_them(new_environment):
    environment = new_environment("local", 4)
    first = environment.from_collection([1]).map(str).set_parallelism(2)
    second = environment.from_collection([1]).map(str).set_parallelism(3)
    first.join(second).where(str).equal_to(str).window(WINDOW).apply(max).print()
    transformations = environment._job_transformations()
    graph = build_job_graph(build_stream_graph(transformations, parallelism=4, max_parallelism=128))
    assert sorted((vertex.name, vertex.parallelism) for vertex in graph.vertices[2:]) == [
        ("Map -> Tag", 2),
        ("Map -> Tag", 3),
        ("Window Join -> Print to Std. Out", 4),
    ]


class Map(MapFunction):
    def map(self, value): ...


def test_what_does_not_fit_is_refused_where_it_is_named(new_environment):
    environment = new_environment()
    stream = environment.from_collection([1])
    windowed = stream.join(stream).where(str).equal_to(str).window(WINDOW)
    grouped = stream.co_group(stream).where(str).equal_to(str).window(WINDOW)
    for call, seen in (
        (lambda: windowed.apply(Map()), "apply was given a Map"),
        (lambda: windowed.apply("text"), "apply was given a str"),
        (lambda: windowed.apply(Sides()), "apply was given a Sides"),
        (lambda: grouped.apply(Name()), "apply was given a Name"),
        (lambda: stream.join(7), "join was given a int"),
        (lambda: stream.co_group(7), "co_group was given a int"),
        (lambda: stream.join(stream).where(7), "is not a KeySelector"),
        (lambda: stream.join(stream).where(str).equal_to(str).window(7), "WindowAssigner"),
        (lambda: windowed.trigger(WINDOW), "Trigger"),
        (lambda: windowed.evictor(WINDOW), "Evictor"),
    ):
        with pytest.raises(TypeMismatchError, match=seen):
            call()
    for operation in (stream.join, stream.co_group):
        with pytest.raises(JobDefinitionError, match="different environments"):
            operation(new_environment().from_collection([1]))
