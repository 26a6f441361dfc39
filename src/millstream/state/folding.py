"""Reducing and aggregating state: a value that elements are folded into."""

from __future__ import annotations

from typing import Any

from millstream.common.state import (
    AggregatingState,
    AggregatingStateDescriptor,
    ReducingState,
    ReducingStateDescriptor,
    ValueState,
)

__all__ = ["FoldingAggregatingState", "FoldingReducingState"]


class FoldingReducingState(ReducingState[Any]):
    """Folds elements with a ReduceFunction.

    Args:
        value: Holds what was folded so far.
        descriptor: Brings the function.
    """

    __slots__ = ("_reduce", "_value")

    def __init__(self, value: ValueState[Any], descriptor: ReducingStateDescriptor) -> None:
        self._value = value
        self._reduce = descriptor.get_reduce_function().reduce

    def get(self) -> Any:
        """Return what was folded, None if nothing was added."""
        return self._value.value()

    def add(self, value: Any) -> None:
        """Fold an element in."""
        folded = _folded(self._value)
        self._value.update(value if folded is None else self._reduce(folded, value))

    def merge(self, other: FoldingReducingState) -> None:
        """Fold in what another has; the other stays as it is."""
        part = _folded(other._value)
        if part is not None:
            self.add(part)

    def clear(self) -> None:
        """Remove what was folded."""
        self._value.clear()


class FoldingAggregatingState(AggregatingState[Any, Any]):
    """Folds elements with an AggregateFunction.

    Args:
        value: Holds the accumulator.
        descriptor: Brings the function.
    """

    __slots__ = ("_function", "_value")

    def __init__(self, value: ValueState[Any], descriptor: AggregatingStateDescriptor) -> None:
        self._value = value
        self._function = descriptor.get_agg_function()

    def get(self) -> Any:
        """Return the result, None if nothing was added."""
        accumulator = self._value.value()
        return None if accumulator is None else self._function.get_result(accumulator)

    def add(self, value: Any) -> None:
        """Fold an element in; None clears the state, as in Flink."""
        if value is None:
            self._value.clear()
            return
        accumulator = _folded(self._value)
        if accumulator is None:
            accumulator = self._function.create_accumulator()
        self._value.update(self._function.add(value, accumulator))

    def merge(self, other: FoldingAggregatingState) -> None:
        """Fold in what another has; the other stays as it is."""
        part = _folded(other._value)
        if part is not None:
            mine = _folded(self._value)
            self._value.update(part if mine is None else self._function.merge(mine, part))

    def clear(self) -> None:
        """Remove the accumulator."""
        self._value.clear()


def _folded(value: Any) -> Any:
    """Return what to fold into: to look does not count as a read for the time to live."""
    peek = getattr(value, "peek", None)
    return value.value() if peek is None else peek()
