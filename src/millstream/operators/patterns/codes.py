"""What the conditions of a pattern say of many events at once: one number for each event.

A condition that looks at the event only is asked once for each, of a whole list of events: one that is an expression is
written into a loop. The answers to all of them are one number for each event, with a bit for each condition, so that
the automaton looks up what an event does with one step, and an event that fits nowhere is seen by its number::

    events       a1    x1    b1
    is a (1)      1     0     0
    is b (2)      0     0     1
    codes         1     0     2
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from millstream.operators.inlined.expressions import map_loop

__all__ = ["MOST_TOLD", "UNTOLD", "Codes", "codes_of"]

UNTOLD = -1
"""In place of an event's number: no condition was asked."""

MOST_TOLD = 16
"""Of so many conditions the answers are one number: what an event does is looked up by it, so there must be few."""

_BITS_OF_BYTE = 8
_TO_BIT = [bytes([0] + [1 << bit] * 255) for bit in range(_BITS_OF_BYTE)]

Answer = Callable[[list[Any]], list[Any]]


class Codes:
    """Asks conditions for lists of events.

    Args:
        tests: Those that look at the event only, in the order of their bits.

    Attributes:
        count: How many there are.
    """

    def __init__(self, tests: Sequence[Callable[[Any], Any]]) -> None:
        self.count = len(tests)
        self._answers: list[Answer] = [map_loop(test) or _calling(test) for test in tests]

    def of(self, events: list[Any]) -> Sequence[int]:
        """Return each event's number.

        Conditions are asked here although their answer may not matter. So if one of them raises, nothing is told: they
        are asked where it does matter, and raise there.
        """
        if self.count > MOST_TOLD:
            return [UNTOLD] * len(events)
        try:
            return codes_of([answer(events) for answer in self._answers], len(events))
        except Exception:  # noqa: BLE001 - any condition may raise anything; it will do so again if it matters
            return [UNTOLD] * len(events)


def codes_of(answers: Sequence[Sequence[Any]], count: int) -> Sequence[int]:
    """Return numbers made of what conditions say: their truth, a bit for each, the first one lowest.

    Args:
        answers: What each condition says of each event; at most 16.
        count: How many events there are.
    """
    low = _merged(answers[:_BITS_OF_BYTE], count)
    if len(answers) <= _BITS_OF_BYTE:
        return low
    high = _merged(answers[_BITS_OF_BYTE:], count)
    return [one | two << _BITS_OF_BYTE for one, two in zip(low, high, strict=True)]


def _merged(answers: Sequence[Sequence[Any]], count: int) -> bytes:
    merged = 0
    for bit, answer in enumerate(answers):
        merged |= int.from_bytes(_truths(answer).translate(_TO_BIT[bit]), "big")
    return merged.to_bytes(count, "big")


def _truths(answer: Sequence[Any]) -> bytes:
    """Return a byte for each answer, 0 if it is not true."""
    try:
        return bytes(answer)
    except (TypeError, ValueError):  # not truth values, nor small integers
        return bytes(map(bool, answer))


def _calling(test: Callable[[Any], Any]) -> Answer:
    return lambda events: list(map(test, events))
