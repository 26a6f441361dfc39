"""Timestamps assigned twice: the second assigner sees the first's; windows follow the second, results have times."""

from pyflink.common import Duration, Types, WatermarkStrategy
from pyflink.common.time import Time
from pyflink.common.watermark_strategy import TimestampAssigner
from pyflink.datastream import ProcessFunction, ProcessWindowFunction, StreamExecutionEnvironment
from pyflink.datastream.window import TumblingEventTimeWindows


class First(TimestampAssigner):
    def extract_timestamp(self, value, record_timestamp):
        return value * 10


class Shifted(TimestampAssigner):
    def extract_timestamp(self, value, record_timestamp):
        return record_timestamp + 1000


class Stamped(ProcessFunction):
    def process_element(self, value, ctx):
        yield value, ctx.timestamp()


class Sum(ProcessWindowFunction):
    def process(self, key, context, elements):
        yield key, sum(elements)


PAIR = Types.TUPLE([Types.INT(), Types.LONG()])

env = StreamExecutionEnvironment.get_execution_environment()
env.set_parallelism(1)
numbers = env.from_collection([1, 7, 3, 12, 25, 9], Types.INT())
numbers.process(Stamped()).print("none")
first = numbers.assign_timestamps_and_watermarks(
    WatermarkStrategy.for_bounded_out_of_orderness(Duration.of_minutes(10)).with_timestamp_assigner(First())
)
first.process(Stamped(), PAIR).print("first")
kept = first.filter(lambda n: n > 2).flat_map(lambda n: [n, n + 1001], Types.INT())
kept.process(Stamped(), PAIR).print("kept")
second = kept.assign_timestamps_and_watermarks(
    WatermarkStrategy.for_bounded_out_of_orderness(Duration.of_minutes(10)).with_timestamp_assigner(Shifted())
)
second.process(Stamped(), PAIR).print("second")
sums = (
    second.key_by(lambda n: n % 2, Types.INT())
    .window(TumblingEventTimeWindows.of(Time.milliseconds(50)))
    .process(Sum(), PAIR)
)
sums.print("sum")
sums.map(lambda pair: pair[0], Types.INT()).process(Stamped(), PAIR).print("time of sum")
env.execute()
