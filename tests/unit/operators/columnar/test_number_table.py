"""Integers to slots, beside a dict."""

from __future__ import annotations

import numpy as np
import pytest

from millstream.operators.columnar.number_table import NumberTable

LEAST, MOST = -(1 << 63), (1 << 63) - 1


def slots_by_hand(known, batch):
    return [known.setdefault(number, len(known)) for number in batch]


def dealt(numbers, sizes):
    while len(numbers):
        for size in sizes:
            yield numbers[:size]
            numbers = numbers[size:]


NUMBERS = np.random.default_rng(7)
WITHIN = {
    "few": NUMBERS.integers(0, 9, 3_000),
    "close": NUMBERS.integers(-4_000, 9_000, 20_000),
    "sparse": NUMBERS.integers(LEAST, MOST, 9_000)[NUMBERS.integers(0, 9_000, 20_000)],
    "growing": np.arange(40_000) // 2,
    "falling": -np.arange(40_000) // 3,
    "close, then sparse": np.append(np.arange(5_000), NUMBERS.integers(LEAST, MOST, 5_000)),
    "sparse, then close": np.append(NUMBERS.integers(-(1 << 20), 1 << 20, 300), NUMBERS.permutation(200_000)),
    "least": LEAST + NUMBERS.integers(0, 700, 3_000)[::-1],
    "most": MOST - NUMBERS.integers(0, 700, 3_000),
    "both ends": np.array([LEAST, MOST, 0, LEAST + 1, -1, MOST]),
}


@pytest.mark.parametrize("numbers", WITHIN.values(), ids=WITHIN)
@pytest.mark.parametrize("sizes", [(1, 7, 400), (5_000,), (3, 60_000)])
def test_numbers_get_slots_in_the_order_of_their_first_rows(numbers, sizes):
    table, known = NumberTable(), {}
    for batch in dealt(numbers, sizes):
        assert table.slots(batch).tolist() == slots_by_hand(known, batch.tolist())
    assert len(table) == len(known)
    assert table.numbers.tolist() == list(known)


@pytest.mark.parametrize("numbers", WITHIN.values(), ids=WITHIN)
def test_null_has_a_slot_of_its_own_whatever_the_table_becomes(numbers):
    table, known = NumberTable(), {}
    half = len(numbers) // 2
    slots_by_hand(known, numbers[:half].tolist())
    table.slots(numbers[:half])
    known["null"] = len(known)
    assert table.slot_of_null() == known["null"]
    for batch in dealt(numbers[half:], (50, 900)):
        assert table.slots(batch).tolist() == slots_by_hand(known, batch.tolist())
    assert table.slot_of_null() == table.null_slot == known["null"]


def test_a_copy_and_its_table_go_different_ways():
    table = NumberTable()
    table.slots(np.arange(10))
    copied = table.copy()
    assert table.slots(np.array([50, 3])).tolist() == [10, 3]
    assert copied.slots(np.array([1 << 50, 50])).tolist() == [10, 11]
    assert (len(table), len(copied)) == (11, 12)
