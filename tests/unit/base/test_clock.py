"""Clocks: waiting, and giving up what takes too long."""

from __future__ import annotations

import threading

import pytest

from millstream.base.clock import ManualClock, SystemClock


@pytest.mark.parametrize("clock", [SystemClock(), ManualClock()])
def test_what_is_done_in_time_gives_its_result(clock):
    assert clock.within(60, lambda: 7) == 7


@pytest.mark.parametrize("clock", [SystemClock(), ManualClock()])
@pytest.mark.parametrize("error", [OSError("disk"), TimeoutError("of its own"), SystemExit(3)])
def test_an_error_is_raised_as_it_is(clock, error):
    def fail():
        raise error

    with pytest.raises(type(error)) as raised:
        clock.within(60, fail)
    assert raised.value is error


def test_what_takes_longer_is_given_up_and_goes_on():
    go_on, went_on = threading.Event(), threading.Event()

    def slow():
        go_on.wait(30)
        went_on.set()

    with pytest.raises(TimeoutError, match=r"longer than 0\.01 s"):
        SystemClock().within(0.01, slow)
    assert not went_on.is_set()
    go_on.set()
    assert went_on.wait(30)


def test_a_clock_that_is_moved_by_hand_measures_what_moved_it():
    clock = ManualClock(1_000)
    clock.within(2, lambda: clock.advance(2_000))
    with pytest.raises(TimeoutError, match="longer than 2 s"):
        clock.within(2, lambda: clock.advance(2_001))
