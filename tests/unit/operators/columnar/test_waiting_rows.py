"""Rows that wait: in order, bounded, and not copied while they are far away."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pytest

from millstream.operators.columnar import waiting_rows
from millstream.operators.columnar.groups import KeyedRows
from millstream.operators.columnar.waiting_rows import WaitingRows


def add(waiting, times, first=0):
    column = pa.array(range(first, first + len(times)))
    waiting.add(np.array(times, np.int64), KeyedRows([column], [None]))


def taken(waiting, until=None):
    found = waiting.take(None if until is None else lambda times: times <= until)
    return None if found is None else (found[0].tolist(), found[1].keys[0].to_pylist())


@pytest.mark.parametrize("parts", [1, 256])
def test_rows_that_are_due_are_taken_and_all_stay_in_the_order_in_which_they_came(monkeypatch, parts):
    monkeypatch.setattr(waiting_rows, "_MOST_PARTS", parts)
    waiting = WaitingRows()
    add(waiting, [0, 10, 0])
    add(waiting, [20, 10], 3)
    add(waiting, [10, 0], 5)
    assert taken(waiting, 0) == ([0, 0, 0], [0, 2, 6])
    assert (waiting.count, waiting.lowest) == (4, 10)
    assert taken(waiting, 0) is None
    assert taken(waiting) == ([10, 20, 10, 10], [1, 3, 4, 5])
    assert (waiting.count, waiting.lowest) == (0, None)
    assert taken(waiting) is None


def test_rows_far_away_are_not_touched_by_those_that_are_due():
    waiting = WaitingRows()
    far = np.array([1_000] * 5, np.int64)
    waiting.add(far, KeyedRows([pa.array(range(5))], [None]))
    add(waiting, [0, 10])
    waiting.take(lambda times: times <= 0)
    assert any(part.times is far for part in waiting._parts)


def test_as_many_rows_wait_for_each_window_as_for_one_and_for_some_windows_at_the_most(monkeypatch):
    monkeypatch.setattr(waiting_rows, "_MOST_WAITING", 3)
    waiting = WaitingRows()
    add(waiting, [0, 0])
    assert not waiting.is_full(10)
    add(waiting, [0])
    assert waiting.is_full(10)
    add(waiting, [10])
    assert not waiting.is_full(10)
    assert waiting.is_full()
    add(waiting, [50, 40])
    assert not waiting.is_full(10)
    add(waiting, [1_000] * 18)
    assert waiting.is_full(10)


def test_few_rows_with_many_bytes_do_not_wait(monkeypatch):
    monkeypatch.setattr(waiting_rows, "_MOST_WAITING", 3)
    monkeypatch.setattr(waiting_rows, "_MOST_BYTES", 100)
    waiting = WaitingRows()
    add(waiting, [0, 1_000, 2_000])
    assert not waiting.is_full(10)
    add(waiting, [3_000] * 10)
    assert waiting.is_full(10)
