"""What was emitted is changed by nobody else, in places that the random programs do not reach."""

from __future__ import annotations

from millstream.common import Time, Types, WatermarkStrategy
from millstream.common.co_functions import (
    BroadcastProcessFunction,
    CoGroupFunction,
    JoinFunction,
    ProcessJoinFunction,
)
from millstream.common.source_functions import SourceFunction
from millstream.common.watermark_strategy import TimestampAssigner, WatermarkGenerator
from millstream.connectors.index_splits import IndexEnumerator
from millstream.datastream import AsyncDataStream
from millstream.datastream.functions import (
    AggregateFunction,
    AsyncFunction,
    KeySelector,
    ReduceFunction,
    WindowFunction,
)
from millstream.datastream.state import MapStateDescriptor
from millstream.datastream.window import CountEvictor, SlidingEventTimeWindows, TumblingEventTimeWindows
from millstream.spi.batch import Rows
from millstream.spi.source import Boundedness, RangeEnd, Source, SourceReader


class First(TimestampAssigner):
    def extract_timestamp(self, value, record_timestamp):
        return value[0]


STAMPED = WatermarkStrategy.for_monotonous_timestamps().with_timestamp_assigner(First())


def stamped(environment, *values):
    return environment.from_collection([list(value) for value in values]).assign_timestamps_and_watermarks(
        STAMPED
    )


def show(value):
    return str(value)


def collected(stream):
    return sorted(stream.map(show).execute_and_collect())


class KeptAnswer(AsyncFunction):
    def __init__(self):
        self.answers = []

    async def async_invoke(self, value):
        for answer in self.answers:
            answer.append("late")
        self.answers.append([value])
        return self.answers[-1:]


def test_asynchronous_results(new_environment):
    numbers = new_environment().from_collection([1, 2, 3])
    results = AsyncDataStream.ordered_wait(numbers, KeptAnswer(), Time.seconds(10), capacity=1)
    assert collected(results) == ["[1]", "[2]", "[3]"]


class OneBuffer(SourceFunction):
    def run(self, ctx):
        row = []
        for number in range(3):
            row.append(number)
            ctx.collect(row)

    def cancel(self):
        pass


def test_a_source_function_that_fills_one_object(new_environment):
    assert collected(new_environment().add_source(OneBuffer())) == ["[0, 1, 2]", "[0, 1]", "[0]"]


class KeepingReader(SourceReader):
    def __init__(self):
        self.row = []

    def read(self, split_range, emit):
        for number in range(split_range.start, split_range.stop):
            self.row.append(number)
            emit(Rows([self.row]))
        return RangeEnd(split_range.split_id, split_range.stop, True, split_range.stop - split_range.start)


class KeepingSource(Source):
    def get_boundedness(self):
        return Boundedness.BOUNDED

    def build_enumerator(self, parallelism, restored):
        return IndexEnumerator([range(3)], parallelism, restored)

    def build_reader(self, subtask_index, parallelism):
        return KeepingReader()


def test_a_reader_that_fills_one_object(new_environment):
    stream = new_environment().from_source(KeepingSource(), WatermarkStrategy.no_watermarks(), "rows")
    assert collected(stream.rebalance()) == ["[0, 1, 2]", "[0, 1]", "[0]"]


class ChangeBoth(ProcessJoinFunction):
    def process_element(self, left, right, ctx):
        left.append("l")
        right.append("r")
        yield left, right


def test_an_interval_join_whose_function_changes_its_records(new_environment):
    environment = new_environment()
    left, right = stamped(environment, [1]), stamped(environment, [2], [3])
    joined = (
        left.key_by(lambda value: 0)
        .interval_join(right.key_by(lambda value: 0))
        .between(Time.milliseconds(-5), Time.milliseconds(5))
        .process(ChangeBoth())
    )
    assert collected(joined) == ["([1, 'l'], [2, 'r'])", "([1, 'l'], [3, 'r'])"]


class JoinBoth(JoinFunction):
    def join(self, first, second):
        first.append("l")
        second.append("r")
        return [first, second]


class Group(CoGroupFunction):
    def co_group(self, first, second):
        for one in (*first, *second):
            one.append("g")
            yield one
            one.append("late")


def windows(join):
    window = TumblingEventTimeWindows.of(Time.milliseconds(10))
    return join.where(lambda value: 0).equal_to(lambda value: 0).window(window)


def test_a_window_join_whose_function_changes_its_records(new_environment):
    environment = new_environment()
    left, right = stamped(environment, [1], [2]), stamped(environment, [3])
    assert collected(windows(left.join(right)).apply(JoinBoth())) == [
        "[[1, 'l'], [3, 'r']]",
        "[[2, 'l'], [3, 'r']]",
    ]


def test_a_co_group_whose_function_changes_its_records(new_environment):
    environment = new_environment()
    left, right = stamped(environment, [1], [2]), stamped(environment, [3])
    assert collected(windows(left.co_group(right)).apply(Group())) == ["[1, 'g']", "[2, 'g']", "[3, 'g']"]


class Extend(ReduceFunction):
    def reduce(self, value1, value2):
        value1.extend(value2)
        value2.append("late")
        return value1


def test_a_reduce_that_changes_its_records_in_windows_with_an_evictor(new_environment):
    sliding = SlidingEventTimeWindows.of(Time.milliseconds(10), Time.milliseconds(5))
    stream = stamped(new_environment(), [6], [7], [8]).key_by(lambda value: 0).window(sliding)
    assert collected(stream.evictor(CountEvictor.of(5)).reduce(Extend())) == ["[6, 7, 8]", "[6, 7, 8]"]


def test_a_reduce_that_changes_its_records_in_counted_windows(new_environment):
    stream = new_environment().from_collection([[1], [2], [3], [4]]).key_by(lambda value: 0)
    assert collected(stream.count_window(2, 1).reduce(Extend())) == ["[1, 2]", "[2, 3]", "[3, 4]"]


class OneResult(AggregateFunction):
    def __init__(self):
        self.result = {}

    def create_accumulator(self):
        return 0

    def add(self, value, accumulator):
        return accumulator + value[0]

    def get_result(self, accumulator):
        self.result["sum"] = accumulator
        return self.result

    def merge(self, a, b):
        return a + b


class Together(WindowFunction):
    def apply(self, key, window, inputs):
        self.found = list(inputs)
        return self.found


def test_an_aggregate_that_gives_one_object_again_and_again(new_environment):
    window = TumblingEventTimeWindows.of(Time.milliseconds(10))
    records = [[1], [2], [3], [11]]
    for function in ([], [Together()]):
        stream = stamped(new_environment(), *records).key_by(lambda value: value[0] % 2).window(window)
        assert collected(stream.aggregate(OneResult(), *function)) == [
            "{'sum': 11}",
            "{'sum': 2}",
            "{'sum': 4}",
        ]


class KeepingSelector(KeySelector):
    def __init__(self):
        self.seen = []

    def get_key(self, value):
        for one in self.seen:
            one.append("late")
        self.seen.append(value)
        return value[0]


class Members(WatermarkGenerator):
    def __init__(self):
        self.seen = []

    def on_event(self, value, timestamp, output):
        for one in self.seen:
            one.append("late")
        self.seen = [value]
        output.emit_watermark(timestamp)

    def on_periodic_emit(self, output):
        pass


def marked(environment):
    """Return records with a watermark behind each, so that each is a batch; they wait for the end of the epoch."""
    strategy = WatermarkStrategy.for_generator(lambda: Members()).with_timestamp_assigner(First())
    return environment.from_collection([[1], [2], [3]]).assign_timestamps_and_watermarks(strategy)


def test_a_watermark_generator_that_keeps_records(new_environment):
    assert collected(marked(new_environment()).rebalance()) == ["[1]", "[2]", "[3]"]


def test_a_key_selector_that_keeps_records(new_environment):
    stream = marked(new_environment("local", 2)).key_by(KeepingSelector())
    assert collected(stream.map(lambda value: value)) == ["[1]", "[2]", "[3]"]


RULES = MapStateDescriptor("rules", Types.STRING(), Types.PICKLED_BYTE_ARRAY())


class GiveRules(BroadcastProcessFunction):
    def process_element(self, value, ctx):
        rule = ctx.get_broadcast_state(RULES).get("rule")
        yield rule
        if rule is not None:
            rule.append(value)

    def process_broadcast_element(self, value, ctx):
        ctx.get_broadcast_state(RULES).put("rule", value)
        yield value


def spoil(rule):
    if rule is not None:
        rule.append("downstream")
    return rule


def test_broadcast_state_that_is_given_downstream(new_environment):
    environment = new_environment("local", 1, {"millstream.epoch.fixed-records": 100})
    rules = environment.from_collection([["rule"]]).broadcast(RULES)
    stream = environment.from_collection([1, 2]).connect(rules).process(GiveRules()).map(spoil)
    assert collected(stream) == [
        "['rule', 'downstream']",
        "['rule', 'downstream']",
        "['rule', 1, 'downstream']",
    ]
