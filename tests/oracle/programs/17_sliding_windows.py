"""Sliding event-time windows: aggregate with and without a process function, apply; a slide that does not fit."""

from pyflink.common import Types, WatermarkStrategy
from pyflink.common.time import Time
from pyflink.common.watermark_strategy import TimestampAssigner
from pyflink.datastream import (
    AggregateFunction,
    ProcessWindowFunction,
    StreamExecutionEnvironment,
    WindowFunction,
)
from pyflink.datastream.window import SlidingEventTimeWindows


class Stamp(TimestampAssigner):
    def extract_timestamp(self, value, record_timestamp):
        return value[1]


class Mean(AggregateFunction):
    def create_accumulator(self):
        return [0, 0]

    def add(self, value, accumulator):
        return [accumulator[0] + value[2], accumulator[1] + 1]

    def get_result(self, accumulator):
        return accumulator[0] / accumulator[1]

    def merge(self, acc_a, acc_b):
        return [acc_a[0] + acc_b[0], acc_a[1] + acc_b[1]]


class WithSpan(ProcessWindowFunction):
    def process(self, key, context, elements):
        yield key, context.window().start, context.window().end, list(elements)


class Values(WindowFunction):
    def apply(self, key, window, inputs):
        values = [value for _, _, value in inputs]
        return [f"{key} [{window.start}, {window.end}) {window.max_timestamp()} {values}"]


RECORDS = [
    ("a", 100, 1),
    ("a", 350, 2),
    ("b", 360, 5),
    ("a", 380, 9),
    ("a", 990, 4),
    ("b", 1010, 7),
    ("a", 2500, 3),
]

env = StreamExecutionEnvironment.get_execution_environment()
env.set_parallelism(1)
strategy = WatermarkStrategy.for_monotonous_timestamps().with_timestamp_assigner(Stamp())
records = env.from_collection(RECORDS, Types.TUPLE([Types.STRING(), Types.LONG(), Types.INT()]))
keyed = records.assign_timestamps_and_watermarks(strategy).key_by(lambda record: record[0], Types.STRING())
half = keyed.window(SlidingEventTimeWindows.of(Time.milliseconds(1000), Time.milliseconds(500)))
half.aggregate(Mean(), output_type=Types.DOUBLE()).print("mean")
half.aggregate(Mean(), window_function=WithSpan()).print("span")
odd = keyed.window(
    SlidingEventTimeWindows.of(Time.milliseconds(1000), Time.milliseconds(300), Time.milliseconds(50))
)
odd.apply(Values(), Types.STRING()).print("apply")
env.execute()
