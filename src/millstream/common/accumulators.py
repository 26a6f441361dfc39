"""Accumulators: results on the side, merged over all subtasks (Java Flink's `api.common.accumulators`).

A function adds to its own accumulator, on the subtask's thread; those of one name are merged, over subtasks and
operators, and given back with the job's result, or while the job runs by its client::

    subtask 0   add(3) add(4) ──┐
    subtask 1   add(5) ─────────┴─ merge ──► JobExecutionResult.get_accumulator_result("name") == 12

They start anew with each attempt, as in Flink: what a failed attempt added is not counted.
"""

from __future__ import annotations

import copy
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from typing import Any, Generic, TypeVar

from millstream.base.errors import ConfigurationError, shorten

__all__ = [
    "Accumulator",
    "Accumulators",
    "AverageAccumulator",
    "DoubleCounter",
    "DoubleMaximum",
    "DoubleMinimum",
    "Histogram",
    "IntCounter",
    "IntMaximum",
    "IntMinimum",
    "ListAccumulator",
    "LongCounter",
    "LongMaximum",
    "LongMinimum",
    "SimpleAccumulator",
    "merge_accumulators",
]

V = TypeVar("V")
R = TypeVar("R")
A = TypeVar("A", bound="Accumulator[Any, Any]")


class Accumulator(ABC, Generic[V, R]):
    """Collects values in each subtask; must pickle, and merge in any order to the same result."""

    @abstractmethod
    def add(self, value: V) -> None:
        """Take a value in."""

    @abstractmethod
    def get_local_value(self) -> R:
        """Return the result of what was taken in here."""

    @abstractmethod
    def reset_local(self) -> None:
        """Forget what was taken in."""

    @abstractmethod
    def merge(self, other: Any) -> None:
        """Take in all that another accumulator of the same class has; leaves that one as it is."""

    def clone(self) -> Accumulator[V, R]:
        """Return a copy that shares nothing with this one."""
        return copy.deepcopy(self)

    def __str__(self) -> str:
        return f"{type(self).__name__} {self.get_local_value()}"


class SimpleAccumulator(Accumulator[V, V]):
    """An accumulator whose result is of the type of its values."""


class _Sum(SimpleAccumulator[Any]):
    """Adds values up."""

    _zero: float = 0

    def __init__(self, value: Any = None) -> None:
        self._local: Any = self._zero if value is None else value

    def add(self, value: Any) -> None:
        """Add a value."""
        self._local += value

    def get_local_value(self) -> Any:
        """Return the sum."""
        return self._local

    def reset_local(self) -> None:
        """Begin again at zero."""
        self._local = self._zero

    def merge(self, other: _Sum) -> None:
        """Add another's sum."""
        self._local += other._local


class IntCounter(_Sum):
    """Adds whole numbers up.

    >>> counter = IntCounter(); counter.add(2); counter.add(3); counter.get_local_value()
    5
    """


class LongCounter(_Sum):
    """Adds whole numbers up; Python's have no limit, so it is an IntCounter by another name."""


class DoubleCounter(_Sum):
    """Adds numbers up."""

    _zero = 0.0


class _Extreme(SimpleAccumulator[Any]):
    """Keeps one value, by `_choose`; before the first the farthest one that Java's type has."""

    _start: float
    _choose: Callable[..., Any]

    def __init__(self, value: Any = None) -> None:
        self._local: Any = self._start if value is None else value

    def add(self, value: Any) -> None:
        """Compare a value."""
        self._local = type(self)._choose(self._local, value)

    def get_local_value(self) -> Any:
        """Return the value that was kept."""
        return self._local

    def reset_local(self) -> None:
        """Begin again."""
        self._local = self._start

    def merge(self, other: _Extreme) -> None:
        """Compare another's value."""
        self.add(other._local)


class IntMaximum(_Extreme):
    """Keeps the greatest whole number; -2**31 before the first."""

    _start = -(2**31)
    _choose = max


class IntMinimum(_Extreme):
    """Keeps the least whole number; 2**31 - 1 before the first."""

    _start = 2**31 - 1
    _choose = min


class LongMaximum(_Extreme):
    """Keeps the greatest whole number; -2**63 before the first."""

    _start = -(2**63)
    _choose = max


class LongMinimum(_Extreme):
    """Keeps the least whole number; 2**63 - 1 before the first."""

    _start = 2**63 - 1
    _choose = min


class DoubleMaximum(_Extreme):
    """Keeps the greatest number; minus infinity before the first."""

    _start = float("-inf")
    _choose = max


class DoubleMinimum(_Extreme):
    """Keeps the least number; infinity before the first."""

    _start = float("inf")
    _choose = min


class AverageAccumulator(SimpleAccumulator[float]):
    """The mean of numbers; 0 before the first."""

    def __init__(self) -> None:
        self._count = 0
        self._sum: float = 0.0

    def add(self, value: float) -> None:
        """Take a number in."""
        self._count += 1
        self._sum += value

    def get_local_value(self) -> float:
        """Return the mean."""
        return self._sum / self._count if self._count else 0.0

    def reset_local(self) -> None:
        """Forget all numbers."""
        self._count, self._sum = 0, 0.0

    def merge(self, other: AverageAccumulator) -> None:
        """Take in another's numbers."""
        self._count += other._count
        self._sum += other._sum


class Histogram(Accumulator[int, dict[int, int]]):
    """Counts how often each value came; its result is in ascending order of values."""

    def __init__(self) -> None:
        self._counts: dict[int, int] = {}

    def add(self, value: int) -> None:
        """Count a value."""
        self._counts[value] = self._counts.get(value, 0) + 1

    def get_local_value(self) -> dict[int, int]:
        """Return how often each value came."""
        return dict(sorted(self._counts.items()))

    def reset_local(self) -> None:
        """Forget all counts."""
        self._counts = {}

    def merge(self, other: Histogram) -> None:
        """Add another's counts."""
        for value, count in other._counts.items():
            self._counts[value] = self._counts.get(value, 0) + count


class ListAccumulator(Accumulator[V, list[V]]):
    """Keeps all values, in a list; those of a subtask in the order in which they came."""

    def __init__(self) -> None:
        self._local: list[V] = []

    def add(self, value: V) -> None:
        """Append a value."""
        self._local.append(value)

    def get_local_value(self) -> list[V]:
        """Return the values."""
        return list(self._local)

    def reset_local(self) -> None:
        """Forget all values."""
        self._local = []

    def merge(self, other: ListAccumulator[V]) -> None:
        """Append another's values."""
        self._local += other._local


class Accumulators:
    """The accumulators of one operator in one subtask, by name."""

    def __init__(self) -> None:
        self._by_name: dict[str, Accumulator[Any, Any]] = {}

    def add(self, name: str, accumulator: Accumulator[Any, Any]) -> None:
        """Register an accumulator.

        Raises:
            ConfigurationError: If the operator has one of that name, or it is none.
        """
        if not isinstance(accumulator, Accumulator):
            raise ConfigurationError(
                f'accumulator "{name}" is {shorten(accumulator)}',
                hint="Give it an instance of a class derived from Accumulator, such as IntCounter().",
            )
        if name in self._by_name:
            raise ConfigurationError(
                f'accumulator "{name}" is registered already', hint="Names are unique within an operator."
            )
        self._by_name[name] = accumulator

    def get(self, name: str) -> Accumulator[Any, Any] | None:
        """Return the accumulator of that name, None if there is none."""
        return self._by_name.get(name)

    def obtain(self, name: str, kind: type[A]) -> A:
        """Return the accumulator of that name and class; registers a new one if there is none.

        Raises:
            ConfigurationError: If it is of another class.
        """
        accumulator = self._by_name.get(name)
        if accumulator is None:
            accumulator = self._by_name[name] = kind()
        if not isinstance(accumulator, kind):
            raise ConfigurationError(
                f'accumulator "{name}" was asked for as {kind.__name__}',
                detail=f"It is a {type(accumulator).__name__}.",
            )
        return accumulator

    def all(self) -> Mapping[str, Accumulator[Any, Any]]:
        """Return all accumulators by name."""
        return self._by_name


def merge_accumulators(accumulators: list[Accumulator[Any, Any]]) -> Any:
    """Return the result of accumulators of one name; leaves them as they are."""
    merged = accumulators[0].clone()
    for accumulator in accumulators[1:]:
        merged.merge(accumulator)
    return merged.get_local_value()
