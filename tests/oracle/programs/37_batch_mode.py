"""Batch mode: a rolling reduce tells each key's last result only; windows as ever; timers at the end of each key."""

from pyflink.common import Types, WatermarkStrategy
from pyflink.common.time import Time
from pyflink.common.watermark_strategy import TimestampAssigner
from pyflink.datastream import KeyedProcessFunction, RuntimeExecutionMode, StreamExecutionEnvironment
from pyflink.datastream.state import ListStateDescriptor
from pyflink.datastream.window import TumblingEventTimeWindows


class Stamp(TimestampAssigner):
    def extract_timestamp(self, value, record_timestamp):
        return value[1]


class InOrder(KeyedProcessFunction):
    def open(self, runtime_context):
        self.stamps = runtime_context.get_list_state(ListStateDescriptor("stamps", Types.LONG()))

    def process_element(self, value, ctx):
        self.stamps.add(ctx.timestamp())
        ctx.timer_service().register_event_time_timer(value[1] + 5)

    def on_timer(self, timestamp, ctx):
        yield f"{ctx.get_current_key()} {timestamp} {list(self.stamps)}"


KIND = Types.TUPLE([Types.STRING(), Types.LONG(), Types.INT()])
RECORDS = [("a", 30, 1), ("b", 20, 2), ("a", 10, 3), ("c", 5, 4), ("a", 20, 5), ("b", 120, 6)]

env = StreamExecutionEnvironment.get_execution_environment()
env.set_parallelism(1)
env.set_runtime_mode(RuntimeExecutionMode.BATCH)
strategy = WatermarkStrategy.for_monotonous_timestamps().with_timestamp_assigner(Stamp())
keyed = (
    env.from_collection(RECORDS, KIND)
    .assign_timestamps_and_watermarks(strategy)
    .key_by(lambda r: r[0], Types.STRING())
)
keyed.reduce(lambda one, other: (one[0], 0, one[2] + other[2])).print("reduce")
keyed.sum(2).map(lambda r: (r[0], r[2]), Types.TUPLE([Types.STRING(), Types.INT()])).print("sum")
keyed.process(InOrder(), Types.STRING()).print("timer")
keyed.window(TumblingEventTimeWindows.of(Time.milliseconds(100))).reduce(
    lambda one, other: (one[0], 0, one[2] + other[2])
).print("window")
env.execute()
