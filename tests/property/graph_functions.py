"""What the random programs of `test_graphs.py` are built of; each begins with the text of this file.

Records are tuples (key, time, value), or Rows of columns with these. Functions depend on event time only, not on the
order of arrival, unless they are in the last section.
"""

import pyarrow as pa
import pyarrow.compute as pc

from millstream.base.time import Time
from millstream.common import Configuration, Duration, WatermarkStrategy
from millstream.common.watermark_strategy import TimestampAssigner
from millstream.datastream import (
    AggregateFunction,
    CoMapFunction,
    KeyedCoProcessFunction,
    KeyedProcessFunction,
    OutputTag,
    ProcessFunction,
    ProcessWindowFunction,
    StreamExecutionEnvironment,
)
from millstream.datastream.expressions import count, sum_
from millstream.datastream.functions import ProcessJoinFunction
from millstream.datastream.state import MapStateDescriptor, ValueStateDescriptor
from millstream.datastream.window import (
    EventTimeSessionWindows,
    SlidingEventTimeWindows,
    TumblingEventTimeWindows,
)

ODD = OutputTag("odd")


class Stamp(TimestampAssigner):
    def extract_timestamp(self, value, record_timestamp):
        return value[1]


def source(environment, records, bound_ms):
    strategy = WatermarkStrategy.for_bounded_out_of_orderness(Duration.of_millis(bound_ms))
    return environment.from_collection(records).assign_timestamps_and_watermarks(
        strategy.with_timestamp_assigner(Stamp())
    )


def key_of(record):
    return record[0]


def add(number):
    return lambda record: (record[0], record[1], record[2] + number)


def rekey(count):
    return lambda record: ("abcdef"[record[2] % count], record[1], record[2])


def not_divisible(number):
    return lambda record: record[2] % number != 0


def some(record):
    return [(record[0], record[1], record[2] + 10 * each) for each in range(record[2] % 3)]


def combine(one, other):
    return one[0], max(one[1], other[1]), one[2] + other[2]


class Split(ProcessFunction):
    def process_element(self, value, ctx):
        yield (ODD, value) if value[2] % 2 else value


class Totals(KeyedProcessFunction):
    """Adds up what came until each timer, since the one before if it cleans up."""

    def __init__(self, delay_ms, clean_up):
        self.delay_ms, self.clean_up = delay_ms, clean_up

    def open(self, runtime_context):
        self.by_time = runtime_context.get_map_state(MapStateDescriptor("by time"))

    def process_element(self, value, ctx):
        time = ctx.timestamp()
        self.by_time.put(time, (self.by_time.get(time) or 0) + value[2])
        ctx.timer_service().register_event_time_timer(time + self.delay_ms)
        return []

    def on_timer(self, timestamp, ctx):
        times = [time for time in self.by_time if time <= timestamp]
        yield ctx.get_current_key(), timestamp, sum(self.by_time.get(time) for time in times)
        for time in times if self.clean_up else ():
            self.by_time.remove(time)


class Difference(KeyedCoProcessFunction):
    """Tells at each timer by how much one stream is ahead of the other."""

    def __init__(self, delay_ms):
        self.delay_ms = delay_ms

    def open(self, runtime_context):
        self.by_time = runtime_context.get_map_state(MapStateDescriptor("by time"))

    def process_element1(self, value, ctx):
        return self.add(value[2], ctx)

    def process_element2(self, value, ctx):
        return self.add(-2 * value[2], ctx)

    def add(self, number, ctx):
        time = ctx.timestamp()
        self.by_time.put(time, (self.by_time.get(time) or 0) + number)
        ctx.timer_service().register_event_time_timer(time + self.delay_ms)
        return []

    def on_timer(self, timestamp, ctx):
        total = sum(number for time, number in self.by_time.items() if time <= timestamp)
        yield ctx.get_current_key(), timestamp, total


class Sides(CoMapFunction):
    def map1(self, value):
        return value

    def map2(self, value):
        return value[0], value[1], -value[2]


class Pair(ProcessJoinFunction):
    def process_element(self, left, right, ctx):
        yield left[0], ctx.get_timestamp(), left[2] - 2 * right[2]


class Sum(AggregateFunction):
    def create_accumulator(self):
        return "", 0, 0

    def add(self, value, accumulator):
        return value[0], accumulator[1] + 1, accumulator[2] + value[2]

    def get_result(self, accumulator):
        return accumulator

    def merge(self, acc_a, acc_b):
        return acc_a[0], acc_a[1] + acc_b[1], acc_a[2] + acc_b[2]


class Span(ProcessWindowFunction):
    def process(self, key, context, elements):
        yield key, context.window().start, sum(value for _, _, value in elements)


# The same in columns.

NAMES = ["f0", "f1", "f2"]


def columns(stream):
    """Make columns of what may be rows, columns or both."""
    return stream.map_batches(named)


def named(batch: pa.RecordBatch) -> pa.RecordBatch:
    return batch.rename_columns(NAMES)


def added(number):
    return lambda batch: batch.set_column(2, "f2", pc.add(batch["f2"], number))


def indivisible(number):
    def chosen(batch: pa.RecordBatch):
        rest = pc.subtract(batch["f2"], pc.multiply(pc.divide(batch["f2"], number), number))
        return pc.not_equal(rest, 0)

    return chosen


def aggregated(windows):
    """Give the columns of `Sum`'s results."""
    made = windows.aggregate(number=count(), total=sum_("f2"))
    return made.map_batches(lambda batch: batch.select(["f0", "number", "total"]))


def tumbling(size_ms):
    return TumblingEventTimeWindows.of(Time.milliseconds(size_ms))


def sliding(size_ms, slide_ms):
    return SlidingEventTimeWindows.of(Time.milliseconds(size_ms), Time.milliseconds(slide_ms))


def session(gap_ms):
    return EventTimeSessionWindows.with_gap(Time.milliseconds(gap_ms))


def final(stream):
    """Count and add up by key; the last result of each key is the one with the highest count."""
    counted = stream.map(lambda record: (record[0], 1, record[2])).key_by(key_of)
    return counted.reduce(lambda one, other: (one[0], one[1] + other[1], one[2] + other[2]))


def final_sum(stream):
    return stream.map(lambda record: (record[0], 1, 0)).key_by(key_of).sum(1)


def final_of_columns(stream):
    return columns(stream).key_by("f0").aggregate(number=count(), total=sum_("f2"))


# What depends on the order of each key's records.


def chain(one, other):
    return one[0], other[1], (one[2] * 3 + other[2]) % 1009


class Number(KeyedProcessFunction):
    def open(self, runtime_context):
        self.count = runtime_context.get_state(ValueStateDescriptor("count"))

    def process_element(self, value, ctx):
        count = (self.count.value() or 0) + 1
        self.count.update(count)
        yield value[0], value[1], value[2] * 10 + count


class Listed(ProcessWindowFunction):
    def process(self, key, context, elements):
        number = 0
        for _, _, value in elements:
            number = (number * 7 + value) % 1009
        yield key, 0, number


def collect(stream):
    with stream.execute_and_collect() as results:
        return list(results)


def environment(parallelism, epoch_records, target, hold_after=None):
    options = {"execution.target": target, "millstream.epoch.fixed-records": epoch_records}
    if parallelism > 1 and epoch_records != 1:
        options["millstream.exchange.combine"] = "ALWAYS"
    if hold_after is not None:
        options["millstream.epoch.hold-after"] = hold_after
    made = StreamExecutionEnvironment.get_execution_environment(Configuration.from_dict(options))
    made.set_parallelism(parallelism)
    return made
