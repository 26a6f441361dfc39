"""Timers set by timers, due before others that are due already; PyFlink fires them late."""

from pyflink.common import Types, WatermarkStrategy
from pyflink.common.watermark_strategy import TimestampAssigner
from pyflink.datastream import KeyedProcessFunction, StreamExecutionEnvironment
from pyflink.datastream.state import ListStateDescriptor


class Stamp(TimestampAssigner):
    def extract_timestamp(self, value, record_timestamp):
        return value[1]


class Beat(KeyedProcessFunction):
    def open(self, runtime_context):
        self.beats = runtime_context.get_list_state(ListStateDescriptor("beats", Types.LONG()))

    def process_element(self, value, ctx):
        ctx.timer_service().register_event_time_timer(value[1])
        ctx.timer_service().register_event_time_timer(1000)
        return []

    def on_timer(self, timestamp, ctx):
        self.beats.add(timestamp)
        if timestamp < 1000:
            ctx.timer_service().register_event_time_timer(timestamp + 300)
        else:
            yield f"{ctx.get_current_key()} {list(self.beats)}"


env = StreamExecutionEnvironment.get_execution_environment()
env.set_parallelism(1)
strategy = WatermarkStrategy.for_monotonous_timestamps().with_timestamp_assigner(Stamp())
stream = env.from_collection([("a", 0), ("b", 250), ("a", 450)], Types.TUPLE([Types.STRING(), Types.LONG()]))
stamped = stream.assign_timestamps_and_watermarks(strategy)
stamped.key_by(lambda record: record[0], Types.STRING()).process(Beat(), Types.STRING()).print()
env.execute()
