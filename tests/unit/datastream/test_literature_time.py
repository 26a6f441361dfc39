"""Worked examples of the literature on event time, one record in each epoch as the examples tell them."""

from __future__ import annotations

from datetime import UTC, datetime

import pytest

from millstream.base.clock import ManualClock
from millstream.base.time import MAX_TIMESTAMP, MIN_TIMESTAMP
from millstream.common import Duration, WatermarkStrategy
from millstream.common.watermark_strategy import TimestampAssigner, WatermarkGenerator
from millstream.datastream import KeyedProcessFunction, ProcessFunction
from millstream.datastream.connectors.datagen import DataGeneratorSource, RateLimiterStrategy
from millstream.graph.launcher import set_launcher_override
from millstream.runtime.job.launcher import DefaultLauncher

ONE_RECORD = {"millstream.epoch.fixed-records": 1}


def at(clock: str) -> int:
    """Return a time of the day of the examples in epoch milliseconds."""
    hours, minutes, seconds = map(int, clock.split(":"))
    return round(datetime(2024, 3, 1, hours, minutes, seconds, tzinfo=UTC).timestamp() * 1000)


def clock(timestamp_ms: int) -> str:
    """Return a watermark as the examples write it: a bound of 10 s means max - 10 s, less a millisecond."""
    if timestamp_ms == MIN_TIMESTAMP:
        return "-"
    return f"{datetime.fromtimestamp((timestamp_ms + 1) / 1000, UTC):%H:%M:%S}"


class Stamp(TimestampAssigner):
    def extract_timestamp(self, value, record_timestamp):
        return value[1]


class WatermarkSeen(ProcessFunction):
    """Yields each record with the watermark that it sees: the one from before it."""

    def process_element(self, value, ctx):
        yield value[0], clock(ctx.timer_service().current_watermark())


TEN_SECONDS = WatermarkStrategy.for_bounded_out_of_orderness(Duration.of_seconds(10)).with_timestamp_assigner(
    Stamp()
)


def collected(stream):
    with stream.execute_and_collect() as results:
        return list(results)


def test_bounded_out_of_orderness_of_ten_seconds(new_environment):
    """Each record sees the watermark behind the record before it; 12:30:08 and 12:30:05 change nothing."""
    times = ["12:30:10", "12:30:20", "12:30:08", "12:30:30", "12:30:05", "12:30:35", "12:30:35"]
    stream = new_environment(options=ONE_RECORD).from_collection([(time, at(time)) for time in times])
    seen = collected(stream.assign_timestamps_and_watermarks(TEN_SECONDS).process(WatermarkSeen()))
    assert [time for time, _ in seen] == times
    assert [watermark for _, watermark in seen[1:]] == [
        "12:30:00",
        "12:30:10",
        "12:30:10",
        "12:30:20",
        "12:30:20",
        "12:30:25",
    ]
    assert seen[0] == ("12:30:10", "-")


@pytest.mark.parametrize(
    ("times", "watermarks"),
    [
        (["12:29:50", "12:29:55", "12:29:45", "12:30:05"], ["12:29:40", "12:29:45", "12:29:45", "12:29:55"]),
        (["12:29:52", "12:29:58", "12:29:48", "12:30:08"], ["12:29:42", "12:29:48", "12:29:48", "12:29:58"]),
    ],
)
def test_watermarks_of_the_two_streams_of_the_interval_join(new_environment, times, watermarks):
    records = [(time, at(time)) for time in [*times, "13:00:00"]]
    stream = new_environment(options=ONE_RECORD).from_collection(records)
    seen = collected(stream.assign_timestamps_and_watermarks(TEN_SECONDS).process(WatermarkSeen()))
    assert [watermark for _, watermark in seen[1:]] == watermarks


def test_watermark_of_two_streams_together_is_that_of_the_slower(new_environment):
    """::

    A   :50 -> 12:29:40    :55 -> 12:29:45    :56
    W   :52 -> 12:29:42    :40 -> 12:29:42    :41 | end
    """
    environment = new_environment(options=ONE_RECORD)
    streams = [
        environment.from_collection([(name, at(time)) for time in times]).assign_timestamps_and_watermarks(
            TEN_SECONDS
        )
        for name, times in {
            "A": ["12:29:50", "12:29:55", "12:29:56"],
            "W": ["12:29:52", "12:29:40", "12:29:41"],
        }.items()
    ]
    seen = collected(streams[0].union(streams[1]).process(WatermarkSeen()))
    assert seen == [
        ("A", "-"),
        ("W", "-"),
        ("A", "12:29:40"),
        ("W", "12:29:42"),
        ("W", "12:29:42"),
        ("A", "12:29:45"),  # W has ended
    ]


@pytest.fixture
def manual_clock():
    clock = ManualClock(at("12:00:00"))
    before = set_launcher_override(DefaultLauncher(clock))
    yield clock
    set_launcher_override(before)


def beats(index):
    """Give one record a second, stamped with its own second."""
    return "fast", at("12:00:00") + index * 1000


def hours(index):
    """Give one record an hour."""
    return "slow", at("12:00:00") + index * 3_600_000


def rated(function, per_second):
    return DataGeneratorSource(function, None, RateLimiterStrategy.per_second(per_second))


def union_with_silent(environment, strategy):
    """Join a stream of one record a second with one that gives a single record and then none."""
    fast = environment.from_source(
        DataGeneratorSource(beats, None, RateLimiterStrategy.per_second(1)), TEN_SECONDS, "fast"
    )
    slow = environment.from_source(rated(hours, 1 / 3600), strategy, "slow")
    return fast.union(slow)


def run_for(environment, stream, epochs):
    environment._configuration.set_string("millstream.execution.max-epochs", str(epochs))
    return collected(stream.process(WatermarkSeen()))


def test_idle_stream_holds_the_watermark_back_for_ever_without_idleness(new_environment, manual_clock):
    environment = new_environment()
    seen = run_for(environment, union_with_silent(environment, TEN_SECONDS), 60)
    assert len(seen) > 30
    assert {watermark for _, watermark in seen} == {"-", "11:59:50"}


def test_idle_stream_holds_the_watermark_until_idleness_releases_it(new_environment, manual_clock):
    """Silent for 15 s, the slow stream is idle: the watermark is that of the fast one, 10 s behind it."""
    environment = new_environment()
    idle = TEN_SECONDS.with_idleness(Duration.of_seconds(15))
    seen = run_for(environment, union_with_silent(environment, idle), 40)
    marks = [watermark for name, watermark in seen if name == "fast"]
    held = [index for index, mark in enumerate(marks) if mark == "11:59:50"]
    assert len(held) >= 13
    released = marks[held[-1] + 1 :]
    assert len(released) >= 10
    # Record i sees the watermark of record i - 1, ten seconds behind it.
    expected = [clock(beats(held[-1] + 1 + index)[1] - 1_000 - 10_000 - 1) for index in range(len(released))]
    assert released == expected


class Alarms(KeyedProcessFunction):
    """Registers timers twice, and deletes one."""

    def process_element(self, value, ctx):
        timers = ctx.timer_service()
        timers.register_event_time_timer(value[1] + 5)
        timers.register_event_time_timer(value[1] + 5)
        timers.register_event_time_timer(value[1] + 7)
        timers.delete_event_time_timer(value[1] + 7)

    def on_timer(self, timestamp, ctx):
        yield ctx.get_current_key(), timestamp, ctx.timer_service().current_watermark()


def test_timers_coalesce_by_key_and_time_and_those_deleted_never_fire(new_environment):
    stream = new_environment(options=ONE_RECORD).from_collection(
        [("a", 1), ("a", 1), ("b", 1), ("a", 9), ("a", 9)]
    )
    monotonous = WatermarkStrategy.for_monotonous_timestamps().with_timestamp_assigner(Stamp())
    keyed = stream.assign_timestamps_and_watermarks(monotonous).key_by(lambda value: value[0])
    assert collected(keyed.process(Alarms())) == [("a", 6, 8), ("b", 6, 8), ("a", 14, MAX_TIMESTAMP)]


def test_assigner_given_with_a_source_is_honoured(new_environment):
    """PyFlink ignores it silently."""
    environment = new_environment(options=ONE_RECORD)
    source = DataGeneratorSource(lambda index: (index, at("12:30:10") + 10_000 * index), 3)
    seen = collected(environment.from_source(source, TEN_SECONDS, "numbers").process(WatermarkSeen()))
    assert seen == [(0, "-"), (1, "12:30:00"), (2, "12:30:10")]


class OnMarker(WatermarkGenerator):
    """Emits where a record says so."""

    def on_event(self, value, timestamp_ms, output):
        if value[0] == "marker":
            output.emit_watermark(timestamp_ms - 1)

    def on_periodic_emit(self, output):
        pass


@pytest.mark.parametrize("epoch_records", [1, 2, 100])
def test_punctuated_watermarks_do_not_depend_on_epochs(new_environment, epoch_records):
    environment = new_environment(options={"millstream.epoch.fixed-records": epoch_records})
    records = [
        ("x", at("12:00:05")),
        ("marker", at("12:00:07")),
        ("y", at("12:00:06")),
        ("z", at("12:00:09")),
    ]
    strategy = WatermarkStrategy.for_generator(OnMarker).with_timestamp_assigner(Stamp())
    stream = environment.from_collection(records).assign_timestamps_and_watermarks(strategy)
    assert collected(stream.process(WatermarkSeen())) == [
        ("x", "-"),
        ("marker", "-"),
        ("y", "12:00:07"),
        ("z", "12:00:07"),
    ]


def test_strategy_further_down_replaces_timestamps_and_watermarks(new_environment):
    """The first strategy's watermark, far ahead, is swallowed; the second's counts."""

    class Ahead(TimestampAssigner):
        def extract_timestamp(self, value, record_timestamp):
            return value[1] + 3_600_000

    environment = new_environment(options=ONE_RECORD)
    ahead = WatermarkStrategy.for_monotonous_timestamps().with_timestamp_assigner(Ahead())
    stream = environment.from_collection(
        [("a", at("12:30:10")), ("b", at("12:30:20")), ("c", at("12:30:30"))]
    )
    again = stream.assign_timestamps_and_watermarks(ahead).map(lambda value: value)
    seen = collected(again.assign_timestamps_and_watermarks(TEN_SECONDS).process(WatermarkSeen()))
    assert seen == [("a", "-"), ("b", "12:30:00"), ("c", "12:30:10")]
