"""Restart strategies: when, and how often."""

from __future__ import annotations

import random

import pytest

from millstream.config.configuration import Configuration
from millstream.runtime.recovery.restart import ExponentialDelay, FailureRate, FixedDelay, restart_strategy


def delays(strategy, *times):
    return [strategy.delay_after_failure(time) for time in times]


def test_fixed_delay_gives_up_after_its_attempts():
    assert delays(FixedDelay(2, 500), 0, 10, 10**9) == [500, 500, None]


def test_failure_rate_counts_within_its_interval():
    strategy = FailureRate(max_failures=2, interval_ms=1000, delay_ms=7)
    assert delays(strategy, 0, 900, 1100, 1800) == [7, 7, 7, None]


def exponential(**settings):
    given = {
        "initial_ms": 100,
        "max_ms": 1000,
        "multiplier": 3.0,
        "reset_ms": 5000,
        "jitter": 0.0,
        "attempts": None,
    }
    return ExponentialDelay(**{**given, **settings})


def test_exponential_delay_grows_to_its_limit_and_begins_anew_after_a_good_while():
    # Each failure comes 10 ms after the start; the last one after a run of 5 s.
    assert delays(exponential(), 0, 110, 420, 1330, 2340, 2340 + 1000 + 5000) == [
        100,
        300,
        900,
        1000,
        1000,
        100,
    ]


def test_exponential_delay_gives_up_after_its_attempts():
    assert delays(exponential(attempts=2), 0, 110, 420) == [100, 300, None]


def test_jitter_stays_within_its_fraction():
    drawn = {exponential(jitter=0.1, rng=random.Random(seed)).delay_after_failure(0) for seed in range(200)}
    assert min(drawn) >= 90
    assert max(drawn) <= 110
    assert len(drawn) > 10


@pytest.mark.parametrize(
    ("settings", "expected"),
    [
        ({}, [None]),
        (
            {
                "execution.checkpointing.interval": "1 s",
                "restart-strategy.exponential-delay.jitter-factor": 0.0,
            },
            [1000],
        ),
        ({"execution.checkpointing.interval": "1 s", "restart-strategy.type": "none"}, [None]),
        (
            {
                "restart-strategy.type": "fixed-delay",
                "restart-strategy.fixed-delay.attempts": 1,
                "restart-strategy.fixed-delay.delay": "3 s",
            },
            [3000, None],
        ),
        (
            {"restart-strategy.type": "failure-rate", "restart-strategy.failure-rate.delay": "2 s"},
            [2000, None],
        ),
    ],
)
def test_the_strategy_is_what_the_options_say(settings, expected):
    strategy = restart_strategy(Configuration.from_dict(settings))
    assert delays(strategy, *range(len(expected))) == expected
