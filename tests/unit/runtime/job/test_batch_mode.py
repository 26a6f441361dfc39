"""Programs in batch mode: results once, at the end; timers at the end; no late data."""

from __future__ import annotations

import pytest

from millstream.base.errors import JobDefinitionError
from millstream.base.time import MAX_TIMESTAMP, MIN_TIMESTAMP, Time
from millstream.common import Duration, Types, WatermarkStrategy
from millstream.common.watermark_strategy import TimestampAssigner
from millstream.datastream import KeyedProcessFunction, ProcessWindowFunction, RuntimeExecutionMode
from millstream.datastream.connectors.datagen import DataGeneratorSource
from millstream.datastream.connectors.number_seq import NumberSequenceSource
from millstream.datastream.window import (
    ContinuousEventTimeTrigger,
    ContinuousProcessingTimeTrigger,
    GlobalWindows,
    TumblingEventTimeWindows,
    TumblingProcessingTimeWindows,
)

RECORDS = [("a", 5, 1), ("b", 90, 2), ("a", 300, 4), ("b", 20, 8), ("a", 1, 16)]
NO_WATERMARKS = WatermarkStrategy.no_watermarks()


class Stamp(TimestampAssigner):
    def extract_timestamp(self, value, record_timestamp):
        return value[1]


STRICT = WatermarkStrategy.for_monotonous_timestamps().with_timestamp_assigner(Stamp())


def first(value):
    return value[0]


@pytest.fixture
def environment(new_environment):
    def make(mode="BATCH", records=1, parallelism=1):
        options = {"millstream.epoch.fixed-records": records, "execution.runtime-mode": mode}
        return new_environment("local", parallelism, options)

    return make


def collected(stream):
    with stream.execute_and_collect() as results:
        return list(results)


def test_rolling_reduce_gives_the_last_result_of_each_key_only(environment):
    stream = environment().from_collection([("a", 1), ("b", 2), ("a", 4)])
    assert collected(stream.key_by(first).sum(1)) == [("a", 5), ("b", 2)]
    assert collected(
        environment("STREAMING").from_collection([("a", 1), ("b", 2), ("a", 4)]).key_by(first).sum(1)
    ) == [("a", 1), ("b", 2), ("a", 5)]


@pytest.mark.parametrize(
    ("method", "expected"),
    [
        ("sum", [("a", 1, 21), ("b", 20, 10)]),
        ("min", [("a", 1, 1), ("b", 20, 2)]),
        ("max", [("a", 1, 16), ("b", 20, 8)]),
        ("min_by", [("a", 5, 1), ("b", 90, 2)]),
    ],
)
def test_rolling_aggregates_take_records_of_a_key_in_order_of_time(environment, method, expected):
    """Other fields are those of the first record: of a at 1, of b at 20."""
    stream = environment().from_collection(RECORDS).assign_timestamps_and_watermarks(STRICT)
    assert sorted(collected(getattr(stream.key_by(first), method)(2))) == expected


class Members(ProcessWindowFunction):
    def process(self, key, context, elements):
        yield key, context.window().start, [value for *_, value in elements]

    def clear(self, context):
        pass


def test_windows_fire_once_and_nothing_is_late(environment):
    """In streaming the record of b at 20, and of a at 1, come behind watermarks of 89 and 299."""

    def run(mode):
        stream = environment(mode).from_collection(RECORDS).assign_timestamps_and_watermarks(STRICT)
        windows = stream.key_by(first).window(TumblingEventTimeWindows.of(Time.milliseconds(100)))
        return sorted(collected(windows.process(Members())))

    assert run("BATCH") == [("a", 0, [16, 1]), ("a", 300, [4]), ("b", 0, [8, 2])]
    assert run("STREAMING") != run("BATCH")


class Timers(KeyedProcessFunction):
    """Sets a timer of each kind for each record; timers try to set others."""

    def process_element(self, value, ctx):
        yield "record", value[1], ctx.timer_service().current_watermark()
        ctx.timer_service().register_event_time_timer(value[1] + 1_000)
        ctx.timer_service().register_processing_time_timer(
            ctx.timer_service().current_processing_time() + 3_600_000 - value[1]
        )

    def on_timer(self, timestamp, ctx):
        yield (
            ctx.time_domain().name,
            timestamp if timestamp < 10**6 else "now",
            ctx.timer_service().current_watermark(),
        )
        ctx.timer_service().register_event_time_timer(timestamp + 1)
        ctx.timer_service().register_processing_time_timer(timestamp + 1)


def test_timers_of_both_kinds_fire_at_the_end_and_set_no_others(environment):
    stream = environment().from_collection(RECORDS[:3]).assign_timestamps_and_watermarks(STRICT)
    assert collected(stream.key_by(first).process(Timers())) == [
        ("record", 5, MIN_TIMESTAMP),
        ("record", 90, MIN_TIMESTAMP),
        ("record", 300, MIN_TIMESTAMP),
        ("EVENT_TIME", 1_005, MAX_TIMESTAMP),
        ("EVENT_TIME", 1_090, MAX_TIMESTAMP),
        ("EVENT_TIME", 1_300, MAX_TIMESTAMP),
        *[("PROCESSING_TIME", "now", MAX_TIMESTAMP)] * 3,
    ]


def test_results_of_timers_reach_later_operators_before_their_end(environment):
    class Remind(KeyedProcessFunction):
        def process_element(self, value, ctx):
            ctx.timer_service().register_processing_time_timer(10**15)

        def on_timer(self, timestamp, ctx):
            yield ctx.get_current_key(), 1

    stream = environment().from_collection(RECORDS).key_by(first).process(Remind())
    assert sorted(collected(stream.key_by(lambda value: "all").sum(1))) == [("a", 2)]


def joined(one, other):
    return (*one, *other[1:])


def test_results_of_a_rolling_reduce_have_the_time_of_their_last_record(environment):
    """So windows behind it hold them; Flink stamps them with the largest time there is."""
    stream = environment().from_collection(RECORDS).assign_timestamps_and_watermarks(STRICT)
    totals = stream.key_by(first).reduce(joined).key_by(first)
    windows = totals.window(TumblingEventTimeWindows.of(Time.milliseconds(100)))
    assert sorted(collected(windows.process(Starts()))) == [("a", 300), ("b", 0)]


class Starts(ProcessWindowFunction):
    def process(self, key, context, elements):
        yield key, context.window().start

    def clear(self, context):
        pass


def test_processing_time_windows_fire_at_the_end(environment):
    stream = environment().from_collection([("a", 1), ("b", 2), ("a", 4)]).key_by(first)
    windows = stream.window(TumblingProcessingTimeWindows.of(Time.days(7)))
    assert sorted(collected(windows.reduce(joined))) == [("a", 1, 4), ("b", 2)]


@pytest.mark.parametrize(
    ("trigger", "firings"),
    [
        (ContinuousProcessingTimeTrigger.of(Time.milliseconds(100)), 1),
        (ContinuousEventTimeTrigger.of(Time.milliseconds(100)), 2),
    ],
    ids=["processing time: its first timer", "event time: its first timer and the window's end"],
)
def test_trigger_that_sets_timers_for_ever_fires_those_of_its_records_only(environment, trigger, firings):
    stream = environment().from_collection([("a", 1), ("a", 4)]).assign_timestamps_and_watermarks(STRICT)
    windows = stream.key_by(first).window(GlobalWindows.create()).trigger(trigger)
    assert collected(windows.reduce(joined)) == [("a", 1, 4)] * firings


def test_stream_without_keys_is_not_held_back_or_sorted(environment):
    stream = environment().from_collection(RECORDS).assign_timestamps_and_watermarks(STRICT)
    assert collected(stream.map(lambda record: record[2])) == [1, 2, 4, 8, 16]


@pytest.mark.parametrize(
    ("mode", "bounded", "once"),
    [
        ("STREAMING", True, False),
        ("AUTOMATIC", True, True),
        ("BATCH", True, True),
        ("AUTOMATIC", False, False),
    ],
)
def test_automatic_is_batch_if_all_sources_are_bounded(environment, mode, bounded, once):
    env = environment(mode)
    source = NumberSequenceSource(1, 3) if bounded else DataGeneratorSource(int, 3 if bounded else None)
    numbers = env.from_source(source, NO_WATERMARKS, "numbers", Types.LONG())
    if not bounded:
        env._configuration.set_string("millstream.execution.max-epochs", "3")
    results = collected(numbers.key_by(lambda value: 0).reduce(lambda one, other: one + other))
    assert (len(results) == 1) is once


def test_unbounded_source_in_batch_mode_is_refused_before_anything_runs(environment):
    env = environment("BATCH")
    env.from_source(DataGeneratorSource(int, None), NO_WATERMARKS, "endless").print()
    with pytest.raises(JobDefinitionError, match='"endless" is unbounded(.|\n)*STREAMING or AUTOMATIC'):
        env.execute()


def test_mode_is_streaming_unless_said_otherwise_and_can_be_set_by_the_program(new_environment):
    numbers = [("a", 1), ("a", 2)]
    assert len(collected(new_environment().from_collection(numbers).key_by(first).sum(1))) == 2
    env = new_environment()
    env.set_runtime_mode(RuntimeExecutionMode.BATCH)
    assert collected(env.from_collection(numbers).key_by(first).sum(1)) == [("a", 3)]


def test_idleness_and_alignment_mean_nothing_in_batch_mode(environment):
    strategy = STRICT.with_idleness(Duration.of_millis(1)).with_watermark_alignment(
        "g", Duration.of_millis(0)
    )
    stream = environment().from_collection(RECORDS).assign_timestamps_and_watermarks(strategy)
    assert len(collected(stream.key_by(first).sum(2))) == 2
