"""Compares what a disturbed run gave with what the undisturbed one gave."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from enum import Enum

from millstream.base.errors import shorten

__all__ = ["Difference", "Guarantee", "compare"]

_SHOWN = 3


class Guarantee(Enum):
    """How often a record that belongs in a sink may be there after failures; the value is for people."""

    EXACTLY_ONCE = "exactly once"
    AT_LEAST_ONCE = "at least once"


@dataclass(frozen=True, slots=True)
class Difference:
    """What is wrong in one sink.

    Attributes:
        sink: Its label.
        lost: Records that are missing.
        added: Records that are there too often, or should not be there at all.
    """

    sink: str
    lost: Counter[str]
    added: Counter[str]

    def __str__(self) -> str:
        parts = [
            f"{counter.total()} {word} ({_some(counter)})"
            for word, counter in (("lost", self.lost), ("too many", self.added))
            if counter
        ]
        return f'sink "{self.sink}": {", ".join(parts)}'


def compare(
    expected: Mapping[str, Counter[str]],
    found: Mapping[str, Counter[str]],
    guarantees: Mapping[str, Guarantee],
    *,
    restarts: int,
) -> list[Difference]:
    """Return what is wrong, sink by sink.

    Args:
        expected: What the undisturbed run gave.
        found: What the disturbed run gave.
        guarantees: What each sink promises.
        restarts: How often the disturbed run began anew; without any, nobody may repeat anything.

    >>> once = {"s": Guarantee.AT_LEAST_ONCE}
    >>> compare({"s": Counter("a")}, {"s": Counter("aa")}, once, restarts=1)
    []
    >>> str(compare({"s": Counter("a")}, {"s": Counter("ab")}, once, restarts=1)[0])
    'sink "s": 1 too many (b)'
    """
    differences = []
    for sink, right in expected.items():
        there = found.get(sink, Counter())
        added = there - right
        if guarantees[sink] is Guarantee.AT_LEAST_ONCE and restarts:
            added = Counter({record: count for record, count in added.items() if record not in right})
        lost = right - there
        if lost or added:
            differences.append(Difference(sink, lost, added))
    return differences


def _some(counter: Counter[str]) -> str:
    shown = [shorten_text(record) for record in sorted(counter)[:_SHOWN]]
    return ", ".join(shown + (["…"] if len(counter) > _SHOWN else []))


def shorten_text(record: str) -> str:
    """Return a record, cut to some length."""
    return record if len(record) <= 60 else shorten(record, 60)
