"""Joins give what a nested loop over all pairs gives, and SQL: for any epochs, parallelism and order in the bound."""

from __future__ import annotations

import duckdb
from hypothesis import given, settings
from hypothesis import strategies as st

from batch_forms import in_each_form
from millstream.base.time import Time
from millstream.common import Duration, WatermarkStrategy
from millstream.common.watermark_strategy import TimestampAssigner
from millstream.datastream.functions import CoGroupFunction, FlatJoinFunction, ProcessJoinFunction
from millstream.datastream.window import (
    EventTimeSessionWindows,
    SlidingEventTimeWindows,
    TumblingEventTimeWindows,
)

BOUND_MS = 50
SIZE_MS = 100


class Stamp(TimestampAssigner):
    def extract_timestamp(self, value, record_timestamp):
        return value[1]


def key_of(record):
    return record[0]


def arrivals(min_size=0):
    record = st.tuples(st.sampled_from("abc"), st.integers(0, 600), st.integers(0, 3))
    jittered = st.lists(st.tuples(record, st.integers(0, BOUND_MS)), min_size=min_size, max_size=25)
    # A record is overtaken only by those at most BOUND_MS later, so none is late.
    return jittered.map(
        lambda pairs: [each for each, _ in sorted(pairs, key=lambda pair: pair[0][1] + pair[1])]
    )


STREAMS = st.tuples(arrivals(min_size=1), arrivals(min_size=1))
PARALLELISM = st.integers(1, 3)
EPOCH_RECORDS = st.integers(1, 15)


def streams(environment, sources):
    strategy = WatermarkStrategy.for_bounded_out_of_orderness(
        Duration.of_millis(BOUND_MS)
    ).with_timestamp_assigner(Stamp())
    return [
        environment.from_collection(records).assign_timestamps_and_watermarks(strategy) for records in sources
    ]


def collect(stream):
    with stream.execute_and_collect() as results:
        return sorted(results)


def sql(query, left, right):
    """Run a query over the tables l and r with columns k, t, v and n, the record's number."""
    with duckdb.connect(":memory:") as connection:
        for name, records in (("l", left), ("r", right)):
            connection.execute(f"create table {name} (k varchar, t bigint, v bigint, n bigint)")
            connection.executemany(
                f"insert into {name} values (?, ?, ?, ?)", [(*each, n) for n, each in enumerate(records)]
            )
        return sorted(connection.execute(query).fetchall())


class Pair(ProcessJoinFunction):
    def process_element(self, left, right, ctx):
        yield left[0], left[1], left[2], right[1], right[2], ctx.get_timestamp()


@settings(max_examples=25, deadline=None)
@given(STREAMS, st.integers(-120, 120), st.integers(0, 200), PARALLELISM, EPOCH_RECORDS, st.booleans())
@in_each_form
def test_interval_join(new_environment, sources, lower, width, parallelism, epoch_records, exclusive):
    environment = new_environment("local", parallelism, {"millstream.epoch.fixed-records": epoch_records})
    first, second = streams(environment, sources)
    upper = lower + width + 2
    joined = first.key_by(key_of).interval_join(second.key_by(key_of)).between(lower, upper)
    if exclusive:
        joined = joined.lower_bound_exclusive().upper_bound_exclusive()
    results = collect(joined.process(Pair()))
    nested = []
    for key, stamp, value in sources[0]:
        for key2, stamp2, value2 in sources[1]:
            difference = stamp2 - stamp
            inside = lower < difference < upper if exclusive else lower <= difference <= upper
            if key == key2 and inside:
                nested.append((key, stamp, value, stamp2, value2, max(stamp, stamp2)))
    assert results == sorted(nested)
    condition = f"r.t - l.t > {lower} and r.t - l.t < {upper}"
    if not exclusive:
        condition = f"r.t - l.t between {lower} and {upper}"
    query = f"select k, l.t, l.v, r.t, r.v, greatest(l.t, r.t) from l join r using (k) where {condition}"
    assert results == sql(query, *sources)


class Both(FlatJoinFunction):
    def join(self, first, second):
        yield first[0], first[1], first[2], second[1], second[2]


@settings(max_examples=25, deadline=None)
@given(STREAMS, st.sampled_from(["tumbling", "sliding"]), PARALLELISM, EPOCH_RECORDS)
@in_each_form
def test_window_join(new_environment, sources, kind, parallelism, epoch_records):
    environment = new_environment("local", parallelism, {"millstream.epoch.fixed-records": epoch_records})
    first, second = streams(environment, sources)
    size, slide = Time.milliseconds(SIZE_MS), SIZE_MS
    assigner = TumblingEventTimeWindows.of(size)
    if kind == "sliding":
        slide = SIZE_MS // 2
        assigner = SlidingEventTimeWindows.of(size, Time.milliseconds(slide))
    results = collect(first.join(second).where(key_of).equal_to(key_of).window(assigner).apply(Both()))
    nested = []
    for start in range(-SIZE_MS, 700, slide):
        for left in sources[0]:
            for right in sources[1]:
                same = left[0] == right[0]
                if same and start <= left[1] < start + SIZE_MS and start <= right[1] < start + SIZE_MS:
                    nested.append((*left, *right[1:]))
    assert results == sorted(nested)
    starts = f"(select unnest(range(-{SIZE_MS}, 700, {slide})) as s) w"
    inside = " and ".join(f"{side}.t >= w.s and {side}.t < w.s + {SIZE_MS}" for side in "lr")
    assert results == sql(
        f"select k, l.t, l.v, r.t, r.v from l join r using (k), {starts} where {inside}", *sources
    )


class Sides(CoGroupFunction):
    def co_group(self, first, second):
        sides = sorted(first), sorted(second)
        key = (sides[0] or sides[1])[0][0]
        yield key, *(tuple(tuple(each[1:]) for each in side) for side in sides)


@settings(max_examples=25, deadline=None)
@given(STREAMS, PARALLELISM, EPOCH_RECORDS)
@in_each_form
def test_co_group(new_environment, sources, parallelism, epoch_records):
    environment = new_environment("local", parallelism, {"millstream.epoch.fixed-records": epoch_records})
    first, second = streams(environment, sources)
    assigner = TumblingEventTimeWindows.of(Time.milliseconds(SIZE_MS))
    results = collect(first.co_group(second).where(key_of).equal_to(key_of).window(assigner).apply(Sides()))
    nested = []
    for key, window in {(key, stamp // SIZE_MS) for records in sources for key, stamp, _ in records}:
        nested.append(
            (
                key,
                *(
                    tuple(
                        sorted(each[1:] for each in records if (each[0], each[1] // SIZE_MS) == (key, window))
                    )
                    for records in sources
                ),
            )
        )
    assert results == sorted(nested)
    grouped = "select k, t // 100 as w, list((t, v) order by t, v) as g from {} group by all"
    query = (
        f"select coalesce(a.k, b.k), a.g, b.g from ({grouped.format('l')}) a "
        f"full join ({grouped.format('r')}) b on a.k = b.k and a.w = b.w"
    )
    assert results == sorted(
        (key, *(tuple(side or ()) for side in both)) for key, *both in sql_unsorted(query, *sources)
    )


def sql_unsorted(query, left, right):
    with duckdb.connect(":memory:") as connection:
        for name, records in (("l", left), ("r", right)):
            connection.execute(f"create table {name} (k varchar, t bigint, v bigint)")
            connection.executemany(f"insert into {name} values (?, ?, ?)", records)
        return connection.execute(query).fetchall()


@settings(max_examples=15, deadline=None)
@given(STREAMS, PARALLELISM, EPOCH_RECORDS)
@in_each_form
def test_session_join_pairs_records_of_one_merged_session(
    new_environment, sources, parallelism, epoch_records
):
    environment = new_environment("local", parallelism, {"millstream.epoch.fixed-records": epoch_records})
    first, second = streams(environment, sources)
    windows = EventTimeSessionWindows.with_gap(Time.milliseconds(20))
    results = collect(first.join(second).where(key_of).equal_to(key_of).window(windows).apply(Both()))
    nested = []
    for key in "abc":
        stamps = sorted(stamp for records in sources for own, stamp, _ in records if own == key)
        sessions, session = {}, 0
        for before, stamp in zip([None, *stamps], stamps):
            session += before is not None and stamp - before > 20
            sessions[stamp] = session
        nested += [
            (*left, *right[1:])
            for left in sources[0]
            for right in sources[1]
            if left[0] == right[0] == key and sessions[left[1]] == sessions[right[1]]
        ]
    assert results == sorted(nested)


def test_record_beyond_the_bound_is_left_out_so_the_watermark_is_not_simply_ignored(new_environment):
    environment = new_environment("local", 1, {"millstream.epoch.fixed-records": 1})
    late = [("a", 10, 1), ("a", 500, 1), ("a", 20, 2)], [("a", 10, 1), ("a", 500, 1), ("a", 500, 2)]
    first, second = streams(environment, late)
    results = collect(
        first.key_by(key_of).interval_join(second.key_by(key_of)).between(-20, 20).process(Pair())
    )
    assert [(left, right) for _, left, _, right, _, _ in results] == [(10, 10), (500, 500), (500, 500)]
