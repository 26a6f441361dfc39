"""A generator that emits at each record gives the same results whether batches are cut at its watermarks or not."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from batch_forms import FORMS, in_form
from millstream.base.time import Time
from millstream.common import WatermarkStrategy
from millstream.common.watermark_strategy import TimestampAssigner, WatermarkGenerator
from millstream.datastream import KeyedProcessFunction, OutputTag, ProcessWindowFunction
from millstream.datastream.window import (
    EventTimeSessionWindows,
    SlidingEventTimeWindows,
    TumblingEventTimeWindows,
)
from millstream.runtime.task.outputs import ChainOutput
from millstream.spi.batch import Watermark

LATE = OutputTag("late")


class Stamp(TimestampAssigner):
    def extract_timestamp(self, value, record_timestamp):
        return value[1]


class AtEachRecord(WatermarkGenerator):
    """Trails the latest record by 20 ms, at once."""

    def __init__(self):
        self.latest_ms = -1_000

    def on_event(self, value, timestamp_ms, output):
        if timestamp_ms > self.latest_ms:
            self.latest_ms = timestamp_ms
            output.emit_watermark(timestamp_ms - 20)

    def on_periodic_emit(self, output):
        pass


class Numbers(ProcessWindowFunction):
    def process(self, key, context, elements):
        yield "window", key, context.window().start, [number for _, _, number in elements]


class Timed(KeyedProcessFunction):
    """Tells the watermark that each record sees, and the sum that each timer sees."""

    def open(self, runtime_context):
        self.sums = {}

    def process_element(self, value, ctx):
        key, time, number = value
        self.sums[key] = self.sums.get(key, 0) + number
        ctx.timer_service().register_event_time_timer(time + 30)
        yield "seen", key, time, ctx.timer_service().current_watermark()

    def on_timer(self, timestamp, ctx):
        yield "timer", ctx.get_current_key(), timestamp, self.sums[ctx.get_current_key()]


def run(environment, records):
    """One subtask makes the watermarks: how far two of them are apart when one has ended is a matter of time."""
    strategy = WatermarkStrategy.for_generator(AtEachRecord).with_timestamp_assigner(Stamp())
    stamped = environment.from_collection(records).assign_timestamps_and_watermarks(strategy)
    stamped.set_parallelism(1)
    mapped = stamped.map(lambda record: (record[0], record[1], record[2] + 1)).set_parallelism(1)
    stream = mapped.filter(lambda record: record[2] % 5).set_parallelism(1)
    keyed = stream.key_by(lambda record: record[0])
    hours = (
        keyed.window(TumblingEventTimeWindows.of(Time.milliseconds(50)))
        .side_output_late_data(LATE)
        .process(Numbers())
    )
    late = hours.get_side_output(LATE).map(lambda record: ("late", *record))
    sums = (
        keyed.window(SlidingEventTimeWindows.of(Time.milliseconds(60), Time.milliseconds(20)))
        .allowed_lateness(15)
        .reduce(lambda left, right: (left[0], left[1], left[2] + right[2]))
        .map(lambda record: ("sum", *record))
    )
    sessions = keyed.window(EventTimeSessionWindows.with_gap(Time.milliseconds(15))).process(Numbers())
    again = (
        hours.key_by(lambda made: made[1])
        .window(TumblingEventTimeWindows.of(Time.milliseconds(100)))
        .reduce(lambda left, right: ("again", *left[1:3], left[3] + right[3]))
    )
    every = hours.union(late, sums, sessions, again, keyed.process(Timed()))
    with every.execute_and_collect() as results:
        return sorted(results, key=repr)


def cut_at_watermarks(emit):
    def emit_in_pieces(output, batch):
        for piece in batch.pieces():
            if isinstance(piece, Watermark):
                output.emit_watermark(piece.timestamp_ms)
            else:
                emit(output, piece)

    return emit_in_pieces


RECORDS = st.lists(
    st.tuples(st.sampled_from("abcd"), st.integers(0, 300), st.integers(0, 9)), min_size=1, max_size=60
)


@pytest.mark.slow
@settings(max_examples=25)
@given(RECORDS, st.integers(1, 3), st.integers(1, 70))
def test_results_are_the_same_as_of_batches_cut_at_each_watermark(
    new_environment, records, parallelism, epoch_records
):
    records = sorted(records, key=lambda record: record[1] + 9 * record[2])
    for form in FORMS:
        outputs = []
        with in_form(form), pytest.MonkeyPatch.context() as patch:
            for emit in (ChainOutput.emit, cut_at_watermarks(ChainOutput.emit)):
                patch.setattr(ChainOutput, "emit", emit)
                options = {"millstream.epoch.fixed-records": epoch_records}
                outputs.append(run(new_environment("local", parallelism, options), records))
        assert outputs[0] == outputs[1], form


@pytest.mark.spark
def test_they_travel_between_processes(new_environment):
    records = [("abcd"[n % 4], n + (n * 7) % 31, n % 10) for n in range(400)]
    assert run(new_environment("local[2]", 2), records) == run(new_environment("local", 1), records)
