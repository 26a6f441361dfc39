"""Sessions that merge, out of order, touch; with a dynamic gap; reduce and process."""

from pyflink.common import Duration, Types, WatermarkStrategy
from pyflink.common.time import Time
from pyflink.common.watermark_strategy import TimestampAssigner
from pyflink.datastream import ProcessWindowFunction, StreamExecutionEnvironment
from pyflink.datastream.window import EventTimeSessionWindows, SessionWindowTimeGapExtractor


class Stamp(TimestampAssigner):
    def extract_timestamp(self, value, record_timestamp):
        return value[1]


class Gap(SessionWindowTimeGapExtractor):
    def extract(self, element):
        return element[2]


class Session(ProcessWindowFunction):
    def process(self, key, context, elements):
        elements = sorted(elements)
        yield f"{key} {context.window().start} {context.window().end} {[each[1] for each in elements]}"


RECORDS = [
    ("a", 1000, 50),
    ("a", 1300, 500),
    ("b", 0, 10),
    ("a", 1100, 200),
    ("b", 100, 100),
    ("a", 5000, 1),
    ("b", 200, 1),
    ("a", 1199, 5),
    ("c", 10, 1000),
    ("c", 3000, 10),
    ("c", 1005, 2000),
]

env = StreamExecutionEnvironment.get_execution_environment()
env.set_parallelism(1)
strategy = WatermarkStrategy.for_bounded_out_of_orderness(Duration.of_minutes(10)).with_timestamp_assigner(
    Stamp()
)
records = env.from_collection(RECORDS, Types.TUPLE([Types.STRING(), Types.LONG(), Types.LONG()]))
keyed = records.assign_timestamps_and_watermarks(strategy).key_by(lambda record: record[0], Types.STRING())
keyed.window(EventTimeSessionWindows.with_gap(Time.milliseconds(100))).process(
    Session(), Types.STRING()
).print("gap")
keyed.window(EventTimeSessionWindows.with_dynamic_gap(Gap())).process(Session(), Types.STRING()).print(
    "dynamic"
)
keyed.window(EventTimeSessionWindows.with_gap(Time.milliseconds(1000))).reduce(
    lambda one, other: (one[0], min(one[1], other[1]), one[2] + other[2])
).print("reduce")
env.execute()
