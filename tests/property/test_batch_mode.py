"""The same program in batch and in streaming mode comes to the same totals."""

from __future__ import annotations

from hypothesis import given, settings
from hypothesis import strategies as st

from batch_forms import in_each_form
from millstream.base.time import Time
from millstream.common import Duration, WatermarkStrategy
from millstream.common.watermark_strategy import TimestampAssigner
from millstream.datastream import ProcessWindowFunction
from millstream.datastream.window import TumblingEventTimeWindows

RECORDS = st.lists(
    st.tuples(st.sampled_from("abcd"), st.integers(0, 500), st.integers(-9, 9)), min_size=1, max_size=40
)


class Stamp(TimestampAssigner):
    def extract_timestamp(self, value, record_timestamp):
        return value[1]


class Total(ProcessWindowFunction):
    def process(self, key, context, elements):
        yield key, context.window().start, sum(value for *_, value in elements)

    def clear(self, context):
        pass


def run(make, mode, build, records, parallelism, epoch_records):
    options = {"millstream.epoch.fixed-records": epoch_records, "execution.runtime-mode": mode}
    environment = make("local", parallelism, options)
    # No record is late in streaming either.
    strategy = WatermarkStrategy.for_bounded_out_of_orderness(Duration.of_millis(500))
    stream = environment.from_collection(records).assign_timestamps_and_watermarks(
        strategy.with_timestamp_assigner(Stamp())
    )
    with build(stream.key_by(lambda record: record[0])).execute_and_collect() as results:
        return list(results)


@settings(max_examples=20, deadline=None)
@given(RECORDS, st.integers(1, 3), st.integers(1, 15))
@in_each_form
def test_last_results_of_a_rolling_reduce_are_those_of_batch_mode(
    new_environment, records, parallelism, epoch_records
):
    def build(keyed):
        return keyed.reduce(lambda one, other: (one[0], 0, one[2] + other[2])).map(
            lambda each: (each[0], each[2])
        )

    streaming = run(new_environment, "STREAMING", build, records, parallelism, epoch_records)
    batch = run(new_environment, "BATCH", build, records, parallelism, epoch_records)
    assert len(streaming) == len(records)
    assert dict(streaming) == dict(batch)
    assert len(batch) == len({key for key, *_ in records})


@settings(max_examples=20, deadline=None)
@given(RECORDS, st.integers(1, 3), st.integers(1, 15))
@in_each_form
def test_windows_are_those_of_streaming_without_late_records(
    new_environment, records, parallelism, epoch_records
):
    def build(keyed):
        return keyed.window(TumblingEventTimeWindows.of(Time.milliseconds(100))).process(Total())

    streaming = run(new_environment, "STREAMING", build, records, parallelism, epoch_records)
    batch = run(new_environment, "BATCH", build, records, parallelism, epoch_records)
    assert sorted(streaming) == sorted(batch)


@settings(max_examples=20, deadline=None)
@given(RECORDS, st.randoms(use_true_random=False), st.integers(1, 15))
@in_each_form
def test_order_of_arrival_does_not_matter_for_records_of_different_times(
    new_environment, records, random, epoch_records
):
    distinct = list({(key, stamp): (key, stamp, value) for key, stamp, value in records}.values())
    shuffled = list(distinct)
    random.shuffle(shuffled)

    def build(keyed):
        return keyed.reduce(lambda one, other: (*one, other[2]))

    runs = [
        sorted(run(new_environment, "BATCH", build, each, 2, epoch_records)) for each in (distinct, shuffled)
    ]
    assert runs[0] == runs[1]
