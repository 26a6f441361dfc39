"""Joins in windows: records of two streams in one window of one key.

Both streams are tagged, united and cut into windows as one. A tagged record is `(key, side, record)`, side 0
for the first stream and 1 for the second; custom triggers and evictors of such windows see these tuples.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from itertools import product, repeat
from operator import itemgetter
from typing import Any

from millstream.base.errors import TypeMismatchError
from millstream.common.co_functions import CoGroupFunction, FlatJoinFunction, JoinFunction
from millstream.common.functions import Function, RuntimeContext, WindowFunction
from millstream.common.windows import Window
from millstream.operators.base import Operator, OperatorSpec
from millstream.operators.functions_adapter import close_function, open_function
from millstream.operators.plain_functions import is_plain
from millstream.operators.user_code import attach_element
from millstream.operators.values import ATOMIC, all_immutable, claim, copy_of, protect, take_all
from millstream.spi.batch import Rows

__all__ = ["TAGGED_KEY", "TagSpec", "co_group_windows", "join_windows"]

TAGGED_KEY = itemgetter(0)
"""Gives the key of a tagged record."""


@dataclass(frozen=True)
class TagSpec(OperatorSpec):
    """Declares the tagging of one side's records.

    Attributes:
        side: 0 or 1.
        key_selector: Gives a record's key.
    """

    side: int
    key_selector: Callable[[Any], Any]

    def build(self) -> Operator:
        """Make the running half."""
        return TagOperator(self.side, self.key_selector)


class TagOperator(Operator):
    """Makes `(key, side, record)` of each record."""

    def __init__(self, side: int, key_selector: Callable[[Any], Any]) -> None:
        self._side = side
        self._key_selector = key_selector
        self._plain = is_plain(key_selector)

    def process(self, batch: Rows) -> None:
        """Tag a batch."""
        values, timestamps = batch.values, batch.timestamps
        select = self._key_selector
        keys: list[Any] = []
        value = None
        try:
            for value in values:
                keys.append(select(value))
        except BaseException as error:
            attach_element(error, value)
            raise
        value = None
        if not self._plain:
            claim(values)
        self.output.emit(Rows(list(zip(keys, repeat(self._side), values, strict=False)), timestamps))


def _split(tagged: Iterable[tuple[Any, int, Any]]) -> tuple[list[Any], list[Any]]:
    first: list[Any] = []
    second: list[Any] = []
    for _, side, value in tagged:
        (second if side else first).append(value)
    return first, second


def _pairs(tagged: Iterable[tuple[Any, int, Any]]) -> Iterator[tuple[Any, Any]]:
    """Return every pair, of records of its own: the function may change them, and they have other pairs."""
    first, second = _split(tagged)
    if all_immutable(first) and all_immutable(second):
        return product(first, second)
    return ((copy_of(left), copy_of(right)) for left in first for right in second)


class _TwoSided(WindowFunction):
    """Opens and closes the user's function.

    Attributes:
        function: The user's function.
    """

    def __init__(self, function: Any) -> None:
        self.function = function

    def open(self, runtime_context: RuntimeContext) -> None:
        """Open the function."""
        open_function(self.function, runtime_context)

    def close(self) -> None:
        """Close the function."""
        close_function(self.function)


class JoinWindows(_TwoSided):
    """Calls a JoinFunction or callable for every pair: the first stream's records outside, each in order."""

    def apply(self, key: Any, window: Window, inputs: Iterable[Any]) -> Iterable[Any] | None:
        """Return one record for each pair."""
        join = self.function.join if isinstance(self.function, JoinFunction) else self.function
        results: list[Any] = []
        for left, right in _pairs(inputs):
            result = join(left, right)
            results.append(result if type(result) in ATOMIC else protect(result))
        return results


class FlatJoinWindows(_TwoSided):
    """Calls a FlatJoinFunction for every pair."""

    def apply(self, key: Any, window: Window, inputs: Iterable[Any]) -> Iterable[Any] | None:
        """Return what the function yields for each pair."""
        join = self.function.join
        results: list[Any] = []
        for left, right in _pairs(inputs):
            produced = join(left, right)
            if produced is not None:
                take_all(produced, results)
        return results


class CoGroupWindows(_TwoSided):
    """Calls a CoGroupFunction or callable for both sides of a window."""

    def apply(self, key: Any, window: Window, inputs: Iterable[Any]) -> Iterable[Any] | None:
        """Return what the function yields."""
        group = self.function.co_group if isinstance(self.function, CoGroupFunction) else self.function
        produced: Iterable[Any] | None = group(*_split(inputs))
        return produced


def join_windows(function: JoinFunction | FlatJoinFunction | Callable[[Any, Any], Any]) -> WindowFunction:
    """Return what joins the two sides of a window.

    Raises:
        TypeMismatchError: If it is neither a join function nor a callable.
    """
    if isinstance(function, FlatJoinFunction):
        return FlatJoinWindows(function)
    if not isinstance(function, JoinFunction) and (isinstance(function, Function) or not callable(function)):
        raise TypeMismatchError(
            f"apply was given a {type(function).__name__}, not a JoinFunction, FlatJoinFunction or callable"
        )
    return JoinWindows(function)


def co_group_windows(
    function: CoGroupFunction | Callable[[Iterable[Any], Iterable[Any]], Iterable[Any] | None],
) -> WindowFunction:
    """Return what groups the two sides of a window.

    Raises:
        TypeMismatchError: If it is neither a CoGroupFunction nor a callable.
    """
    if not isinstance(function, CoGroupFunction) and (
        isinstance(function, Function) or not callable(function)
    ):
        raise TypeMismatchError(
            f"apply was given a {type(function).__name__}, not a CoGroupFunction or callable"
        )
    return CoGroupWindows(function)
