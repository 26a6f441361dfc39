from __future__ import annotations

from datetime import timedelta

import pytest

from millstream.base.errors import (
    ConfigurationError,
    JobDefinitionError,
    JobExecutionError,
    TypeMismatchError,
)
from millstream.base.time import Time
from millstream.common import Duration, Types, WatermarkStrategy
from millstream.common.watermark_strategy import TimestampAssigner
from millstream.datastream import OutputTag, ProcessFunction, ProcessJoinFunction
from millstream.datastream.data_stream import IntervalJoined

ONE_BY_ONE = {"millstream.epoch.fixed-records": 1}


class Stamp(TimestampAssigner):
    def extract_timestamp(self, value, record_timestamp):
        return value[1]


def key_of(record):
    return record[0]


def keyed(environment, records):
    strategy = WatermarkStrategy.for_monotonous_timestamps().with_timestamp_assigner(Stamp())
    stream = environment.from_collection(records).assign_timestamps_and_watermarks(strategy)
    return stream.set_parallelism(1).key_by(key_of)


def collect(stream):
    with stream.execute_and_collect() as results:
        return sorted(results)


class Pair(ProcessJoinFunction):
    def process_element(self, left, right, ctx):
        yield left[1], right[1]


class Timed(ProcessFunction):
    def process_element(self, value, ctx):
        yield value, ctx.timestamp(), ctx.timer_service().current_watermark()


@pytest.mark.parametrize(
    ("change", "expected"),
    [
        (lambda joined: joined, [8, 9, 10, 11, 12]),
        (IntervalJoined.lower_bound_exclusive, [9, 10, 11, 12]),
        (IntervalJoined.upper_bound_exclusive, [8, 9, 10, 11]),
        (lambda joined: joined.upper_bound_exclusive().lower_bound_exclusive(), [9, 10, 11]),
    ],
)
@pytest.mark.parametrize(
    "bounds",
    [(-2, 2), (Time.milliseconds(-2), Duration.of_millis(2)), (timedelta(milliseconds=-2), 2)],
)
def test_bounds_are_inclusive_unless_told_otherwise(new_environment, change, expected, bounds):
    environment = new_environment("local", 2)
    left = keyed(environment, [("k", 10)])
    right = keyed(environment, [("k", stamp) for stamp in range(5, 16)])
    joined = change(left.interval_join(right).between(*bounds)).process(Pair())
    assert collect(joined) == [(10, stamp) for stamp in expected]


def test_a_pair_does_not_wait_for_the_watermark_and_has_the_later_time(new_environment):
    environment = new_environment("local", 1, ONE_BY_ONE)
    left = keyed(environment, [("k", 10), ("x", 500)])
    right = keyed(environment, [("k", 30), ("x", 900)])
    joined = left.interval_join(right).between(0, 1_000).process(Pair())
    results = collect(joined.process(Timed()))
    assert [(pair, stamp) for pair, stamp, _ in results] == [((10, 30), 30), ((500, 900), 900)]
    # right's channel is behind left's by then, so its record comes at its watermark of before
    assert results[1][2] == 29


LEFT, RIGHT = OutputTag("left"), OutputTag("right")


def test_late_records_of_either_side_go_to_its_own_side_output(new_environment):
    environment = new_environment("local", 1, ONE_BY_ONE)
    left = keyed(environment, [("k", 100), ("k", 101), ("k", 40), ("k", 102)])
    right = keyed(environment, [("k", 100), ("k", 101), ("k", 50), ("k", 102)])
    joined = left.interval_join(right).between(0, 0)
    joined = joined.side_output_left_late_data(LEFT).side_output_right_late_data(RIGHT).process(Pair())
    late = joined.get_side_output(LEFT).map(lambda record: ("left", record[1]))
    late = late.union(joined.get_side_output(RIGHT).map(lambda record: ("right", record[1])))
    assert collect(joined.map(lambda pair: ("pair", pair[0])).union(late)) == [
        ("left", 40),
        ("pair", 100),
        ("pair", 101),
        ("pair", 102),
        ("right", 50),
    ]


def test_processing_time_needs_no_timestamps(new_environment):
    environment = new_environment("local", 2)
    left = environment.from_collection([("a", 1), ("b", 2)]).key_by(key_of)
    right = environment.from_collection([("a", 3), ("c", 4)]).key_by(key_of)
    day = Time.days(1)
    joined = left.interval_join(right).in_processing_time().between(Time.days(-1), day)
    assert collect(joined.process(Pair())) == [(1, 3)]
    without = left.interval_join(right).in_processing_time().in_event_time().between(0, day)
    with pytest.raises(JobExecutionError) as raised:
        collect(without.process(Pair()))
    assert "has no timestamp" in str(raised.value.__cause__)


def test_declared_type_is_kept_and_checked(new_environment):
    environment = new_environment()
    streams = [keyed(environment, [("k", 1)]) for _ in range(2)]
    joined = streams[0].interval_join(streams[1]).between(0, 0)
    typed = joined.process(Pair(), Types.TUPLE([Types.LONG(), Types.LONG()]))
    assert (typed.get_name(), typed.get_type()) == (
        "Interval Join",
        Types.TUPLE([Types.LONG(), Types.LONG()]),
    )
    assert collect(typed) == [(1, 1)]
    with pytest.raises(JobExecutionError) as raised:
        collect(joined.process(Pair(), Types.STRING()))
    assert "does not fit the declared type" in str(raised.value.__cause__)


def test_what_does_not_fit_is_refused_where_it_is_named(new_environment):
    environment = new_environment()
    plain = environment.from_collection([1])
    stream = plain.key_by(str, Types.STRING())
    joined = stream.interval_join(stream).between(0, 5)
    for call, seen in (
        (lambda: stream.interval_join(plain), "not keyed"),
        (lambda: stream.interval_join("x"), "given a str"),
        (lambda: stream.interval_join(plain.key_by(int, Types.INT())), "keys of"),
        (lambda: joined.process(lambda left, right, ctx: None), "not a ProcessJoinFunction"),
        (lambda: joined.side_output_left_late_data("late"), "'late', not an OutputTag"),
        (lambda: joined.side_output_right_late_data("late"), "'late', not an OutputTag"),
    ):
        with pytest.raises(TypeMismatchError, match=seen):
            call()
    for bounds in ((5, 4), (Time.seconds(1), 999)):
        with pytest.raises(ConfigurationError, match="no pair fits"):
            stream.interval_join(stream).between(*bounds).process(Pair())
    with pytest.raises(ConfigurationError, match="from 1 to 0 ms"):
        stream.interval_join(stream).between(0, 0).lower_bound_exclusive().process(Pair())
    with pytest.raises(JobDefinitionError, match="different environments"):
        stream.interval_join(new_environment().from_collection([1]).key_by(str))
