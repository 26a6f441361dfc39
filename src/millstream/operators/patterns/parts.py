"""What a pattern says, as data: a sequence of parts, each with a condition and how often it occurs.

The automaton (`positions`, `table`, `automaton`) is made of this and knows no stream. Whoever has another language for
patterns - a builder of an API, a clause of SQL - describes them so.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from enum import Enum
from typing import Any

__all__ = [
    "ANYTHING",
    "Condition",
    "Contiguity",
    "Forbidden",
    "Part",
    "PatternSpec",
    "Quantity",
    "Skip",
    "SkipTo",
]


class Contiguity(Enum):
    """Which events may lie between two events of a match; the value is what programs call it."""

    STRICT = "next"
    RELAXED = "followed_by"
    ANY = "followed_by_any"


@dataclass(frozen=True)
class Condition:
    """Tells whether an event fits.

    Attributes:
        test: Called with the event; with the event and a context if `looks_back`.
        looks_back: Whether it looks at events that the match has already, so it is asked for each partial match.
        opened: What is opened before the first event and closed after the last: has `open(context)` and `close()`.
    """

    test: Callable[..., Any]
    looks_back: bool = False
    opened: tuple[Any, ...] = ()


def _always(event: Any) -> bool:
    return True


ANYTHING = Condition(_always)
"""Every event fits."""


@dataclass(frozen=True)
class Quantity:
    """How often a part occurs.

    Attributes:
        least: At least so many events (or rounds of a group), from 1.
        most: At most so many; None for any number.
        optional: Whether none at all is fine too.
        greedy: Whether what fits the part belongs to it as long as there is some.
        inner: Which events may lie between two of them.
        gap_ms: Two of them are less than this apart, milliseconds; None for any time.
    """

    least: int = 1
    most: int | None = 1
    optional: bool = False
    greedy: bool = False
    inner: Contiguity = Contiguity.RELAXED
    gap_ms: int | None = None

    @property
    def loops(self) -> bool:
        """Whether it has no upper bound."""
        return self.most is None

    def describe(self) -> str:
        """Return it as text; empty for exactly one."""
        if self.least == self.most == 1:
            text = ""
        elif self.most is None:
            text = f"{{{self.least},}}"
        else:
            text = f"{{{self.least}}}" if self.least == self.most else f"{{{self.least},{self.most}}}"
        if text and self.inner is not Contiguity.RELAXED:
            text += " consecutive" if self.inner is Contiguity.STRICT else " in any combination"
        if self.gap_ms is not None:
            text += f" less than {self.gap_ms} ms apart"
        return text + " optional" * self.optional + " greedy" * self.greedy


@dataclass(frozen=True)
class Part:
    """One part of a pattern: a condition with a name, or a group of parts.

    Attributes:
        name: The name that its events have in a match; empty for a group.
        condition: Which events fit; not looked at for a group.
        contiguity: Which events may lie between the part before and this one.
        quantity: How often it occurs.
        until: Ends a part that loops: no event from the one that fits this on belongs to it.
        gap_ms: The first event is less than this behind the last one of the part before, milliseconds.
        steps: The parts of a group; empty for a condition.
    """

    name: str = ""
    condition: Condition = ANYTHING
    contiguity: Contiguity = Contiguity.STRICT
    quantity: Quantity = Quantity()
    until: Condition | None = None
    gap_ms: int | None = None
    steps: tuple[Part | Forbidden, ...] = ()

    @property
    def is_group(self) -> bool:
        """Whether it is a group."""
        return bool(self.steps)

    def describe(self) -> str:
        """Return it as text."""
        text = f"({_describe_steps(self.steps)})" if self.is_group else self.name
        quantity = self.quantity.describe()
        text += quantity if quantity.startswith("{") or not quantity else f" {quantity.strip()}"
        if self.until is not None:
            text += " until"
        return text if self.gap_ms is None else f"{text} less than {self.gap_ms} ms behind"


@dataclass(frozen=True)
class Forbidden:
    """What must not lie between the parts around it.

    Attributes:
        name: Its name, for messages.
        condition: Which events must not be there.
        at_once: Whether only the very next event is looked at.
        gap_ms: At the end of a pattern: none for so long, milliseconds.
    """

    name: str
    condition: Condition
    at_once: bool = False
    gap_ms: int | None = None

    def describe(self) -> str:
        """Return it as text."""
        return self.name if self.gap_ms is None else f"{self.name} for {self.gap_ms} ms"


def _describe_steps(steps: tuple[Part | Forbidden, ...]) -> str:
    words: list[str] = []
    for step in steps:
        if isinstance(step, Forbidden):
            words.append("not_next" if step.at_once else "not_followed_by")
        elif words:
            words.append(step.contiguity.value)
        words.append(step.describe())
    return " ".join(words)


class SkipTo(Enum):
    """Where to go on after a match; the value is what it is called."""

    NOWHERE = "no skip"
    NEXT = "skip to next"
    PAST_LAST = "skip past last event"
    FIRST = "skip to first"
    LAST = "skip to last"


@dataclass(frozen=True)
class Skip:
    """Which other matches a match rules out.

    Attributes:
        to: Matches that begin before this are ruled out.
        name: The part, of `FIRST` and `LAST`.
        strict: Whether a match that has no such event, or begins with it, is an error.
    """

    to: SkipTo = SkipTo.NOWHERE
    name: str = ""
    strict: bool = False

    def describe(self) -> str:
        """Return it as text."""
        return f'{self.to.value} "{self.name}"' if self.name else self.to.value


@dataclass(frozen=True)
class PatternSpec:
    """A whole pattern.

    Attributes:
        steps: Its parts in order; the first is no forbidden one.
        within_ms: A match's last event is less than this behind its first, milliseconds; None for any time.
        skip: Which other matches a match rules out.
    """

    steps: tuple[Part | Forbidden, ...]
    within_ms: int | None = None
    skip: Skip = field(default_factory=Skip)

    def describe(self) -> str:
        """Return all of it but the conditions as text: two patterns of the same text have the same state."""
        text = _describe_steps(self.steps)
        if self.within_ms is not None:
            text += f" within {self.within_ms} ms"
        return text if self.skip.to is SkipTo.NOWHERE else f"{text}, {self.skip.describe()}"

    def parts(self) -> Iterator[Part | Forbidden]:
        """Yield all parts, those in groups too, in order."""
        return _walk(self.steps)


def _walk(steps: tuple[Part | Forbidden, ...]) -> Iterator[Part | Forbidden]:
    for step in steps:
        yield step
        if isinstance(step, Part):
            yield from _walk(step.steps)
