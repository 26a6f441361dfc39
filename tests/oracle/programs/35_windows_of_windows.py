"""Results of windows, keyed again, in larger windows; and a union of windows of several sizes."""

from pyflink.common import Duration, Types, WatermarkStrategy
from pyflink.common.time import Time
from pyflink.common.watermark_strategy import TimestampAssigner
from pyflink.datastream import ProcessWindowFunction, StreamExecutionEnvironment
from pyflink.datastream.window import SlidingEventTimeWindows, TumblingEventTimeWindows

KIND = Types.TUPLE([Types.STRING(), Types.LONG(), Types.LONG()])


class Stamp(TimestampAssigner):
    def extract_timestamp(self, value, record_timestamp):
        return value[1]


class Sum(ProcessWindowFunction):
    def process(self, key, context, elements):
        yield str(key), context.window().start, sum(element[2] for element in elements)


def by_user(record):
    return record[0]


RECORDS = [("ab"[n % 2] + "xyz"[n % 3], n * 137 % 5000, n) for n in range(40)]

env = StreamExecutionEnvironment.get_execution_environment()
env.set_parallelism(2)
strategy = WatermarkStrategy.for_bounded_out_of_orderness(Duration.of_seconds(10)).with_timestamp_assigner(
    Stamp()
)
records = env.from_collection(RECORDS, KIND).assign_timestamps_and_watermarks(strategy)
small = (
    records.key_by(by_user, Types.STRING())
    .window(TumblingEventTimeWindows.of(Time.milliseconds(500)))
    .process(Sum(), KIND)
)
large = (
    small.key_by(lambda r: r[0][0], Types.STRING())
    .window(TumblingEventTimeWindows.of(Time.seconds(2)))
    .process(Sum(), KIND)
)
wide = (
    records.key_by(by_user, Types.STRING())
    .window(SlidingEventTimeWindows.of(Time.seconds(4), Time.seconds(2)))
    .process(Sum(), KIND)
)
large.print("large")
small.union(wide, large).key_by(lambda r: 0, Types.INT()).window(
    TumblingEventTimeWindows.of(Time.seconds(3))
).process(Sum(), KIND).print("all")
env.execute()
