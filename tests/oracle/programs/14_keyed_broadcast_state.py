"""Rules are broadcast to a keyed stream; records wait in keyed state for a timer, which reads all the rules."""

from pyflink.common import Types, WatermarkStrategy
from pyflink.common.watermark_strategy import TimestampAssigner
from pyflink.datastream import KeyedBroadcastProcessFunction, StreamExecutionEnvironment
from pyflink.datastream.state import ListStateDescriptor, MapStateDescriptor

RULES = MapStateDescriptor("rules", Types.STRING(), Types.INT())


class Stamp(TimestampAssigner):
    def extract_timestamp(self, value, record_timestamp):
        return value[1]


class Alarm(KeyedBroadcastProcessFunction):
    def open(self, runtime_context):
        self.waiting = runtime_context.get_list_state(ListStateDescriptor("waiting", Types.INT()))

    def process_element(self, value, ctx):
        self.waiting.add(value[1])
        ctx.timer_service().register_event_time_timer(10_000)
        return []

    def process_broadcast_element(self, value, ctx):
        rules = ctx.get_broadcast_state(RULES)
        if value[1] < 0:
            rules.remove(value[0])
        else:
            rules.put(value[0], value[1])
        return []

    def on_timer(self, timestamp, ctx):
        rules = ctx.get_broadcast_state(RULES)
        key = ctx.get_current_key()
        for reading in self.waiting:
            for name, limit in sorted(rules.items()):
                if reading > limit and (name == key or name == "all"):
                    yield key, reading, name
        yield key, -1, f"{rules.contains('gone')} {rules.is_empty()} {sorted(rules.keys())}"


PAIR = Types.TUPLE([Types.STRING(), Types.INT()])

env = StreamExecutionEnvironment.get_execution_environment()
env.set_parallelism(1)
strategy = WatermarkStrategy.for_monotonous_timestamps().with_timestamp_assigner(Stamp())
readings = env.from_collection([("a", 5), ("b", 12), ("a", 11), ("b", 3), ("c", 100), ("a", 7)], PAIR)
rules = env.from_collection([("all", 10), ("gone", 0), ("a", 99), ("b", 2), ("gone", -1), ("a", 6)], PAIR)
(
    readings.assign_timestamps_and_watermarks(strategy)
    .key_by(lambda reading: reading[0], Types.STRING())
    .connect(rules.assign_timestamps_and_watermarks(strategy).broadcast(RULES))
    .process(Alarm(), Types.TUPLE([Types.STRING(), Types.INT(), Types.STRING()]))
    .set_parallelism(2)
    .print()
)
env.execute()
