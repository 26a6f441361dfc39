"""Servers that are away are waited for, for as long as was said."""

from __future__ import annotations

import logging

import pytest

from millstream.base.clock import ManualClock
from millstream.base.errors import ConfigurationError
from millstream.connectors.patience import Patience

log = logging.getLogger(__name__)


def failing(times, error=ConnectionError):
    calls = []

    def action():
        calls.append(1)
        if len(calls) <= times:
            raise error(f"number {len(calls)}")
        return "there"

    return action, calls


def is_passing(error):
    return isinstance(error, ConnectionError)


def test_what_passes_is_tried_again_and_said_once(caplog):
    action, calls = failing(5)
    patience = Patience(total_s=60)
    with caplog.at_level(logging.WARNING):
        assert (
            patience.call(action, is_passing=is_passing, what="asking", log=log, clock=ManualClock(0))
            == "there"
        )
    assert len(calls) == 6
    assert [record.getMessage() for record in caplog.records] == [
        "asking: number 1; trying again for 60 s",
        "asking: succeeded after 5 failures",
    ]


def test_pauses_become_longer_so_that_there_is_no_busy_loop():
    action, calls = failing(10**9)
    clock = ManualClock(0)
    with pytest.raises(ConnectionError):
        Patience(total_s=60).call(action, is_passing=is_passing, what="asking", log=log, clock=clock)
    assert clock.monotonic() >= 60
    assert len(calls) < 40


def test_what_does_not_pass_is_raised_at_once():
    action, calls = failing(1, ValueError)
    with pytest.raises(ValueError, match="number 1"):
        Patience().call(action, is_passing=is_passing, what="asking", log=log, clock=ManualClock(0))
    assert len(calls) == 1


@pytest.mark.parametrize("arguments", [{"total_s": -1}, {"first_s": 0}, {"first_s": 2, "longest_s": 1}])
def test_times_that_make_no_sense_are_refused(arguments):
    with pytest.raises(ConfigurationError, match="makes no sense"):
        Patience(**arguments)
