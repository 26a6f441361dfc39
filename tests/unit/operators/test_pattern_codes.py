"""What conditions say of many events, as numbers."""

from __future__ import annotations

import pytest

from millstream.operators.patterns.codes import MOST_TOLD, UNTOLD, Codes


class Odd:
    """True for odd numbers, and no number itself."""

    def __init__(self, number):
        self.number = number

    def __bool__(self):
        return self.number % 2 == 1


ANSWERS = [
    lambda number: number % 3 == 0,  # an expression
    lambda number: Odd(number),
    lambda number: "" if number < 4 else "text",
    lambda number: number - 5,  # any number but 0 is true, also below
    lambda number: 300 * number,
    lambda number: [number] if number == 7 else None,
]


@pytest.mark.parametrize("count", [0, 1, 6, 8, 9, 16])
def test_numbers_have_a_bit_for_the_truth_of_each_condition(count):
    tests = (ANSWERS * 3)[:count]
    expected = [sum(bool(test(number)) << bit for bit, test in enumerate(tests)) for number in range(10)]
    assert list(Codes(tests).of(list(range(10)))) == expected


def test_nothing_is_told_of_events_of_which_one_makes_a_condition_raise():
    assert list(Codes([lambda number: 1 / number]).of([1, 0])) == [UNTOLD, UNTOLD]


def test_nothing_is_told_of_too_many_conditions():
    assert list(Codes([bool] * (MOST_TOLD + 1)).of([1])) == [UNTOLD]
