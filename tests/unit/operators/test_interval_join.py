from __future__ import annotations

import pickle
import random

import pytest

from millstream.base.errors import ConfigurationError, JobDefinitionError
from millstream.base.time import MAX_TIMESTAMP, MIN_TIMESTAMP
from millstream.common.co_functions import ProcessJoinFunction
from millstream.common.output_tag import OutputTag
from millstream.common.state import ValueStateDescriptor
from millstream.operators.base import EpochTime, OperatorContext, OperatorReport, Output, RestoreScope
from millstream.operators.interval_join import LATE_RECORDS_DROPPED, IntervalJoinSpec
from millstream.operators.user_code import attached_element
from millstream.spi.batch import Rows
from millstream.state.heap import HeapKeyedStateBackend
from millstream.state.operator_state import OperatorStateBackend
from millstream.state.snapshots import StateChanges


class Recorder(Output):
    def __init__(self):
        self.records = []
        self.sides = []
        self.watermarks = []

    def emit(self, batch):
        values, timestamps = batch.values, batch.timestamps
        self.records += zip(values, timestamps or [None] * len(values), strict=True)

    def emit_side(self, tag_id, batch):
        values, timestamps = batch.values, batch.timestamps
        self.sides += [(tag_id, *pair) for pair in zip(values, timestamps, strict=True)]

    def emit_watermark(self, timestamp_ms):
        self.watermarks.append(timestamp_ms)

    def emit_status(self, status):
        raise AssertionError


class Pairs(ProcessJoinFunction):
    def process_element(self, left, right, ctx):
        yield left, right, ctx.get_left_timestamp(), ctx.get_right_timestamp(), ctx.get_timestamp()


def start(lower_ms, upper_ms, *, function=None, snapshots=(), tracking=False, **settings):
    spec = IntervalJoinSpec(
        function or Pairs(), lambda value: value[0], lambda value: value[0], lower_ms, upper_ms, **settings
    )
    operator = spec.build()
    context = OperatorContext(
        job_id="job",
        name="join",
        operator_id="join",
        subtask_index=0,
        parallelism=1,
        max_parallelism=128,
        attempt=0,
        time=EpochTime(1_000),
        keyed_state=HeapKeyedStateBackend(tracking=tracking),
        side_outputs=frozenset({"side"}),
        operator_state=OperatorStateBackend(),
    )
    operator.setup(context, Recorder())
    for snapshot, *entries in snapshots:
        operator.restore_state(snapshot, RestoreScope(0, 0, 1, owns=lambda key: key != "foreign"))
        for name, namespace, held in entries:
            operator.restore_entries(name, [(namespace, *entry) for entry in held])
    operator.open()
    return operator


def left(operator, *records):
    operator.batch_handlers()[0](Rows(list(records), [record[1] for record in records]))


def right(operator, *records):
    operator.batch_handlers()[1](Rows(list(records), [record[1] for record in records]))


def pairs(operator):
    return [(value[0][1], value[1][1]) for value, _ in operator.output.records]


def test_pair_comes_as_soon_as_both_are_there_with_the_later_time():
    # left     l10
    # right  r5   r12  r16      bounds -5 .. +5
    operator = start(-5, 5)
    left(operator, ("k", 10))
    right(operator, ("k", 5), ("other", 10), ("k", 16), ("k", 12), ("k", 4))
    assert operator.output.records == [
        ((("k", 10), ("k", 5), 10, 5, 10), 10),
        ((("k", 10), ("k", 12), 10, 12, 12), 12),
    ]
    left(operator, ("k", 11))
    assert pairs(operator)[2:] == [(11, 12), (11, 16)]


class FlinkModel:
    """The rules, record by record and timer by timer, as Flink's operator has them."""

    def __init__(self, lower, upper):
        self.lower, self.upper = lower, upper
        self.buffers = {}
        self.timers = set()
        self.watermark = MIN_TIMESTAMP
        self.pairs, self.late = [], []

    def add(self, side, record):
        key, stamp, _ = record
        if self.watermark != MIN_TIMESTAMP and stamp < self.watermark:
            self.late.append((side, record))
            return
        own = self.buffers.setdefault((side, key), {})
        other = self.buffers.setdefault((1 - side, key), {})
        own.setdefault(stamp, []).append(record)
        low, high = (self.lower, self.upper) if side == 0 else (-self.upper, -self.lower)
        for stamp2, records in other.items():
            if stamp + low <= stamp2 <= stamp + high:
                for record2 in records:
                    self.pairs.append((record, record2) if side == 0 else (record2, record))
        self.timers.add((stamp + max(high, 0), side, key, stamp))

    def advance(self, watermark):
        self.watermark = watermark
        for timer in [timer for timer in self.timers if timer[0] <= watermark]:
            self.timers.discard(timer)
            _, side, key, stamp = timer
            self.buffers[side, key].pop(stamp, None)


@pytest.mark.parametrize("bounds", [(-3, 3), (0, 0), (2, 5), (-5, -2), (-4, 0), (0, 4), (-20, 1)])
def test_random_streams_with_late_and_borderline_records_give_what_flinks_rules_give(bounds):
    for seed in range(40):
        dice = random.Random(seed)
        model, operator = FlinkModel(*bounds), start(*bounds, late_left_tag_id="side")
        dropped = OperatorReport()
        watermark, number = 0, 0
        for _ in range(60):
            side = dice.randrange(2)
            batch = []
            for _ in range(dice.randrange(5)):
                number += 1
                batch.append((dice.choice("ab"), watermark + dice.randint(-3, 9), number))
            for record in batch:
                model.add(side, record)
            (left, right)[side](operator, *batch)
            if dice.random() < 0.5:
                watermark += dice.randrange(1, 5)
                model.advance(watermark)
                operator.process_watermark(watermark)
        operator.end_epoch(dropped, checkpoint=False)
        assert sorted(value[:2] for value, _ in operator.output.records) == sorted(model.pairs)
        assert operator.output.sides == [
            ("side", record, record[1]) for side, record in model.late if side == 0
        ]
        late_right = sum(side for side, _ in model.late)
        assert dropped.counters.get(LATE_RECORDS_DROPPED, 0) == late_right
        assert model.pairs and late_right


def kept(operator):
    return {
        key: tuple(len(values) for _, values in sides)
        for _, _, entries in operator.snapshot_entries()
        for key, (_, *sides) in entries
    }


def test_watermark_cleans_up_keys_that_nobody_touches_any_more():
    operator = start(-10, 100)
    for number in range(1_000):
        left(operator, (number, number))
        right(operator, (number, number + 5))
    assert len(kept(operator)) == 1_000
    operator.process_watermark(
        500
    )  # left ones go at time + 100, right ones at time + 5 + 10; sweeps are coarse
    assert 500 <= len(kept(operator)) <= 650
    operator.process_watermark(2_000)
    assert kept(operator) == {}
    assert operator.output.watermarks == [500, 2_000]


def test_a_busy_key_keeps_no_more_than_what_can_still_match():
    operator = start(-10, 10)
    for number in range(1_000):
        left(operator, ("k", number))
        operator.process_watermark(number)
    assert kept(operator)["k"][0] <= 12


@pytest.mark.parametrize(
    ("side", "settings", "expected"),
    [
        (left, {"late_left_tag_id": "side"}, [("side", ("k", 4), 4)]),
        (right, {"late_right_tag_id": "side"}, [("side", ("k", 4), 4)]),
        (left, {"late_right_tag_id": "side"}, []),
    ],
)
def test_late_records_of_each_side_go_to_its_side_output_or_are_counted(side, settings, expected):
    operator = start(-5, 5, **settings)
    operator.process_watermark(5)
    side(operator, ("k", 5), ("k", 4))
    assert operator.output.sides == expected
    for counters in ({} if expected else {LATE_RECORDS_DROPPED: 1}, {}):
        report = OperatorReport()
        operator.end_epoch(report, checkpoint=False)
        assert report.counters == counters
    assert kept(operator)["k"] == ((1, 0) if side is left else (0, 1))


def test_records_without_timestamps_are_refused_in_event_time():
    operator = start(-5, 5)
    with pytest.raises(JobDefinitionError, match=r"no timestamp: \('k', 1\)"):
        operator.batch_handlers()[1](Rows([("k", 1)]))
    operator.batch_handlers()[0](Rows([]))


def test_bounds_that_no_pair_fits_are_refused():
    with pytest.raises(ConfigurationError, match="from 3 to 2 ms"):
        start(3, 2)


def at(operator, now_ms):
    operator.context.time.now_ms = now_ms
    operator.on_processing_time()


def test_processing_time_pairs_records_by_arrival():
    operator = start(-10, 20, event_time=False)
    first, second = operator.batch_handlers()
    operator.process_watermark(MAX_TIMESTAMP)  # of no meaning here
    first(Rows([("k", "l1000")], [7]))
    at(operator, 1_020)
    second(Rows([("k", "r1020")]))
    at(operator, 1_021)
    second(Rows([("k", "r1021")]))
    first(Rows([("k", "l1021")]))
    assert operator.output.records == [
        ((("k", "l1000"), ("k", "r1020"), 1_000, 1_020, 1_020), None),
        ((("k", "l1021"), ("k", "r1020"), 1_021, 1_020, 1_021), None),
        ((("k", "l1021"), ("k", "r1021"), 1_021, 1_021, 1_021), None),
    ]
    at(operator, 2_000)
    assert kept(operator) == {}


def snapshot(operator):
    entries = [(name, space, list(held)) for name, space, held in operator.snapshot_entries()]
    return [operator.snapshot_state(), *entries]


def test_what_changed_is_keys_with_records_and_keys_that_were_swept():
    operator = start(-5, 5, tracking=True)
    left(operator, *[(f"k{number}", 100) for number in range(9)], ("swept", 10))
    operator.forget_changes()
    left(operator, ("k1", 110))
    operator.process_watermark(90)
    changes = StateChanges(128)
    assert operator.changed_entries(changes)
    patches = changes.patches.values()
    changed = [(key, entry) for patch in patches for _, key, entry in patch.changed.get("buffers", ())]
    assert changed == [("k1", (MIN_TIMESTAMP, ([100, 110], [("k1", 100), ("k1", 110)]), ([], [])))]
    assert [place for patch in patches for place in patch.removed.get("buffers", ())] == [(None, "swept")]


def test_snapshot_goes_on_where_it_was_and_several_of_different_keys_are_joined():
    one, two = start(-5, 5), start(-5, 5)
    left(one, ("a", 10), ("a", 8))
    one.process_watermark(7)
    right(two, ("b", 20))
    two.process_watermark(9)
    snapshots = [pickle.loads(pickle.dumps(snapshot(each))) for each in (one, two)]
    restored = start(-5, 5, snapshots=snapshots)
    right(restored, ("a", 12))
    left(restored, ("b", 16), ("c", 6))
    assert pairs(restored) == [(8, 12), (10, 12), (16, 20)]
    assert restored.watermark_ms == 7
    report = OperatorReport()
    restored.end_epoch(report, checkpoint=False)
    assert report.counters == {LATE_RECORDS_DROPPED: 1}
    restored.process_watermark(100)
    assert kept(restored) == {}
    assert kept(one) == {"a": (2, 0)}


class CountsPairs(ProcessJoinFunction):
    def open(self, runtime_context):
        self.count = runtime_context.get_state(ValueStateDescriptor("count"))

    def process_element(self, left, right, ctx):
        self.count.update((self.count.value() or 0) + 1)
        if self.count.value() == 2:
            yield OutputTag("side"), (left[0], "second")
        else:
            yield left[0], self.count.value()
            yield "again"


def test_function_has_its_keys_state_side_outputs_and_any_number_of_results():
    operator = start(-5, 5, function=CountsPairs())
    left(operator, ("a", 1), ("b", 2))
    right(operator, ("a", 3), ("b", 4), ("a", 0))
    assert operator.output.records == [(("a", 1), 3), ("again", 3), (("b", 1), 4), ("again", 4)]
    assert operator.output.sides == [("side", ("a", "second"), 1)]


class Fails(ProcessJoinFunction):
    def process_element(self, left, right, ctx):
        raise ZeroDivisionError


def test_failing_record_is_named():
    operator = start(-5, 5, function=Fails())
    left(operator, ("a", 1))
    with pytest.raises(ZeroDivisionError) as raised:
        right(operator, ("b", 1), ("a", 2))
    assert attached_element(raised.value) == "('a', 2)"
