"""Windows over all records, whatever their keys: reduce, aggregate, apply, process."""

from pyflink.common import Types, WatermarkStrategy
from pyflink.common.time import Time
from pyflink.common.watermark_strategy import TimestampAssigner
from pyflink.datastream import AggregateFunction, StreamExecutionEnvironment
from pyflink.datastream.functions import AllWindowFunction, ProcessAllWindowFunction
from pyflink.datastream.window import (
    EventTimeSessionWindows,
    SlidingEventTimeWindows,
    TumblingEventTimeWindows,
)


class Stamp(TimestampAssigner):
    def extract_timestamp(self, value, record_timestamp):
        return value * 100


class Count(AggregateFunction):
    def create_accumulator(self):
        return 0

    def add(self, value, accumulator):
        return accumulator + 1

    def get_result(self, accumulator):
        return accumulator

    def merge(self, acc_a, acc_b):
        return acc_a + acc_b


class Apply(AllWindowFunction):
    def apply(self, window, inputs):
        return [f"{window.start} {sorted(inputs)}"]


class Process(ProcessAllWindowFunction):
    def process(self, context, elements):
        yield f"{context.window().start}-{context.window().end}: {sum(elements)}"


env = StreamExecutionEnvironment.get_execution_environment()
env.set_parallelism(1)
strategy = WatermarkStrategy.for_monotonous_timestamps().with_timestamp_assigner(Stamp())
numbers = env.from_collection([1, 2, 3, 9, 10, 11, 25, 26, 40], Types.INT()).assign_timestamps_and_watermarks(
    strategy
)
seconds = numbers.window_all(TumblingEventTimeWindows.of(Time.seconds(1)))
seconds.reduce(lambda one, other: one * 10 + other).print("reduce")
seconds.aggregate(Count(), output_type=Types.INT()).print("count")
numbers.window_all(EventTimeSessionWindows.with_gap(Time.milliseconds(500))).apply(
    Apply(), Types.STRING()
).print("apply")
numbers.window_all(SlidingEventTimeWindows.of(Time.seconds(2), Time.seconds(1))).process(
    Process(), Types.STRING()
).print("process")
env.execute()
