"""Inactivity: timers moved by each record: deleted and set again; alerts from on_timer to a side output."""

from pyflink.common import Duration, Row, Types, WatermarkStrategy
from pyflink.common.watermark_strategy import TimestampAssigner
from pyflink.datastream import KeyedProcessFunction, OutputTag, StreamExecutionEnvironment
from pyflink.datastream.state import ReducingStateDescriptor, ValueStateDescriptor

VISIT = Types.ROW_NAMED(["user", "page", "at"], [Types.STRING(), Types.STRING(), Types.LONG()])
GONE = OutputTag("gone", Types.ROW([Types.STRING(), Types.LONG()]))


class Stamp(TimestampAssigner):
    def extract_timestamp(self, value, record_timestamp):
        return value.at


class Inactivity(KeyedProcessFunction):
    def __init__(self, timeout):
        self.timeout = timeout

    def open(self, runtime_context):
        self.timer = runtime_context.get_state(ValueStateDescriptor("timer", Types.LONG()))
        self.pages = runtime_context.get_reducing_state(
            ReducingStateDescriptor("pages", lambda one, other: f"{one}>{other}", Types.STRING())
        )

    def process_element(self, value, ctx):
        self.pages.add(value.page)
        previous = self.timer.value()
        if previous is not None:
            ctx.timer_service().delete_event_time_timer(previous)
        due = max(previous or 0, value.at + self.timeout)
        ctx.timer_service().register_event_time_timer(due)
        self.timer.update(due)
        if value.page == "exit":
            ctx.timer_service().delete_event_time_timer(due)
            yield Row(ctx.get_current_key(), self.pages.get(), "exit")
            self.pages.clear()
            self.timer.clear()

    def on_timer(self, timestamp, ctx):
        yield GONE, Row(ctx.get_current_key(), timestamp)
        yield Row(ctx.get_current_key(), self.pages.get(), "timeout")
        self.pages.clear()
        self.timer.clear()


VISITS = [
    Row("ann", "home", 1000),
    Row("bob", "home", 1500),
    Row("ann", "cart", 4000),
    Row("bob", "exit", 4500),
    Row("cyd", "help", 100),
    Row("ann", "buy", 3500),
    Row("bob", "home", 20000),
    Row("cyd", "home", 300),
]

env = StreamExecutionEnvironment.get_execution_environment()
env.set_parallelism(1)
strategy = WatermarkStrategy.for_bounded_out_of_orderness(Duration.of_minutes(1)).with_timestamp_assigner(
    Stamp()
)
visits = env.from_collection(VISITS, VISIT).assign_timestamps_and_watermarks(strategy)
told = visits.key_by(lambda visit: visit.user, Types.STRING()).process(
    Inactivity(5000), Types.ROW([Types.STRING(), Types.STRING(), Types.STRING()])
)
told.print()
told.get_side_output(GONE).print("gone")
env.execute()
