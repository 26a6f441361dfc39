"""What an aggregate function is to an operator: numbers by slot, to which whole columns are added."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa

from millstream.table.expressions.rex import AggregateCall
from millstream.table.runtime.arrays import validity_of
from millstream.table.runtime.growing import Lane
from millstream.types.datatypes import DataType

__all__ = ["Accumulator", "Settings", "add_at", "without_nulls"]


@dataclass(frozen=True)
class Settings:
    """What an accumulator is made of.

    Attributes:
        call: The aggregate.
        arguments: Arrow types of its arguments.
        result: Arrow type of its result.
        retracts: Whether rows may be taken back.
        rows: How many rows each slot has; the table's.
        types: SQL types of the arguments.
        every: Whether all rows count, and no argument is NULL: then the values are as many as the rows.
    """

    call: AggregateCall
    arguments: tuple[pa.DataType, ...]
    result: pa.DataType
    retracts: bool
    rows: Lane
    types: tuple[DataType, ...]
    every: bool


class Accumulator(ABC):
    """Base of accumulators; none but `objects.ObjectAccumulator`s have a loop over rows.

    Args:
        settings: What it is made of.

    Attributes:
        partial_kinds: Arrow types of `partials`; None if they do not travel, so nothing is put together before the
            exchange.
    """

    partial_kinds: Sequence[pa.DataType] | None = None

    def __init__(self, settings: Settings) -> None:
        self.settings = settings
        self.result = settings.result

    @abstractmethod
    def reach(self, count: int) -> None:
        """Make room for so many slots."""

    @abstractmethod
    def add(self, slots: Any, weights: Any | None, columns: Sequence[pa.Array]) -> None:
        """Add rows, in order.

        Args:
            slots: The slot of each row.
            weights: How often each counts, negative to take it back; None for once each.
            columns: The arguments.
        """

    @abstractmethod
    def results(self, slots: Any) -> pa.Array:
        """Return the result of each slot."""

    @abstractmethod
    def clear(self, slots: Any) -> None:
        """Have slots begin anew, with nothing."""

    @abstractmethod
    def keep(self, slots: Any) -> None:
        """Have some slots only, numbered anew in the order given."""

    @abstractmethod
    def partials(self, slots: Any) -> list[Any]:
        """Return columns that stand for what slots have, for `add_partials` of another one."""

    @abstractmethod
    def add_partials(self, slots: Any, columns: Sequence[Any]) -> None:
        """Add rows of `partials`, in order, each as if it were the rows that it stands for."""

    @abstractmethod
    def entries(self, slots: Any) -> list[Any]:
        """Return plain values from which `restore` makes the same, one for each slot."""

    @abstractmethod
    def restore(self, slots: Any, entries: Sequence[Any]) -> None:
        """Take over what `entries` gave, into slots that have nothing yet."""


def without_nulls(
    slots: Any, weights: Any | None, columns: Sequence[pa.Array]
) -> tuple[Any, Any | None, list[pa.Array]]:
    """Return the rows of which no argument is NULL."""
    valid = None
    for column in columns:
        there = validity_of(column)
        if there is not None:
            valid = there if valid is None else valid & there
    if valid is None:
        return slots, weights, list(columns)
    mask = pa.array(valid)
    return (
        slots[valid],
        None if weights is None else weights[valid],
        [column.filter(mask) for column in columns],
    )


def add_at(array: Any, slots: Any, values: Any) -> None:
    """Add values, or one number, to an array in places that may come twice."""
    if isinstance(values, int):
        if len(slots) * 8 >= len(array):
            array += np.bincount(slots, minlength=len(array)) * values
        else:
            np.add.at(array, slots, values)
        return
    np.add.at(array, slots, values)
