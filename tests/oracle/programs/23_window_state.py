"""State of one window, and of all windows of a key, seen by repeated firings of a count trigger."""

from pyflink.common import Duration, Types, WatermarkStrategy
from pyflink.common.time import Time
from pyflink.common.watermark_strategy import TimestampAssigner
from pyflink.datastream import ProcessWindowFunction, StreamExecutionEnvironment
from pyflink.datastream.state import ListStateDescriptor, ValueStateDescriptor
from pyflink.datastream.window import CountTrigger, EventTimeTrigger, TumblingEventTimeWindows


class Stamp(TimestampAssigner):
    def extract_timestamp(self, value, record_timestamp):
        return value[1]


class Firings(ProcessWindowFunction):
    def __init__(self):
        self.here = ValueStateDescriptor("here", Types.INT())
        self.starts = ListStateDescriptor("starts", Types.LONG())

    def process(self, key, context, elements):
        here = context.window_state().get_state(self.here)
        starts = context.global_state().get_list_state(self.starts)
        here.update((here.value() or 0) + 1)
        starts.add(context.window().start)
        yield f"{key} {context.window().start} firing {here.value()}, of all {list(starts)}: {len(list(elements))}"

    def clear(self, context):
        context.window_state().get_state(self.here).clear()


RECORDS = [
    ("a", 1, 0),
    ("a", 2, 0),
    ("b", 3, 0),
    ("a", 1500, 0),
    ("a", 4, 0),
    ("a", 5, 0),
    ("a", 1600, 0),
    ("b", 4, 0),
]

env = StreamExecutionEnvironment.get_execution_environment()
env.set_parallelism(1)
strategy = WatermarkStrategy.for_bounded_out_of_orderness(Duration.of_minutes(10)).with_timestamp_assigner(
    Stamp()
)
records = env.from_collection(RECORDS, Types.TUPLE([Types.STRING(), Types.LONG(), Types.INT()]))
keyed = records.assign_timestamps_and_watermarks(strategy).key_by(lambda record: record[0], Types.STRING())
windowed = keyed.window(TumblingEventTimeWindows.of(Time.seconds(1)))
windowed.trigger(CountTrigger.of(2)).process(Firings(), Types.STRING()).print("count")
keyed.window(TumblingEventTimeWindows.of(Time.seconds(1))).trigger(EventTimeTrigger.create()).process(
    Firings(), Types.STRING()
).print("event")
env.execute()
