from __future__ import annotations

import random

import pytest

from millstream.base.errors import ConfigurationError, JobDefinitionError
from millstream.base.time import MAX_TIMESTAMP, MIN_TIMESTAMP
from millstream.common.co_functions import ProcessJoinFunction
from millstream.common.output_tag import OutputTag
from millstream.common.state import ValueStateDescriptor
from millstream.operators import interval_buffers
from millstream.operators.interval_join import (
    LATE_RECORDS_DROPPED,
    LEFT,
    RIGHT,
    RIGHT_EDGE,
    IntervalJoinSpec,
)
from millstream.operators.user_code import attached_element
from millstream.state.snapshots import StateChanges
from millstream.testing import OperatorHarness, OperatorSnapshot, Record, SideRecord, Watermark


class Pairs(ProcessJoinFunction):
    def process_element(self, left, right, ctx):
        yield left, right, ctx.get_left_timestamp(), ctx.get_right_timestamp(), ctx.get_timestamp()


def start(lower_ms, upper_ms, *, function=None, restore=None, tracking=False, **settings):
    spec = IntervalJoinSpec(
        function or Pairs(), lambda value: value[0], lambda value: value[0], lower_ms, upper_ms, **settings
    )
    options = {"execution.checkpointing.interval": 1} if tracking else {}
    return OperatorHarness(spec, inputs=2, processing_time=1_000, restore=restore, options=options)


def left(operator, *records):
    operator.push_batch(records, [record[1] for record in records], input=0)


def right(operator, *records):
    operator.push_batch(records, [record[1] for record in records], input=1)


def pairs(operator):
    return [(value[0][1], value[1][1]) for value in operator.take()]


def test_pair_comes_as_soon_as_both_are_there_with_the_later_time():
    # left     l10
    # right  r5   r12  r16      bounds -5 .. +5
    operator = start(-5, 5)
    left(operator, ("k", 10))
    right(operator, ("k", 5), ("other", 10), ("k", 16), ("k", 12), ("k", 4))
    assert operator.take_records() == [
        ((("k", 10), ("k", 5), 10, 5, 10), 10),
        ((("k", 10), ("k", 12), 10, 12, 12), 12),
    ]
    left(operator, ("k", 11))
    assert pairs(operator) == [(11, 12), (11, 16)]


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


@pytest.mark.parametrize("shortest_ms", [1, 3, 100])
@pytest.mark.parametrize("bounds", [(-3, 3), (0, 0), (2, 5), (-5, -2), (-4, 0), (0, 4), (-20, 1)])
def test_random_streams_with_late_and_borderline_records_give_what_flinks_rules_give(
    bounds, shortest_ms, monkeypatch
):
    monkeypatch.setattr(interval_buffers, "SHORTEST_MS", shortest_ms)
    for seed in range(25):
        dice = random.Random(seed)
        model, operator = FlinkModel(*bounds), start(*bounds, late_left_tag_id="side")
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
                operator.push_watermark(watermark)
        emitted = operator.take_elements()
        found = [each.value[:2] for each in emitted if isinstance(each, Record)]
        assert sorted(found) == sorted(model.pairs)
        assert [each for each in emitted if isinstance(each, SideRecord)] == [
            ("side", record, record[1]) for side, record in model.late if side == 0
        ]
        late_right = sum(side for side, _ in model.late)
        assert operator.counter(LATE_RECORDS_DROPPED) == late_right
        assert model.pairs and late_right


def kept(operator):
    """Return by key how many records of either side are in a checkpoint."""
    counts = {}
    for name, _, entries in operator.operators[0].snapshot_entries():
        for key, cell in entries:
            both = counts.setdefault(key, [0, 0])
            both[name in (RIGHT, RIGHT_EDGE)] += len(cell)
    return {key: tuple(both) for key, both in counts.items()}


def in_memory(operator):
    return sum(
        len(cell)
        for side in operator.operators[0]._sides
        for bucket in side.buffer.buckets().values()
        for cell in bucket.cells().values()
    )


def test_watermark_cleans_up_keys_that_nobody_touches_any_more():
    operator = start(-10, 100)
    for number in range(1_000):
        left(operator, (number, number))
        right(operator, (number, number + 5))
    assert len(kept(operator)) == 1_000
    operator.push_watermark(
        500
    )  # left ones go at time + 100, right ones at time + 5 + 10, in buckets of 100 ms
    assert len(kept(operator)) == 599
    assert 599 <= in_memory(operator) - 514 <= 599 + 100 + 100
    operator.push_watermark(2_000)
    assert kept(operator) == {}
    assert [each for each in operator.take_elements() if isinstance(each, Watermark)] == [
        Watermark(500),
        Watermark(2_000),
    ]


def test_a_busy_key_keeps_no_more_than_what_can_still_match():
    operator = start(-10, 10)
    for number in range(1_000):
        left(operator, ("k", number))
        operator.push_watermark(number)
        assert kept(operator)["k"] == (min(number + 1, 10), 0)
        assert in_memory(operator) <= 10 + 100


def test_what_is_looked_at_does_not_grow_with_keys_that_are_gone():
    operator = start(-10, 10)
    for number in range(0, 20_000, 50):
        records = [(key, key) for key in range(number, number + 50)]
        left(operator, *records)
        right(operator, *records)
        operator.push_watermark(number)
        for side in operator.operators[0]._sides:
            assert len(side.buffer._index._cells) <= 2_000
    assert len(operator.take_records()) == 20_000


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
    operator.push_watermark(5)
    side(operator, ("k", 5), ("k", 4))
    assert [each for each in operator.take_elements() if isinstance(each, SideRecord)] == expected
    for _ in range(2):
        assert operator.counter(LATE_RECORDS_DROPPED) == (0 if expected else 1), "each is counted once"
    assert kept(operator)["k"] == ((1, 0) if side is left else (0, 1))


def test_records_without_timestamps_are_refused_in_event_time():
    operator = start(-5, 5)
    with pytest.raises(JobDefinitionError, match=r"no timestamp: \('k', 1\)"):
        operator.push(("k", 1), input=1)
    operator.push_batch([])


def test_bounds_that_no_pair_fits_are_refused():
    with pytest.raises(ConfigurationError, match="from 3 to 2 ms"):
        start(3, 2)


def at(operator, now_ms):
    operator.set_processing_time(now_ms)


def test_processing_time_pairs_records_by_arrival():
    operator = start(-10, 20, event_time=False)
    operator.push_watermark(MAX_TIMESTAMP)  # of no meaning here
    operator.push(("k", "l1000"), timestamp=7)
    at(operator, 1_020)
    operator.push(("k", "r1020"), input=1)
    at(operator, 1_021)
    operator.push(("k", "r1021"), input=1)
    operator.push(("k", "l1021"))
    assert operator.take_records() == [
        ((("k", "l1000"), ("k", "r1020"), 1_000, 1_020, 1_020), None),
        ((("k", "l1021"), ("k", "r1020"), 1_021, 1_020, 1_021), None),
        ((("k", "l1021"), ("k", "r1021"), 1_021, 1_021, 1_021), None),
    ]
    at(operator, 2_000)
    assert kept(operator) == {}


def test_what_changed_is_keys_with_records_in_their_buckets_and_buckets_that_are_gone():
    operator = start(-5, 5, tracking=True)
    left(operator, *[(f"k{number}", 150) for number in range(9)], ("gone", 10))
    operator.operators[0].forget_changes()
    left(operator, ("k1", 160), ("k1", 210))
    operator.push_watermark(105)
    changes = StateChanges(128)
    assert operator.operators[0].changed_entries(changes)
    patches = changes.patches.values()
    changed = [entry for patch in patches for entry in patch.changed.get(LEFT, ())]
    assert sorted(changed) == [
        (100, "k1", [(150, ("k1", 150)), (160, ("k1", 160))]),
        (200, "k1", [(210, ("k1", 210))]),
    ]
    assert changes.dropped[LEFT] == [0]


def test_a_record_at_the_watermark_waits_until_the_next_one_also_in_checkpoints():
    # left    l10        bounds 0 .. 0; what comes at the watermark is on time, what was there is gone
    # right       W10 r10   l10   W11
    operator = start(0, 0, tracking=True)
    left(operator, ("k", 10))
    operator.snapshot()
    operator.push_watermark(10)
    right(operator, ("k", 10))
    assert pairs(operator) == []
    restored = start(0, 0, restore=operator.snapshot(incremental=True))
    for each in (operator, restored):
        assert kept(each) == {"k": (0, 1)}
        left(each, ("k", 10))
        assert pairs(each) == [(10, 10)]
        each.push_watermark(11)
        assert kept(each) == {}


def test_snapshot_goes_on_where_it_was_and_several_of_different_keys_are_joined():
    one, two = start(-5, 5), start(-5, 5)
    left(one, ("a", 10), ("a", 8))
    one.push_watermark(7)
    right(two, ("b", 20))
    two.push_watermark(9)
    files = tuple(file for each in (one, two) for file in each.snapshot().files)
    restored = start(-5, 5, restore=OperatorSnapshot(1, files, 128))
    right(restored, ("a", 12))
    left(restored, ("b", 16), ("c", 6))
    assert pairs(restored) == [(8, 12), (10, 12), (16, 20)]
    assert restored.watermark == 7
    assert restored.counter(LATE_RECORDS_DROPPED) == 1
    restored.push_watermark(100)
    assert kept(restored) == {}
    assert kept(one) == {"a": (2, 0)}


def test_hot_keys_and_batches_in_any_order_give_all_pairs_by_time():
    dice = random.Random(3)
    lefts = [("k", dice.randrange(10_000), number) for number in range(300)]
    rights = [("k", dice.randrange(10_000), number) for number in range(300)]
    operator = start(-700, 1_100)
    left(operator, *lefts)
    for begin in range(0, 300, 75):
        right(operator, *rights[begin : begin + 75])
    assert [value[:2] for value in operator.take()] == [
        (one, other)
        for other in rights
        for one in sorted(lefts, key=lambda record: record[1])
        if -700 <= other[1] - one[1] <= 1_100
    ]


class Appends(ProcessJoinFunction):
    def process_element(self, left, right, ctx):
        left.append("seen")
        right.append("seen")
        yield left, right


def test_a_function_that_changes_its_arguments_finds_them_unchanged_in_other_pairs():
    operator = start(-5, 5, function=Appends())
    right(operator, ["k", 1])
    left(operator, ["k", 2], ["k", 3])
    one, two, seen = ["k", 2, "seen"], ["k", 3, "seen"], ["k", 1, "seen"]
    assert operator.take() == [(one, seen), (two, seen)]


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
    assert operator.take_records() == [(("a", 1), 3), ("again", 3), (("b", 1), 4), ("again", 4)]
    assert operator.take_elements() == [SideRecord("side", ("a", "second"), 1)]


class Fails(ProcessJoinFunction):
    def process_element(self, left, right, ctx):
        raise ZeroDivisionError


def test_failing_record_is_named():
    operator = start(-5, 5, function=Fails())
    left(operator, ("a", 1))
    with pytest.raises(ZeroDivisionError) as raised:
        right(operator, ("b", 1), ("a", 2))
    assert attached_element(raised.value) == "('a', 2)"
