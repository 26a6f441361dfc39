"""Whether a figure is as good as the committed one."""

from __future__ import annotations

import pytest
from figures import beside, by_itself
from verdicts import Mark, compare


def ratio(*rounds, floor=None, name="work"):
    return beside(
        name,
        "work",
        rounds,
        [1.0] * len(rounds),
        unit="records/s",
        peer="loop",
        more_is_better=True,
        floor=floor,
    )


def seconds(*rounds, limit=None):
    return by_itself("start", "start", rounds, unit="s", limit=limit)


def row(now, before):
    (found,) = compare({now.name: now}, {before.name: before})
    return found


def test_times_and_rates_give_the_same_ratio():
    # ours took 2 s and 4 s, the peer 1 s and 3 s: half and three quarters as fast
    took = beside("work", "work", [2.0, 4.0], [1.0, 3.0], unit="s", peer="loop")
    rates = beside(
        "work", "work", [1 / 2, 1 / 4], [1 / 1, 1 / 3], unit="records/s", peer="loop", more_is_better=True
    )
    assert took.rounds == (0.5, 0.75)
    assert rates.rounds == pytest.approx(took.rounds)
    assert (took.ours, took.theirs) == (3.0, 2.0)


def test_a_ratio_that_is_less_by_more_than_ten_per_cent_is_bad():
    assert row(ratio(0.89), ratio(1.0)).mark is Mark.BAD
    assert row(ratio(0.91), ratio(1.0)).mark is Mark.OK
    assert row(ratio(1.09), ratio(1.0)).mark is Mark.OK
    assert row(ratio(1.11), ratio(1.0)).mark is Mark.BETTER


def test_a_ratio_may_be_less_by_as_much_as_the_committed_rounds_lie_apart():
    before = ratio(0.9, 1.0, 1.2)  # median 1.0, range 0.3
    assert row(ratio(0.71), before).mark is Mark.OK
    assert row(ratio(0.69), before).mark is Mark.BAD


def test_rounds_of_the_new_run_that_lie_apart_excuse_nothing():
    assert row(ratio(0.2, 0.8, 2.0), ratio(1.0)).mark is Mark.BAD


def test_of_times_without_a_peer_more_is_worse():
    assert row(seconds(1.2), seconds(1.0)).mark is Mark.BAD
    assert row(seconds(0.8), seconds(1.0)).mark is Mark.BETTER


def test_the_median_counts_and_not_the_best_round():
    assert row(ratio(0.5, 0.5, 2.0), ratio(1.0)).mark is Mark.BAD


def test_what_is_not_committed_is_new_and_what_is_not_measured_has_failed():
    found = compare({"a": ratio(1.0, name="a")}, {"b": ratio(1.0, name="b")})
    assert [(each.name, each.mark) for each in found] == [("a", Mark.NEW), ("b", Mark.FAILED)]


@pytest.mark.parametrize(
    ("now", "before", "lost"),
    [
        (ratio(1.9, floor=2.0), ratio(2.1, floor=2.0), True),
        (ratio(1.9, floor=2.0), ratio(1.8, floor=2.0), False),  # it was missed before
        (ratio(2.0, floor=2.0), ratio(2.1, floor=2.0), False),
        (seconds(1.1, limit=1.0), seconds(0.9, limit=1.0), True),
        (seconds(0.9, limit=1.0), seconds(0.9, limit=1.0), False),
    ],
)
def test_a_floor_is_lost_where_the_committed_figure_met_it(now, before, lost):
    assert row(now, before).has_lost_its_floor is lost


def test_a_new_figure_below_its_floor_has_lost_it():
    (found,) = compare({"work": ratio(1.9, floor=2.0)}, {})
    assert found.has_lost_its_floor


@pytest.mark.parametrize("rounds", [(), (0.0,), (1.0, -1.0)])
def test_a_figure_without_rounds_above_zero_is_refused(rounds):
    with pytest.raises(ValueError, match="'start' has rounds"):
        by_itself("start", "start", rounds or (0.0,), unit="s")


def test_names_are_letters_digits_and_hyphens():
    assert by_itself("10 x local[2], functions", "", [1.0], unit="s").name == "10-x-local-2-functions"
