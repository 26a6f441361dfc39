from __future__ import annotations

import subprocess
import sys

from hypothesis import given
from hypothesis import strategies as st

from millstream.state.key_groups import KeyGroupMemo, key_group, key_group_range, subtask_of

KNOWN = {"AA": 16, "B6": 70, 0: 0, 1: 30, ("JFK", 4): 39, None: 82}


@given(st.integers(1, 300), st.data())
def test_ranges_cut_all_key_groups_without_gap_or_overlap(groups, data):
    parallelism = data.draw(st.integers(1, groups))
    owned = [list(key_group_range(subtask, groups, parallelism)) for subtask in range(parallelism)]
    assert sum(owned, []) == list(range(groups))
    assert all(owned)
    for subtask, mine in enumerate(owned):
        assert {subtask_of(group, groups, parallelism) for group in mine} == {subtask}


def test_key_groups_are_those_of_every_earlier_run():
    assert {key: key_group(key, 128) for key in KNOWN} == KNOWN


def test_key_groups_do_not_depend_on_the_interpreter_run():
    code = f"from millstream.state.key_groups import key_group; print([key_group(k, 128) for k in {list(KNOWN)!r}])"
    out = subprocess.run(
        [sys.executable, "-c", code], env={"PYTHONHASHSEED": "7"}, capture_output=True, text=True
    )
    assert out.stdout.strip() == str(list(KNOWN.values())), out.stderr


def test_small_integers_spread_over_all_subtasks():
    counts = [0] * 8
    for subtask in KeyGroupMemo(128, 8).subtasks(range(8_000)):
        counts[subtask] += 1
    assert min(counts) > 700


@given(st.lists(st.integers() | st.text() | st.tuples(st.integers(), st.text())), st.integers(1, 16))
def test_memo_gives_the_owner_of_each_key(keys, parallelism):
    memo = KeyGroupMemo(128, parallelism)
    expected = [subtask_of(key_group(key, 128), 128, parallelism) for key in keys]
    assert memo.subtasks(keys) == expected
    assert memo.subtasks(keys[::-1]) == expected[::-1]
