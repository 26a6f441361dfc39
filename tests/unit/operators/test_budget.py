from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from millstream.base.clock import ManualClock
from millstream.operators.budget import EpochLimits, WorkBudget


class Worker:
    """Works off records that cost time and bytes, as a subtask does; remembers its slices."""

    def __init__(self, cost_s: float = 0.0, size_bytes: int = 0) -> None:
        self.clock = ManualClock(0)
        self.cost_s, self.size_bytes = cost_s, size_bytes
        self.gathered = 0
        self.budget = WorkBudget(self.clock.monotonic)
        self.budget.scales.append(lambda: self.gathered)

    def epoch(self, limits: EpochLimits, records: int, smallest: int = 1) -> int:
        """Return how many records were begun."""
        self.budget.begin(limits)
        self.gathered = begun = 0
        self.slices = []
        while begun < records:
            granted = self.budget.take(records - begun, None, smallest)
            if not granted:
                break
            begun += granted
            self.slices.append(granted)
            self.clock.advance(granted * self.cost_s * 1000)
            self.gathered += granted * self.size_bytes
        assert self.budget.begun == begun
        return begun


def test_slow_records_are_begun_one_at_a_time_until_the_time_is_up():
    worker = Worker(cost_s=0.1)
    assert worker.epoch(EpochLimits(time_ms=250), 1_000) == 3
    assert set(worker.slices) == {1}


def test_a_record_that_takes_longer_than_the_epoch_is_begun_all_the_same():
    worker = Worker(cost_s=10.0)
    assert [worker.epoch(EpochLimits(time_ms=250), 5) for _ in range(3)] == [1, 1, 1]


def test_fast_records_are_begun_in_slices_that_grow_and_are_not_held():
    worker = Worker(cost_s=0.000_001)
    assert worker.epoch(EpochLimits(time_ms=1_000), 500_000) == 500_000
    assert len(worker.slices) < 600
    assert max(worker.slices) > 1_000


def test_slices_of_columns_take_longer_than_those_of_rows():
    for smallest, least, most in ((1, 100, 400), (100, 2_500, 10_000)):  # 1 to 4 ms, 25 to 100 ms
        worker = Worker(cost_s=0.000_01)
        assert worker.epoch(EpochLimits(time_ms=1_000), 90_000, smallest) == 90_000
        assert least <= max(worker.slices) <= most


def test_slow_records_of_one_input_are_begun_one_at_a_time_though_those_of_the_other_are_fast():
    worker = Worker(cost_s=0.000_001)
    budget, clock = worker.budget, worker.clock
    budget.begin(EpochLimits(time_ms=1_000))
    slow = []
    for _ in range(20):
        left = 5_000
        while left:
            granted = budget.take(left, "fast")
            clock.advance(granted / 1000)
            left -= granted
        slow.append(budget.take(5_000, "slow"))
        clock.advance(slow[-1] * 100)
        if not budget.seconds_left():
            break
    assert set(slow) == {1}


def test_what_is_large_is_held_when_the_space_is_up():
    worker = Worker(size_bytes=1 << 20)
    begun = [worker.epoch(EpochLimits(size_bytes=64 << 20), 2_000) for _ in range(3)]
    assert all(64 <= each <= 128 for each in begun), begun


def test_without_limits_everything_is_begun():
    worker = Worker(cost_s=1.0, size_bytes=1 << 30)
    assert worker.epoch(EpochLimits(), 1_000) == 1_000


@given(st.lists(st.integers(0, 50), max_size=20), st.integers(1, 30))
def test_a_limit_of_records_is_kept_whatever_the_batches(batches, most):
    budget = WorkBudget()
    budget.begin(EpochLimits(records=most))
    begun = 0
    for batch in batches:
        while batch and (granted := budget.take(batch)):
            begun += granted
            batch -= granted
    assert begun == min(sum(batches), most)


def test_safe_points_suspend_only_when_space_is_up_or_time_and_a_tenth_more():
    worker = Worker()
    left = []
    worker.budget.suspend = lambda: left.append(worker.clock.monotonic())
    worker.budget.begin(EpochLimits(time_ms=100, size_bytes=10))
    worker.gathered = 0
    worker.budget.reach_safe_point()
    assert left == []
    worker.gathered = 10
    worker.budget.reach_safe_point()
    assert len(left) == 1
    assert worker.budget.take(5) == 0
    worker.budget.begin(EpochLimits(time_ms=100))
    worker.clock.advance(100)
    worker.budget.reach_safe_point()
    assert len(left) == 1, "what ends soon is not left: nothing could be read before its end"
    worker.clock.advance(11)
    worker.budget.reach_safe_point()
    assert len(left) == 2


def test_time_that_is_left_never_is_less_than_none():
    worker = Worker()
    worker.budget.begin(EpochLimits(time_ms=100))
    assert worker.budget.seconds_left() == pytest.approx(0.1)
    worker.clock.advance(500)
    assert worker.budget.seconds_left() == 0.0


def slices_of_columns(size_bytes, records):
    """Return the slices of records that are worth a call only if they are many, each made into so many bytes."""
    gathered, slices = 0, []
    budget = WorkBudget(ManualClock(0).monotonic)
    budget.scales.append(lambda: gathered)
    budget.begin(EpochLimits(size_bytes=64 << 20))
    while records and (granted := budget.take(records, "columns", 4_096)):
        slices.append(granted)
        records -= granted
        gathered += granted * size_bytes
    return slices


def test_columns_are_begun_in_large_slices_after_a_first_look():
    assert slices_of_columns(8, 20_000)[:3] == [256, 4_096, 4_096]


def test_what_is_made_of_columns_bounds_their_slices_whatever_a_call_is_worth():
    slices = slices_of_columns(100_000, 20_000)
    assert slices[0] == 256
    assert max(slices[1:]) * 100_000 <= 8 << 20
    assert sum(slices) * 100_000 < (64 << 20) + (8 << 20)


def test_slices_of_columns_grow_again_when_little_is_made_of_them():
    gathered = 0
    budget = WorkBudget(ManualClock(0).monotonic)
    budget.scales.append(lambda: gathered)
    budget.begin()
    assert budget.take(100_000, None, 4_096) == 256
    gathered += 100 << 20
    slices = [budget.take(100_000, None, 4_096) for _ in range(8)]
    assert slices[0] < 16
    assert slices[-1] >= 4_096
