"""Event-time timers: several for one key, coalesced, deleted, of the past; they fire at the end, in order of time."""

from pyflink.common import Duration, Types, WatermarkStrategy
from pyflink.common.watermark_strategy import TimestampAssigner
from pyflink.datastream import KeyedProcessFunction, StreamExecutionEnvironment
from pyflink.datastream.state import ListStateDescriptor


class Stamp(TimestampAssigner):
    def extract_timestamp(self, value, record_timestamp):
        return value[1]


class Remind(KeyedProcessFunction):
    def open(self, runtime_context):
        self.fired = runtime_context.get_list_state(ListStateDescriptor("fired", Types.LONG()))

    def process_element(self, value, ctx):
        key, stamp, command = value
        timers = ctx.timer_service()
        if command == "set":
            timers.register_event_time_timer(stamp + 100)
            timers.register_event_time_timer(stamp // 100 * 100 + 1000)
        elif command == "delete":
            timers.delete_event_time_timer(stamp // 100 * 100 + 1000)
        yield f"{key} {command} {ctx.timestamp()} late {timers.current_watermark() >= stamp}"

    def on_timer(self, timestamp, ctx):
        self.fired.add(timestamp)
        watermark, domain = ctx.timer_service().current_watermark(), ctx.time_domain().name
        yield f"timer {ctx.get_current_key()} {timestamp} {ctx.timestamp()} {watermark} {domain} {list(self.fired)}"


RECORDS = [
    ("a", 10, "set"),
    ("a", 20, "set"),
    ("b", 10, "set"),
    ("a", 210, "set"),
    ("b", 30, "delete"),
    ("c", 5, "delete"),
    ("a", 150, "set"),
    ("a", 120, "delete"),
    ("c", -500, "set"),
    ("b", 400, "look"),
]

env = StreamExecutionEnvironment.get_execution_environment()
env.set_parallelism(1)
strategy = WatermarkStrategy.for_bounded_out_of_orderness(Duration.of_minutes(10)).with_timestamp_assigner(
    Stamp()
)
stream = env.from_collection(RECORDS, Types.TUPLE([Types.STRING(), Types.LONG(), Types.STRING()]))
stamped = stream.assign_timestamps_and_watermarks(strategy)
stamped.key_by(lambda record: record[0], Types.STRING()).process(Remind(), Types.STRING()).print()
env.execute()
