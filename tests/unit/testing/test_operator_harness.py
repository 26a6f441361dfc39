"""The public operator harness: what it hands in comes to the operator, what it shows is what the operator has.

What is right is written down by hand, by what Flink documents of its own harnesses' operators.
"""

from __future__ import annotations

import pickle

import pytest

from millstream.base.errors import ConfigurationError, JobDefinitionError, TypeMismatchError
from millstream.base.time import MAX_TIMESTAMP, MIN_TIMESTAMP
from millstream.common import Row, Time, Types, WatermarkStrategy
from millstream.common.watermark_strategy import TimestampAssigner
from millstream.connectors.collection import CollectionSource
from millstream.datastream import OutputTag
from millstream.datastream.functions import (
    AsyncFunction,
    BroadcastProcessFunction,
    CheckpointedFunction,
    CheckpointListener,
    CoFlatMapFunction,
    CoMapFunction,
    CoProcessFunction,
    FilterFunction,
    FlatMapFunction,
    KeyedBroadcastProcessFunction,
    KeyedCoProcessFunction,
    KeyedProcessFunction,
    MapFunction,
    ProcessFunction,
    ReduceFunction,
    SinkFunction,
)
from millstream.datastream.state import ListStateDescriptor, MapStateDescriptor, ValueStateDescriptor
from millstream.datastream.window import TumblingEventTimeWindows
from millstream.operators.simple import MapSpec
from millstream.spi.batch import ACTIVE, IDLE, Watermark
from millstream.testing.functions import harness_of
from millstream.testing.harness import OperatorHarness
from millstream.testing.recorder import Record, SideRecord

COUNT = ValueStateDescriptor("count", Types.INT())
LATE = OutputTag("late")
BACKENDS = ({}, {"state.backend.type": "rocksdb"})


def first(record):
    return record[0]


class Count(KeyedProcessFunction):
    """Counts a key's records; a timer ten later in event time gives the count and forgets it."""

    def open(self, runtime_context):
        self.count = runtime_context.get_state(COUNT)

    def process_element(self, value, ctx):
        self.count.update((self.count.value() or 0) + 1)
        ctx.timer_service().register_event_time_timer(ctx.timestamp() + 10)

    def on_timer(self, timestamp, ctx):
        if self.count.value() is not None:
            yield ctx.get_current_key(), self.count.value()
            self.count.clear()


def counting(stream):
    return stream.key_by(first).process(Count())


def test_records_keep_their_timestamps_and_elements_their_order():
    harness = OperatorHarness(lambda numbers: numbers.map(lambda number: -number))
    harness.push(1)
    harness.push_batch([2, 3], [20, 30])
    harness.push_watermark(30)
    harness.push(4, timestamp=31)
    assert harness.take_elements() == [
        Record(-1, None),
        Record(-2, 20),
        Record(-3, 30),
        Watermark(30),
        Record(-4, 31),
    ]
    assert harness.take_elements() == []


def test_taking_records_leaves_the_other_elements():
    harness = OperatorHarness(lambda numbers: numbers.map(str))
    harness.push(1, timestamp=1)
    harness.push_watermark(1)
    assert harness.take_records() == [("1", 1)]
    assert harness.take() == []
    assert harness.take_elements() == [Watermark(1)]


class Sides(ProcessFunction):
    def process_element(self, value, ctx):
        yield LATE, -value
        yield OutputTag("other"), 10 * value
        yield value


def test_side_outputs_are_taken_one_by_one():
    harness = harness_of(Sides())
    harness.push(1, timestamp=5)
    assert harness.take_side("other") == [10]
    harness.push(2, timestamp=6)
    assert harness.take() == [1, 2]
    assert harness.take_side(LATE) == [-1, -2]
    assert harness.take_side(LATE) == []
    assert harness.take_side("other") == [20]
    harness.push(3)
    assert harness.take_elements() == [SideRecord("late", -3), SideRecord("other", 30), Record(3)]


@pytest.mark.parametrize("options", BACKENDS)
def test_timers_and_entries_are_counted_and_state_can_be_read_and_written(options):
    with OperatorHarness(counting, options=options) as harness:
        for key, stamp in (("a", 0), ("a", 1), ("b", 5)):
            harness.push((key, None), timestamp=stamp)
        assert (harness.event_time_timers(), harness.processing_time_timers()) == (3, 0)
        assert harness.keyed_state_entries() == 2
        assert harness.state(COUNT, "a").value() == 2
        harness.state(COUNT, "b").update(7)
        harness.push_watermark(11)
        assert harness.take_records() == [(("a", 2), 10)]
        assert (harness.event_time_timers(), harness.keyed_state_entries()) == (1, 1)
        harness.push_watermark(15)
        assert harness.take() == [("b", 7)]


class Wake(KeyedProcessFunction):
    def process_element(self, value, ctx):
        ctx.timer_service().register_processing_time_timer(value[1])
        yield "at", ctx.timer_service().current_processing_time()

    def on_timer(self, timestamp, ctx):
        yield timestamp, ctx.timer_service().current_processing_time()


def test_processing_time_stands_still_until_it_is_set():
    harness = harness_of(Wake(), key_by=first, processing_time=100)
    harness.push(("a", 150))
    harness.push(("b", 120))
    assert (harness.take(), harness.next_processing_time) == ([("at", 100), ("at", 100)], 120)
    harness.set_processing_time(119)
    assert harness.take() == []
    harness.set_processing_time(160)
    assert harness.take() == [(120, 160), (150, 160)]
    assert (harness.processing_time_timers(), harness.next_processing_time) == (0, None)
    harness.set_processing_time(100)
    harness.push(("a", 130))
    assert (harness.take(), harness.next_processing_time) == ([("at", 100)], 130)


def test_each_key_comes_to_the_subtask_that_a_job_would_send_it_to():
    harness = OperatorHarness(counting, parallelism=4)
    for number in range(50):
        harness.push((number, None), timestamp=0)
    held = [operator.context.keyed_state.event_timers.count() for operator in harness.operators]
    assert sum(held) == 50
    assert min(held) > 0
    harness.push_watermark(10)
    assert sorted(harness.take()) == [(number, 1) for number in range(50)]


@pytest.mark.parametrize("options", BACKENDS)
@pytest.mark.parametrize(("before", "after"), [(1, 1), (1, 3), (4, 2), (3, 5)])
def test_state_and_timers_go_on_from_a_snapshot_at_another_parallelism(before, after, options):
    with OperatorHarness(counting, parallelism=before, options=options) as harness:
        for number in range(40):
            harness.push((number % 20, None), timestamp=number)
        harness.push_watermark(3)
        kept = pickle.loads(pickle.dumps(harness.snapshot()))
        harness.push((0, None), timestamp=50)  # behind the snapshot: lost with it
    with OperatorHarness(counting, parallelism=after, restore=kept) as harness:
        assert (harness.watermark, harness.event_time_timers()) == (3, 40)
        harness.push_watermark(100)
        assert sorted(harness.take()) == [(number, 2) for number in range(20)]


def test_a_snapshot_does_not_change_with_what_is_processed_behind_it():
    harness = OperatorHarness(counting)
    harness.push(("a", None), timestamp=0)
    kept = harness.snapshot()
    harness.push(("a", None), timestamp=0)
    for _ in range(2):
        restored = OperatorHarness(counting, restore=kept)
        assert restored.state(COUNT, "a").value() == 1
        restored.push(("a", None), timestamp=0)


def test_key_groups_are_fixed_for_state():
    kept = OperatorHarness(counting, max_parallelism=64).snapshot()
    with pytest.raises(ConfigurationError, match="64 key groups was restored with 128") as raised:
        OperatorHarness(counting, restore=kept)
    assert "max_parallelism=64" in raised.value.hint


def windows(stream):
    return (
        stream.key_by(first)
        .window(TumblingEventTimeWindows.of(Time.milliseconds(10)))
        .side_output_late_data(LATE)
        .reduce(lambda left, right: (left[0], left[1] + right[1]))
    )


def test_windows_fire_behind_their_end_also_from_a_snapshot():
    """Window [0, 10) of a: 1 + 2; what comes behind watermark 9 is late."""
    harness = OperatorHarness(windows)
    harness.push(("a", 1), timestamp=3)
    harness.push(("a", 2), timestamp=9)
    harness.push_watermark(8)
    assert (harness.take(), harness.keyed_state_entries()) == ([], 1)
    restored = OperatorHarness(windows, restore=harness.snapshot(), parallelism=2)
    restored.push_watermark(9)
    assert restored.take_records() == [(("a", 3), 9)]
    restored.push(("a", 4), timestamp=5)
    assert (restored.take(), restored.take_side(LATE)) == ([], [("a", 4)])
    assert restored.keyed_state_entries() == 0


def test_records_that_are_late_and_go_nowhere_are_counted():
    harness = OperatorHarness(
        lambda stream: (
            stream.key_by(first).window(TumblingEventTimeWindows.of(Time.milliseconds(10))).reduce(max)
        )
    )
    harness.push_watermark(20)
    harness.push(("a", 1), timestamp=3)
    assert harness.counter("numLateRecordsDropped") == 1
    assert harness.counter("no such counter") == 0


class Odd(MapFunction):
    def open(self, runtime_context):
        self.odd = runtime_context.get_metrics_group().add_group("numbers").counter("odd")

    def map(self, value):
        self.odd.inc(value % 2)
        return value


def test_a_counter_of_a_function_is_that_of_all_subtasks():
    with OperatorHarness(lambda stream: stream.rebalance().map(Odd()), parallelism=2) as harness:
        harness.push_batch([1, 2, 3, 5], [0, 0, 0, 0])
        assert harness.counter("numbers.odd") == 3
        harness.push(7)
        assert harness.counter("numbers.odd") == 4


class Lines(CoProcessFunction):
    def process_element1(self, value, ctx):
        yield "left", value, ctx.timer_service().current_watermark()

    def process_element2(self, value, ctx):
        yield "right", value, ctx.timer_service().current_watermark()


def test_event_time_of_two_inputs_is_the_lower_one_and_idle_inputs_do_not_count():
    harness = harness_of(Lines())
    harness.push_watermark(10, input=0)
    assert (harness.watermark, harness.take_elements()) == (MIN_TIMESTAMP, [])
    harness.push_watermark(7, input=1)
    assert harness.take_elements() == [Watermark(7)]
    harness.push_idle(input=1)
    assert harness.take_elements() == [Watermark(10)]
    harness.push(1, input=1)
    harness.push_watermark(12, input=0)
    assert harness.take_elements() == [Record(("right", 1, 10))]
    harness.push_idle(input=0)
    harness.push_idle(input=1)
    harness.push(2, input=0)
    # As in Flink's processWatermarkStatus: the watermark of the input that is back, then the status.
    assert harness.take_elements() == [IDLE, Watermark(12), ACTIVE, Record(("left", 2, 12))]


def test_a_watermark_never_goes_back():
    harness = harness_of(Lines())
    harness.push_watermark(10)
    with pytest.raises(ConfigurationError, match="watermark 9 was pushed to input 0 behind watermark 10"):
        harness.push_watermark(9)


class Upper(MapFunction):
    def map(self, value):
        return value.upper()


class Letters(FlatMapFunction):
    def flat_map(self, value):
        yield from value


class Short(FilterFunction):
    def filter(self, value):
        return len(value) < 3


class Longest(ReduceFunction):
    def reduce(self, value1, value2):
        return max(value1, value2, key=len)


class Tagged(CoMapFunction):
    def map1(self, value):
        return "left", value

    def map2(self, value):
        return "right", value


class Twice(CoFlatMapFunction):
    def flat_map1(self, value):
        yield value

    def flat_map2(self, value):
        yield value
        yield value


class Together(KeyedCoProcessFunction):
    def open(self, runtime_context):
        self.count = runtime_context.get_state(COUNT)

    def process_element1(self, value, ctx):
        self.count.update((self.count.value() or 0) + 1)

    def process_element2(self, value, ctx):
        yield ctx.get_current_key(), self.count.value()


class Call(AsyncFunction):
    async def async_invoke(self, value):
        return [value + "!"]


@pytest.mark.parametrize(
    ("function", "settings", "given", "expected"),
    [
        (Upper(), {}, [("ab", 0)], ["AB"]),
        (Upper(), {"key_by": len}, [("ab", 0)], ["AB"]),
        (Letters(), {}, [("ab", 0)], ["a", "b"]),
        (Short(), {}, [("ab", 0), ("abc", 0)], ["ab"]),
        (Longest(), {"key_by": first}, [("ab", 0), ("a", 0), ("b", 0)], ["ab", "ab", "b"]),
        (Tagged(), {}, [("a", 1), ("b", 0)], [("right", "a"), ("left", "b")]),
        (Twice(), {}, [("a", 1), ("b", 0)], ["a", "a", "b"]),
        (Together(), {"key_by": [first, str.lower]}, [("ab", 0), ("ac", 0), ("A", 1)], [("a", 2)]),
        (Call(), {}, [("a", 0), ("b", 0)], ["a!", "b!"]),
    ],
)
def test_functions_run_as_in_the_operator_of_their_kind(function, settings, given, expected):
    with harness_of(function, **settings) as harness:
        for value, index in given:
            harness.push(value, input=index)
        harness.end_epoch()
        assert harness.take() == expected


RULES = MapStateDescriptor("rules", Types.STRING(), Types.INT())


class Limit(BroadcastProcessFunction):
    def process_element(self, value, ctx):
        if value > (ctx.get_broadcast_state(RULES).get("limit") or 0):
            yield value

    def process_broadcast_element(self, value, ctx):
        ctx.get_broadcast_state(RULES).put("limit", value)


class LimitByKey(KeyedBroadcastProcessFunction):
    process_element = Limit.process_element
    process_broadcast_element = Limit.process_broadcast_element


@pytest.mark.parametrize(("function", "keys"), [(Limit(), None), (LimitByKey(), lambda value: value % 3)])
def test_broadcast_rules_come_by_the_second_input_to_all_subtasks_and_stay(function, keys):
    how = {"key_by": keys, "broadcast_state": [RULES]}
    harness = harness_of(function, parallelism=3, **how)
    harness.push(5, input=1)
    harness.push_batch(range(9))
    assert sorted(harness.take()) == [6, 7, 8]
    restored = harness_of(function, parallelism=2, restore=harness.snapshot(), **how)
    restored.push_batch(range(9))
    assert sorted(restored.take()) == [6, 7, 8]


class Buffered(MapFunction, CheckpointedFunction, CheckpointListener):
    """Keeps all values in operator state, and what it was told of checkpoints in a shared list."""

    told = []

    def initialize_state(self, context):
        self.state = context.get_operator_state_store().get_list_state(ListStateDescriptor("all"))
        self.values = list(self.state.get())

    def snapshot_state(self, context):
        self.state.update(self.values)

    def notify_checkpoint_complete(self, checkpoint_id):
        self.told.append(checkpoint_id)

    def map(self, value):
        self.values.append(value)
        return sorted(self.values)


def test_operator_state_is_redistributed_and_listeners_are_told():
    Buffered.told.clear()
    harness = harness_of(Buffered())
    harness.push_batch([3, 1, 2, 4])
    harness.take()
    kept = harness.snapshot()
    harness.complete_checkpoint()
    assert Buffered.told == [kept.checkpoint_id] == [1]
    halves = harness_of(Buffered(), parallelism=2, restore=kept)
    halves.push_batch([0, 0])
    one, other = halves.take()
    assert sorted(one + other) == [0, 0, 1, 2, 3, 4]
    assert (len(one), len(other)) == (3, 3)
    assert halves.snapshot().checkpoint_id == 2


class Life(MapFunction):
    events = []

    def open(self, runtime_context):
        self.name = f"{runtime_context.get_index_of_this_subtask()}"
        self.counter = runtime_context.get_int_counter("values")
        self.events.append(f"open {self.name}")

    def map(self, value):
        self.counter.add(value)
        return self.name

    def close(self):
        self.events.append(f"close {self.name}")


def test_each_subtask_has_a_function_of_its_own_that_is_opened_and_closed_once():
    Life.events.clear()
    with harness_of(Life(), parallelism=2) as harness:
        harness.push_batch([1, 2, 3])
        assert sorted(set(harness.take())) == ["0", "1"]
        assert harness.accumulator("values") == 6
        harness.close()
    assert Life.events == ["open 0", "open 1", "close 0", "close 1"]
    with pytest.raises(ConfigurationError, match='no function has an accumulator "others"'):
        harness.accumulator("others")


def test_the_end_of_the_input_brings_event_time_to_its_end():
    harness = OperatorHarness(counting)
    harness.push(("a", None), timestamp=1_000)
    harness.end_input()
    assert (harness.take(), harness.watermark) == ([("a", 1)], MAX_TIMESTAMP)


def test_errors_of_functions_come_out_as_they_are():
    harness = OperatorHarness(lambda numbers: numbers.map(lambda number: 1 // number))
    with pytest.raises(ZeroDivisionError):
        harness.push(0)


def test_a_declared_operator_runs_with_the_very_function_it_is_given():
    seen = []
    harness = OperatorHarness(MapSpec(seen.append))
    harness.push("a")
    assert (seen, harness.take()) == (["a"], [None])


def test_streams_may_feed_one_input_together():
    harness = OperatorHarness(lambda left, right: left.union(right).map(str), inputs=2)
    harness.push(1, input=0)
    harness.push(2, input=1)
    harness.push_watermark(5, input=1)
    assert harness.take_elements() == [Record("1"), Record("2")]


@pytest.mark.parametrize(
    ("program", "inputs", "message"),
    [
        (lambda s: s, 1, "one operator, and the program under test has 0: none"),
        (lambda s: s.map(str).map(str), 1, 'has 2: "Map", "Map"'),
        (lambda s: s.map(str).print(), 1, "gave a DataStreamSink, not a stream"),
        (lambda s, t: s.map(str), 2, "reads 1 streams, and the program was given 2"),
        (lambda s: s.connect(s).map(Tagged()), 1, "reads 2 streams, and the program was given 1"),
    ],
)
def test_what_is_not_one_operator_is_refused(program, inputs, message):
    with pytest.raises(JobDefinitionError, match=message):
        OperatorHarness(program, inputs=inputs)


@pytest.mark.parametrize(
    ("function", "settings", "message"),
    [
        (Count(), {}, "Count was given 0 key selectors, and needs 1"),
        (Together(), {"key_by": first}, "Together was given 1 key selectors, and needs 2"),
        (Limit(), {}, "Limit was given no broadcast_state"),
    ],
)
def test_what_a_function_needs_is_asked_for(function, settings, message):
    with pytest.raises(ConfigurationError, match=message):
        harness_of(function, **settings)


def test_functions_of_no_operator_of_their_own_are_refused():
    with pytest.raises(TypeMismatchError, match="asked for of a Nothing"):
        harness_of(type("Nothing", (SinkFunction,), {"invoke": print})())


@pytest.mark.parametrize("index", [1, -1])
@pytest.mark.parametrize("method", ["push", "push_watermark", "push_idle"])
def test_an_input_that_is_not_there_is_named(method, index):
    harness = OperatorHarness(lambda s: s.map(str))
    with pytest.raises(ConfigurationError, match=f"input {index} of operator .* it has 1"):
        getattr(harness, method)(*([] if method == "push_idle" else [1]), input=index)


def test_more_records_than_timestamps_are_refused():
    with pytest.raises(ConfigurationError, match="2 records were pushed with 1 timestamps"):
        OperatorHarness(lambda s: s.map(str)).push_batch([1, 2], [1])


class TimeField(TimestampAssigner):
    def extract_timestamp(self, value, record_timestamp):
        return value.time


def test_watermarks_may_be_made_by_the_operator_under_test():
    strategy = WatermarkStrategy.for_monotonous_timestamps().with_timestamp_assigner(TimeField())
    harness = OperatorHarness(lambda s: s.assign_timestamps_and_watermarks(strategy))
    harness.push_batch([Row(time=5), Row(time=9)])
    harness.end_epoch()
    assert harness.take_elements() == [Record(Row(time=5), 5), Record(Row(time=9), 9), Watermark(8)]


@pytest.mark.parametrize("parallelism", [1, 3])
def test_columns_are_dealt_and_made_rows_for_operators_that_take_none(parallelism):
    pa = pytest.importorskip("pyarrow")
    harness = OperatorHarness(
        lambda rows: rows.key_by(lambda row: row.name).map(lambda row: (row.name, row.n)),
        parallelism=parallelism,
    )
    harness.push_columns(pa.record_batch({"name": ["a", "b", "a"], "n": [1, 2, 3]}), [10, 20, 30])
    assert sorted(harness.take_records()) == [(("a", 1), 10), (("a", 3), 30), (("b", 2), 20)]
    assert sum(operator.records_in for operator in harness.operators) == 3


def test_a_source_is_no_operator_to_push_to():
    with pytest.raises(JobDefinitionError, match="has a source"):
        OperatorHarness(
            lambda s: s.get_execution_environment().from_source(
                CollectionSource([1]), WatermarkStrategy.no_watermarks(), "numbers"
            ),
            inputs=1,
        )
