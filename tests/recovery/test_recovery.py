"""Programs that fail give what they give undisturbed, wherever they fail and however often checkpoints are made."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from recovery_programs import PROGRAMS
from recovery_support import FAULTS, SAME, difference, run

FAILURES = st.tuples(st.integers(1, 55), st.lists(st.integers(1, 90), max_size=3)).map(
    lambda gaps: [gaps[0], *gaps[1]]
)


@pytest.fixture(scope="module")
def expected():
    found = {}

    def look_up(name):
        if name not in found:
            found[name] = run(PROGRAMS[name], epoch=8)
            assert found[name], "a program without results proves nothing"
        return found[name]

    return look_up


@pytest.mark.parametrize("name", PROGRAMS)
@settings(max_examples=6, deadline=None)
@given(
    gaps=FAILURES,
    interval=st.integers(1, 15),
    parallelism=st.integers(1, 3),
    epoch=st.sampled_from([1, 3, 8]),
)
def test_results_are_those_of_the_undisturbed_run(expected, name, gaps, interval, parallelism, epoch):
    found = run(PROGRAMS[name], parallelism=parallelism, epoch=epoch, interval=interval, gaps=gaps)
    assert FAULTS.raised
    assert difference(found, expected(name)) == SAME
