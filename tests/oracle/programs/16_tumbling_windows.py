"""Tumbling event-time windows: reduce, with an offset, negative times, out of order; windows of a week."""

from pyflink.common import Duration, Types, WatermarkStrategy
from pyflink.common.time import Time
from pyflink.common.watermark_strategy import TimestampAssigner
from pyflink.datastream import ProcessWindowFunction, StreamExecutionEnvironment
from pyflink.datastream.window import TumblingEventTimeWindows

DAY = 86_400_000


class Stamp(TimestampAssigner):
    def extract_timestamp(self, value, record_timestamp):
        return value[1]


class Span(ProcessWindowFunction):
    def process(self, key, context, elements):
        window = context.window()
        yield key, window.start, window.end, [value for _, _, value in elements]


RECORDS = [
    ("a", 0, 1),
    ("a", 999, 2),
    ("b", 1000, 3),
    ("a", 1001, 4),
    ("b", -1, 5),
    ("a", 700, 6),
    ("b", -1500, 7),
    ("a", 3 * DAY, 8),
    ("b", 6 * DAY, 9),
    ("a", 7 * DAY - 1, 10),
    ("a", 7 * DAY, 11),
]

env = StreamExecutionEnvironment.get_execution_environment()
env.set_parallelism(1)
strategy = WatermarkStrategy.for_bounded_out_of_orderness(Duration.of_seconds(5)).with_timestamp_assigner(
    Stamp()
)
records = env.from_collection(RECORDS, Types.TUPLE([Types.STRING(), Types.LONG(), Types.INT()]))
keyed = records.assign_timestamps_and_watermarks(strategy).key_by(lambda record: record[0], Types.STRING())
keyed.window(TumblingEventTimeWindows.of(Time.seconds(1))).reduce(
    lambda a, b: (a[0], b[1], a[2] * 100 + b[2])
).print("reduce")
keyed.window(TumblingEventTimeWindows.of(Time.seconds(1), Time.milliseconds(700))).process(Span()).print(
    "offset"
)
keyed.window(TumblingEventTimeWindows.of(Time.days(7))).process(Span()).print("week")
env.execute()
