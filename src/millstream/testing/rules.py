"""What the conformance suites have in common: rules, what breaks one, and how records are compared."""

from __future__ import annotations

import pickle
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from enum import Enum
from typing import Any

from millstream.base.errors import shorten
from millstream.base.pickling import dump_by_value

__all__ = ["ContractViolation", "KeyOf", "Rule", "as_text", "describe_difference", "travel"]

KeyOf = Callable[[Any], Any]
"""Gives something hashable that is equal for equal records."""

_SHOWN = 3


class Rule(Enum):
    """A rule of a contract; its value is what it says."""


class ContractViolation(AssertionError):
    """A connector broke a rule.

    Attributes:
        rule: The rule.
        scenario: What was being done.
        seen: What was seen of it.

    Example:
        >>> from millstream.testing import ContractViolation, SourceRule
        >>> print(ContractViolation(SourceRule.ORDER, "two subtasks", "record 7 before record 6"))
        [ORDER] records of a split come in the same order, however its ranges are cut
        Scenario: two subtasks
        Seen: record 7 before record 6
    """

    def __init__(self, rule: Rule, scenario: str, seen: str) -> None:
        super().__init__(f"[{rule.name}] {rule.value}\nScenario: {scenario}\nSeen: {seen}")
        self.rule = rule
        self.scenario = scenario
        self.seen = seen


def as_text(record: Any) -> str:
    """Return a record as text: its `repr`, or its pickle if it has none of its own."""
    shown: Any = type(record).__repr__
    if shown is object.__repr__:
        return pickle.dumps(record, protocol=5).hex()
    return repr(record)


def travel(thing: Any, rule: Rule, scenario: str) -> Any:
    """Return a copy of something as it arrives in another process.

    Raises:
        ContractViolation: If it cannot be pickled.
    """
    try:
        return pickle.loads(dump_by_value(thing))
    except Exception as error:
        raise ContractViolation(
            rule, scenario, f"{shorten(thing)} cannot be pickled: {type(error).__name__}: {error}"
        ) from error


def describe_difference(found: Iterable[Any], wanted: Iterable[Any]) -> str | None:
    """Return how two bags of records differ; None if they do not."""
    have, want = Counter(found), Counter(wanted)
    parts = [
        f"{len(missing)} are missing ({_some(missing)})"
        if (missing := list((want - have).elements()))
        else "",
        f"{len(extra)} are too many ({_some(extra)})" if (extra := list((have - want).elements())) else "",
    ]
    return " and ".join(filter(None, parts)) or None


def _some(records: Sequence[Any]) -> str:
    shown = ", ".join(shorten(record) for record in records[:_SHOWN])
    return f"{shown}, …" if len(records) > _SHOWN else shown
