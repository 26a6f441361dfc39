"""What one function changes in a value is seen by no other, where PyFlink hands on the object itself."""

from pyflink.common import Time, Types, WatermarkStrategy
from pyflink.common.watermark_strategy import TimestampAssigner
from pyflink.datastream import StreamExecutionEnvironment
from pyflink.datastream.functions import KeyedProcessFunction, MapFunction
from pyflink.datastream.state import ValueStateDescriptor
from pyflink.datastream.window import SlidingEventTimeWindows

env = StreamExecutionEnvironment.get_execution_environment()
env.set_parallelism(1)


def nothing(value):
    return 0


def text(value):
    return str(value)


def spoil(found):
    found["n"] += 100
    return found


def extend(a, b):
    a.extend(b)
    return a


class Member(MapFunction):
    def __init__(self):
        self.filled = {"n": 0}

    def map(self, value):
        self.filled["n"] += value
        return self.filled


class State(KeyedProcessFunction):
    def open(self, runtime_context):
        self.state = runtime_context.get_state(ValueStateDescriptor("d", Types.PICKLED_BYTE_ARRAY()))

    def process_element(self, value, ctx):
        found = self.state.value() or {"n": 0}
        found["n"] += value
        self.state.update(found)
        yield found


class First(TimestampAssigner):
    def extract_timestamp(self, value, record_timestamp):
        return value[0]


stamped = WatermarkStrategy.for_monotonous_timestamps().with_timestamp_assigner(First())
env.from_collection([1, 2, 3]).map(Member()).map(spoil).map(text).print("member")
env.from_collection([1, 2, 3]).key_by(nothing).process(State()).map(spoil).map(text).print("state")
env.from_collection([[1], [2], [12]]).assign_timestamps_and_watermarks(stamped).key_by(nothing).window(
    SlidingEventTimeWindows.of(Time.milliseconds(10), Time.milliseconds(5))
).reduce(extend).map(text).print("sliding windows")
env.execute()
