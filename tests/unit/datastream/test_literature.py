"""Worked examples of the literature on stream processing, with several streams and timers, as programs."""

from __future__ import annotations

from datetime import UTC, datetime

from millstream.base.time import MIN_TIMESTAMP, Time
from millstream.common import Duration, Types, WatermarkStrategy
from millstream.common.watermark_strategy import TimestampAssigner
from millstream.datastream import (
    CoFlatMapFunction,
    KeyedBroadcastProcessFunction,
    KeyedProcessFunction,
    ProcessFunction,
    ProcessJoinFunction,
)
from millstream.datastream.state import MapStateDescriptor, ValueStateDescriptor

ONE_BY_ONE = {"millstream.epoch.fixed-records": 1}


def clock(text):
    """Epoch milliseconds of a time of day."""
    time = datetime.strptime(f"2024-01-01 {text}", "%Y-%m-%d %H:%M:%S")
    return int(time.replace(tzinfo=UTC).timestamp() * 1000)


class Stamp(TimestampAssigner):
    def extract_timestamp(self, value, record_timestamp):
        return value[1]


def stamped(environment, records, delay_ms):
    strategy = WatermarkStrategy.for_bounded_out_of_orderness(Duration.of_millis(delay_ms))
    stream = environment.from_collection(records).assign_timestamps_and_watermarks(
        strategy.with_timestamp_assigner(Stamp())
    )
    return stream.set_parallelism(1)


def collect(stream):
    with stream.execute_and_collect() as results:
        return list(results)


class TellWatermark(ProcessFunction):
    """Tells the watermark that a record finds: the one after the record before it."""

    def process_element(self, value, ctx):
        yield value[1], ctx.timer_service().current_watermark()


class Pair(ProcessJoinFunction):
    def process_element(self, left, right, ctx):
        yield left[1], right[1], ctx.get_timestamp()


A = ["12:29:50", "12:29:55", "12:29:45", "12:30:05"]
W = ["12:29:52", "12:29:58", "12:29:48", "12:30:08"]


def test_interval_join_of_a_minute_pairs_all_of_a_and_w(new_environment):
    environment = new_environment("local", 1, ONE_BY_ONE)
    a, w = (
        stamped(environment, [("key", clock(each)) for each in times], delay_ms=10_000) for times in (A, W)
    )
    a, w = (stream.key_by(lambda record: record[0]) for stream in (a, w))
    results = collect(a.interval_join(w).between(Time.seconds(-60), Time.seconds(60)).process(Pair()))
    assert len(results) == 16
    assert sorted(results) == sorted(
        (clock(left), clock(right), max(clock(left), clock(right))) for left in A for right in W
    )


def test_watermarks_of_a_and_w_are_ten_seconds_behind_the_latest_record(new_environment):
    # A record finds the watermark of those before it; each is 1 ms less than the strategy's ten seconds.
    expected = [
        (A, [None, "12:29:40", "12:29:45", "12:29:45"]),
        (W, [None, "12:29:42", "12:29:48", "12:29:48"]),
    ]
    for times, watermarks in expected:
        records = [("key", clock(each)) for each in times]
        stream = stamped(new_environment("local", 1, ONE_BY_ONE), records, 10_000)
        assert collect(stream.process(TellWatermark())) == [
            (clock(time), MIN_TIMESTAMP if mark is None else clock(mark) - 1)
            for time, mark in zip(times, watermarks, strict=True)
        ]


def test_watermark_of_out_of_order_events_does_not_go_back(new_environment):
    times = ["12:30:10", "12:30:20", "12:30:08", "12:30:30", "12:30:05", "12:30:35", "12:30:36"]
    stream = stamped(
        new_environment("local", 1, ONE_BY_ONE), [("key", clock(each)) for each in times], 10_000
    )
    found = [mark for _, mark in collect(stream.process(TellWatermark()))]
    marks = ["12:30:00", "12:30:10", "12:30:10", "12:30:20", "12:30:20", "12:30:25"]
    assert found == [MIN_TIMESTAMP, *(clock(mark) - 1 for mark in marks)]


class RaiseAlert(CoFlatMapFunction):
    """Alerts of hot sensors while the smoke level is high."""

    smoke = "low"

    def flat_map1(self, value):
        sensor, temperature = value
        if self.smoke == "high" and temperature > 100:
            yield f"Risk of fire! {sensor}: {temperature}"

    def flat_map2(self, value):
        self.smoke = value


def test_smoke_level_and_temperature_raise_alerts_together(new_environment):
    environment = new_environment("local", 3, ONE_BY_ONE)
    temperatures = [("s1", 120), ("s2", 80), ("s1", 130), ("s3", 101), ("s3", 90), ("s2", 140), ("s1", 150)]
    levels = ["low", "low", "high", "high", "high", "low", "low"]
    readings = environment.from_collection(temperatures).key_by(lambda reading: reading[0])
    smoke = environment.from_collection(levels)
    alerts = collect(readings.connect(smoke.broadcast()).flat_map(RaiseAlert(), Types.STRING()))
    # One of each in an epoch, the first input first: a reading meets the smoke level of the epoch before.
    # smoke        low low low high high high low
    assert sorted(alerts) == ["Risk of fire! s2: 140", "Risk of fire! s3: 101"]


class RisesForASecond(KeyedProcessFunction):
    """Alerts if a sensor's temperature rises for a second without a drop."""

    def open(self, runtime_context):
        self.last = runtime_context.get_state(ValueStateDescriptor("last", Types.DOUBLE()))
        self.timer = runtime_context.get_state(ValueStateDescriptor("timer", Types.LONG()))

    def process_element(self, value, ctx):
        before, timer = self.last.value(), self.timer.value()
        self.last.update(value[2])
        if before is None or value[2] < before:
            if timer is not None:
                ctx.timer_service().delete_event_time_timer(timer)
                self.timer.clear()
        elif value[2] > before and timer is None:
            self.timer.update(ctx.timestamp() + 1_000)
            ctx.timer_service().register_event_time_timer(ctx.timestamp() + 1_000)

    def on_timer(self, timestamp, ctx):
        self.timer.clear()
        yield ctx.get_current_key(), timestamp


def test_temperature_that_rises_for_a_second_raises_an_alert_by_timer(new_environment):
    rising = [("up", time, 20.0 + time / 1_000) for time in range(0, 2_100, 100)]
    dropping = [("saw", time, 30.0 - time % 400) for time in range(50, 2_150, 100)]
    records = sorted(rising + dropping, key=lambda record: record[1])
    for epoch_records in (1, 7, 1_000):
        environment = new_environment("local", 2, {"millstream.epoch.fixed-records": epoch_records})
        stream = stamped(environment, records, 0).key_by(lambda record: record[0])
        alerts = collect(stream.process(RisesForASecond()))
        # up rises from 100 on: a second later an alert, and a new timer by the next record.
        assert next(alert for alert in alerts if alert[0] == "up") == ("up", 1_100)
        assert all(sensor == "up" for sensor, time in alerts if time <= 2_000)


class SelfCleaning(KeyedProcessFunction):
    """Tells jumps of temperature, and forgets a sensor that was silent for an hour."""

    HOUR_MS = 3_600_000

    def open(self, runtime_context):
        self.last = runtime_context.get_state(ValueStateDescriptor("last"))
        self.timer = runtime_context.get_state(ValueStateDescriptor("timer"))

    def process_element(self, value, ctx):
        due = ctx.timestamp() + self.HOUR_MS
        if self.timer.value() is not None:
            ctx.timer_service().delete_event_time_timer(self.timer.value())
        ctx.timer_service().register_event_time_timer(due)
        self.timer.update(due)
        before = self.last.value()
        self.last.update(value[2])
        if before is not None and abs(value[2] - before) > 10:
            yield "jump", value[0], before, value[2]

    def on_timer(self, timestamp, ctx):
        yield "forgotten", ctx.get_current_key(), timestamp, self.last.value()
        self.last.clear()
        self.timer.clear()


def test_self_cleaning_timers_forget_silent_keys_once(new_environment):
    minute = 60_000
    records = [
        ("s1", 0, 20),
        ("s1", 30 * minute, 40),
        ("s2", 40 * minute, 5),
        ("s1", 89 * minute, 41),
        ("tick", 100 * minute + 1, 0),
        ("s2", 101 * minute, 50),
        ("tick", 149 * minute + 1, 0),
        ("s1", 150 * minute, 99),
    ]
    stream = stamped(new_environment("local", 2, ONE_BY_ONE), records, 0).key_by(lambda record: record[0])
    results = collect(stream.process(SelfCleaning()))
    assert sorted(results) == [
        ("forgotten", "s1", 149 * minute, 41),
        ("forgotten", "s1", 210 * minute, 99),
        ("forgotten", "s2", 100 * minute, 5),
        ("forgotten", "s2", 161 * minute, 50),
        ("forgotten", "tick", 209 * minute + 1, 0),
        ("jump", "s1", 20, 40),
    ]


THRESHOLDS = MapStateDescriptor("thresholds", Types.STRING(), Types.DOUBLE())


class DynamicThresholds(KeyedBroadcastProcessFunction):
    """Tells changes of temperature above each sensor's threshold, which may change."""

    def open(self, runtime_context):
        self.last = runtime_context.get_state(ValueStateDescriptor("last"))

    def process_element(self, value, ctx):
        thresholds = ctx.get_broadcast_state(THRESHOLDS)
        sensor, temperature = value
        before = self.last.value()
        if sensor in thresholds and before is not None and abs(temperature - before) > thresholds[sensor]:
            yield sensor, before, temperature
        self.last.update(temperature)

    def process_broadcast_element(self, value, ctx):
        sensor, threshold = value
        thresholds = ctx.get_broadcast_state(THRESHOLDS)
        if threshold == 0:
            thresholds.remove(sensor)
        else:
            thresholds.put(sensor, threshold)


NO_RULE = ("none", 1.0)


def test_dynamic_thresholds_by_broadcast_state(new_environment):
    # One rule and one reading in each epoch, the rule first.
    steps = [
        (NO_RULE, ("s1", 20.0)),
        (("s2", 100.0), ("s2", 20.0)),
        (NO_RULE, ("s1", 24.0)),
        (("s1", 5.0), ("s1", 30.0)),
        (NO_RULE, ("s2", 30.0)),
        (NO_RULE, ("s1", 36.0)),
        (("s1", 10.0), ("s1", 42.0)),
        (NO_RULE, ("s1", 53.0)),
        (("s2", 1.0), ("s2", 31.5)),
        (("s1", 0), ("s1", 99.0)),
    ]
    rules, readings = zip(*steps, strict=True)
    for parallelism in (1, 2, 3):
        environment = new_environment("local", parallelism, ONE_BY_ONE)
        data = environment.from_collection(list(readings)).key_by(lambda reading: reading[0])
        thresholds = environment.from_collection(list(rules)).broadcast(THRESHOLDS)
        alerts = collect(data.connect(thresholds).process(DynamicThresholds()))
        assert alerts == [("s1", 24.0, 30.0), ("s1", 30.0, 36.0), ("s1", 42.0, 53.0), ("s2", 30.0, 31.5)]
