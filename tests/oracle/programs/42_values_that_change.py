"""Functions that go on changing what they have emitted, been given, or put into state."""

from pyflink.common import Row, Time, Types, WatermarkStrategy
from pyflink.common.watermark_strategy import TimestampAssigner
from pyflink.datastream import OutputTag, StreamExecutionEnvironment
from pyflink.datastream.functions import (
    FlatMapFunction,
    KeyedProcessFunction,
    MapFunction,
    ProcessFunction,
    ProcessWindowFunction,
)
from pyflink.datastream.state import ListStateDescriptor, ValueStateDescriptor
from pyflink.datastream.window import SlidingEventTimeWindows

env = StreamExecutionEnvironment.get_execution_environment()
env.set_parallelism(1)
side = OutputTag("side")


def text(value):
    return str(value)


def append(value):
    value.append("x")
    return value


def append_and_keep(value):
    value.append("f")
    return True


def append_and_group(value):
    value.append("k")
    return 0


def nothing(value):
    return 0


def reduce_in_place(a, b):
    a[1].append(b[1][0])
    return a


def twice(number):
    one = [number]
    return [one, one]


def change_one(pair):
    pair[0].append(9)
    return pair


class Grow(FlatMapFunction):
    def flat_map(self, value):
        row = []
        for number in range(3):
            row.append(number)
            yield row


class GrowRow(FlatMapFunction):
    def flat_map(self, value):
        row = Row(0, "a")
        for number in range(3):
            row[0] = number
            yield row


class OneDict(MapFunction):
    def __init__(self):
        self.filled = {}

    def map(self, value):
        self.filled["v"] = value
        return self.filled


class ChangeLast(MapFunction):
    def __init__(self):
        self.last = None

    def map(self, value):
        if self.last is not None:
            self.last.append("late")
        self.last = value
        return value


class DictInState(KeyedProcessFunction):
    def __init__(self, update):
        self.update = update

    def open(self, runtime_context):
        self.state = runtime_context.get_state(ValueStateDescriptor("d", Types.PICKLED_BYTE_ARRAY()))

    def process_element(self, value, ctx):
        found = self.state.value()
        if found is None:
            found = {"n": 0}
            self.state.update(found)
        found["n"] += value
        if self.update:
            self.state.update(found)
        yield found


class ChangeBehindUpdate(KeyedProcessFunction):
    def open(self, runtime_context):
        self.state = runtime_context.get_state(ValueStateDescriptor("d", Types.PICKLED_BYTE_ARRAY()))

    def process_element(self, value, ctx):
        yield str(self.state.value())
        found = [value]
        self.state.update(found)
        found.append("after")


class ChangeListed(KeyedProcessFunction):
    def open(self, runtime_context):
        self.state = runtime_context.get_list_state(ListStateDescriptor("l", Types.PICKLED_BYTE_ARRAY()))

    def process_element(self, value, ctx):
        self.state.add(value)
        value.append("p")
        yield from self.state.get()


class Show(KeyedProcessFunction):
    def process_element(self, value, ctx):
        yield str(value)


class MainAndSide(ProcessFunction):
    def process_element(self, value, ctx):
        yield value
        value.append("s")
        yield side, value
        value.append("t")
        yield value


class EmitMember(KeyedProcessFunction):
    def __init__(self):
        self.fired = []

    def process_element(self, value, ctx):
        ctx.timer_service().register_event_time_timer(value[0])

    def on_timer(self, timestamp, ctx):
        self.fired.append(timestamp)
        yield self.fired


class First(TimestampAssigner):
    def extract_timestamp(self, value, record_timestamp):
        return value[0]


class AppendToAll(ProcessWindowFunction):
    def process(self, key, context, elements):
        for element in elements:
            element.append("w")
        yield str((context.window().start, list(elements)))


def numbers():
    return env.from_collection([1, 2, 3])


def lists():
    return env.from_collection([[1], [6]])


same = [1]
stamped = WatermarkStrategy.for_monotonous_timestamps().with_timestamp_assigner(First())
branches = lists().map(append)
split = lists().process(MainAndSide())

numbers().flat_map(Grow()).map(text).print("grow")
numbers().flat_map(GrowRow()).map(text).print("rows")
numbers().map(OneDict()).map(text).print("one dict")
numbers().key_by(nothing).process(DictInState(True)).map(text).print("state")
numbers().key_by(nothing).process(DictInState(False)).map(text).print("state without update")
numbers().key_by(nothing).process(ChangeBehindUpdate()).print("changed behind update")
numbers().map(twice).map(change_one).map(text).print("one object within a value")
lists().key_by(nothing).process(ChangeListed()).map(text).print("list state")
lists().map(ChangeLast()).map(text).print("input changed later")
lists().filter(append_and_keep).map(text).print("filter")
lists().key_by(append_and_group).process(Show()).print("key selector")
branches.map(append).map(text).print("branch a")
branches.map(text).print("branch b")
split.map(text).print("main")
split.get_side_output(side).map(text).print("side")
env.from_collection([same, same]).map(append).map(text).print("same object twice")
env.from_collection([(0, [1]), (0, [2]), (0, [3])]).key_by(nothing).reduce(reduce_in_place).map(text).print(
    "reduce"
)
lists().assign_timestamps_and_watermarks(stamped).key_by(nothing).process(EmitMember()).map(text).print(
    "timers"
)
lists().assign_timestamps_and_watermarks(stamped).key_by(nothing).window(
    SlidingEventTimeWindows.of(Time.milliseconds(10), Time.milliseconds(5))
).process(AppendToAll()).print("sliding windows")
env.execute()
