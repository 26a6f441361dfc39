"""Batches that are in order of time, or all in one window."""

from __future__ import annotations

import traceback

import pytest
from hypothesis import given
from hypothesis import strategies as st
from window_harness import Harness, Sum

from millstream.common.functions import AggregateFunction
from millstream.operators.inlined.expressions import fold_loop
from millstream.operators.user_code import attached_element
from millstream.operators.windowing.assigners import SlidingEventTimeWindows, TumblingEventTimeWindows
from millstream.operators.windowing.in_order import stretches
from millstream.operators.windowing.spec import AggregateWindow, ReduceWindow

times = st.lists(st.integers(-40, 40), min_size=1, max_size=90)


@given(times, st.booleans(), st.integers(1, 50), st.integers(-50, 50))
def test_stretches_are_the_neighbours_of_one_window(timestamps, in_order, slide, offset):
    if in_order:
        timestamps.sort()
    starts = [time for stamp in timestamps for time in range(-200, 200) if 0 <= stamp - time < slide
              and (time - offset) % slide == 0]  # fmt: skip
    found = stretches(timestamps, slide, offset)
    if timestamps != sorted(timestamps) and len(set(starts)) > 1:
        assert found is None
    else:
        assert found is not None
        assert [start for start, first, stop in found for _ in range(first, stop)] == starts
        assert [start for start, _, _ in found] == sorted(set(starts))


@pytest.mark.parametrize("assigner", [TumblingEventTimeWindows.of(10), SlidingEventTimeWindows.of(20, 10)])
def test_a_record_that_fails_in_a_batch_in_order_is_named(assigner):
    run = Harness(assigner, ReduceWindow(lambda one, other: (one[0], one[1] // other[1])))
    with pytest.raises(ZeroDivisionError) as raised:
        run.add(("a", 1, 1), ("b", 2, 2), ("a", 0, 3), ("a", 5, 4))
    assert attached_element(raised.value) == "('a', 0)"


class Quotient(Sum):
    def create_accumulator(self):
        return 100

    def add(self, value, accumulator):
        return accumulator // value[1]

    def get_result(self, accumulator):
        return accumulator


class CountedQuotient(Quotient):
    calls = 0

    def add(self, value, accumulator):
        self.calls += 1
        return accumulator // value[1]


@pytest.mark.parametrize("function", [Quotient(), CountedQuotient()])
def test_a_function_of_one_expression_and_one_that_is_called_do_the_same(function):
    assert (fold_loop(function.add) is None) is isinstance(function, CountedQuotient)
    run = Harness(TumblingEventTimeWindows.of(10), AggregateWindow(function))
    run.add(("a", 2, 1), ("b", 5, 2), ("a", 5, 3), ("a", 7, 14))
    with pytest.raises(ZeroDivisionError) as raised:
        run.add(("a", 3, 5), ("b", 0, 6), ("b", 2, 7))
    assert attached_element(raised.value) == "('b', 0)"
    assert traceback.extract_tb(raised.value.__traceback__)[-1].line == "return accumulator // value[1]"
    assert [value for value, _ in run.watermark(20)[:-1]] == [3, 20, 14]


class Shared(AggregateFunction):
    """Gives the same list for every key, and changes it."""

    def __init__(self):
        self.given = []

    def create_accumulator(self):
        return 0

    def add(self, value, accumulator):
        return accumulator + value[1]

    def get_result(self, accumulator):
        self.given.append(accumulator)
        return self.given

    def merge(self, acc_a, acc_b):
        return acc_a + acc_b


class Inner(Sum):
    """Gives what is in its accumulator: a list."""

    def create_accumulator(self):
        return ("", [])

    def add(self, value, accumulator):
        accumulator[1].append(value[1])
        return accumulator

    def get_result(self, accumulator):
        return accumulator[1]


def test_results_are_what_they_were_when_they_were_given():
    window = TumblingEventTimeWindows.of(10)
    run = Harness(window, AggregateWindow(Shared()))
    run.add(("a", 1, 1), ("b", 2, 2))
    assert [value for value, _ in run.watermark(9)[:-1]] == [[1], [1, 2]]
    run = Harness(window, AggregateWindow(Inner()))
    run.add(("a", 1, 1), ("b", 2, 2), ("a", 3, 3))
    assert [value for value, _ in run.watermark(9)[:-1]] == [[1, 3], [2]]
