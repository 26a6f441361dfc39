from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from millstream.runtime.job.pacing import EpochSizer


def test_budget_comes_to_rest_at_the_target_whatever_the_speed_of_the_job():
    for records_per_ms in (3, 100, 400):
        sizer = EpochSizer(target_ms=1000, min_records=100, max_records=500_000)
        for _ in range(20):
            sizer.observe(took_ms=sizer.budget / records_per_ms, backlog=True)
        assert 0.5 <= sizer.budget / records_per_ms / 1000 <= 2.0


@given(st.lists(st.floats(0.95, 1.05), min_size=30, max_size=60))
def test_epochs_that_are_a_twentieth_slower_or_faster_end_before_subtasks_hold(speeds):
    sizer = EpochSizer(target_ms=1000, min_records=100, max_records=500_000)
    for speed in speeds:
        took_ms = sizer.budget / (100 * speed)
        assert took_ms <= sizer.limit_ms
        sizer.observe(took_ms=took_ms, backlog=True, begun=sizer.budget)
    assert sizer.budget > 70_000


def test_budget_grows_where_nothing_is_counted_as_begun():
    sizer = EpochSizer(target_ms=1000, min_records=100, max_records=500_000)
    for _ in range(5):
        sizer.observe(took_ms=sizer.budget / 1000, backlog=True, begun=0)
    assert sizer.budget > 100_000


def test_budget_stays_while_there_is_no_backlog():
    sizer = EpochSizer(target_ms=1000, min_records=100, max_records=500_000)
    before = sizer.budget
    sizer.observe(took_ms=1, backlog=False)
    sizer.observe(took_ms=60_000, backlog=False)
    assert sizer.budget == before


@given(st.lists(st.tuples(st.floats(0, 1e7), st.booleans(), st.none() | st.integers(0, 50_000))))
def test_budget_stays_within_its_bounds(epochs):
    sizer = EpochSizer(target_ms=200, min_records=100, max_records=50_000)
    for took_ms, backlog, begun in epochs:
        sizer.observe(took_ms=took_ms, backlog=backlog, begun=begun)
        assert 100 <= sizer.budget <= 50_000


def test_fixed_budget_never_changes_and_ignores_the_bounds():
    sizer = EpochSizer(target_ms=200, min_records=100, max_records=50_000, fixed_records=3)
    sizer.observe(took_ms=1, backlog=True)
    assert sizer.budget == 3


def test_budget_of_a_slow_job_comes_to_what_is_done_of_it_within_a_quarter_of_the_target():
    sizer = EpochSizer(target_ms=1000, min_records=1, max_records=500_000)
    held = 0
    for _ in range(10):
        held += 0 if held else sizer.budget
        begun = min(held, 3)
        held -= begun
        sizer.observe(took_ms=300, backlog=True, begun=begun, held=held)
    assert sizer.budget <= 4
    assert sizer.limit_ms == 250


def test_epochs_of_a_fast_job_may_last_as_long_as_the_target():
    sizer = EpochSizer(target_ms=1000, min_records=1, max_records=500_000)
    for _ in range(6):
        sizer.observe(took_ms=max(sizer.budget / 400, 30), backlog=True, begun=sizer.budget)
    assert sizer.limit_ms == 1000
    assert sizer.budget > 300_000


def test_what_an_epoch_costs_however_small_it_is_does_not_keep_it_small():
    sizer = EpochSizer(target_ms=200, min_records=100, max_records=1_000_000)
    budgets = []
    for _ in range(5):  # 0.01 ms a record, and 150 ms of Spark's own
        busy_ms = sizer.budget / 100
        sizer.observe(took_ms=150 + busy_ms, backlog=True, begun=sizer.budget, busy_ms=busy_ms)
        budgets.append(sizer.budget)
    assert budgets[:2] == [4_000, 8_000]
    assert budgets[-1] == 8_000, "as much work as half of what is aimed at"


def test_what_a_sink_takes_for_its_flush_does_not_make_epochs_ever_smaller():
    sizer = EpochSizer(target_ms=1000, min_records=1, max_records=500_000)
    budgets = []
    for _ in range(30):  # 0.1 ms a record, and 2 s for a flush, in which the subtask counts as busy
        busy_ms = 2_000 + sizer.budget / 10
        sizer.observe(took_ms=busy_ms, backlog=True, begun=sizer.budget, busy_ms=busy_ms)
        budgets.append(sizer.budget)
    assert min(budgets) >= 10
    assert budgets[-1] >= 1_000


def test_a_flush_that_was_slow_for_a_while_is_forgotten():
    sizer = EpochSizer(target_ms=1000, min_records=1, max_records=500_000)
    for flush_ms in [3_000] * 5 + [0] * 20:
        busy_ms = flush_ms + sizer.budget / 10
        sizer.observe(took_ms=busy_ms, backlog=True, begun=sizer.budget, busy_ms=busy_ms)
    assert 0.25 <= sizer.budget / 10 / 1000 <= 2.0
