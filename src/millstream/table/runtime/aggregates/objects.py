"""Aggregates whose state is a Python object for each slot: lists of values, and users' functions.

These have a loop over rows: what they keep is as long as what they are given.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable, Sequence
from functools import cmp_to_key
from typing import Any

import numpy as np
import pyarrow as pa

from millstream.table.expressions.errors import EvaluationError
from millstream.table.functions.aggregate_calls import UserAggregate
from millstream.table.functions.kernels.json import _to_json
from millstream.table.functions.kernels.json_paths import dump_json
from millstream.table.runtime.aggregates.accumulator import Accumulator, Settings
from millstream.table.runtime.growing import Lane

__all__ = ["LIST_FUNCTIONS", "ListAccumulator", "UserAccumulator"]


class ObjectAccumulator(Accumulator):
    """Base: an object for each slot, None for nothing."""

    def __init__(self, settings: Settings) -> None:
        super().__init__(settings)
        self._states = Lane(object, None)

    @abstractmethod
    def create(self) -> Any:
        """Return the state of a slot without rows."""

    @abstractmethod
    def merge(self, state: Any, other: Any) -> Any:
        """Return a state with what another one has, which counts as later and stays as it is."""

    @abstractmethod
    def array(self, states: Sequence[Any]) -> pa.Array:
        """Return results of states, None for those without rows."""

    def reach(self, count: int) -> None:
        self._states.reach(count)

    def results(self, slots: Any) -> pa.Array:
        return self.array(self._states.array[slots].tolist())

    def clear(self, slots: Any) -> None:
        self._states.array[slots] = None

    def keep(self, slots: Any) -> None:
        self._states.keep(slots)

    def partials(self, slots: Any) -> list[Any]:
        return [self._states.array[slots]]

    def add_partials(self, slots: Any, columns: Sequence[Any]) -> None:
        states = self._states.array
        for slot, other in zip(slots.tolist(), columns[0], strict=True):
            if other is not None:
                state = states[slot]
                states[slot] = self.merge(self.create() if state is None else state, other)

    def entries(self, slots: Any) -> list[Any]:
        return list(self._states.array[slots].tolist())

    def restore(self, slots: Any, entries: Sequence[Any]) -> None:
        for slot, entry in zip(slots.tolist(), entries, strict=True):
            self._states.array[slot] = entry


class ListAccumulator(ObjectAccumulator):
    """Functions of all values of a slot: a list of them, in the order in which they came or were asked for."""

    def __init__(self, settings: Settings) -> None:
        super().__init__(settings)
        function = settings.call.function
        self._finish = LIST_FUNCTIONS[function](settings)
        self._keeps_null = settings.call.nulls == "NULL ON NULL" or (
            function in ("ARRAY_AGG", "JSON_OBJECTAGG", "SINGLE_VALUE")
            and settings.call.nulls != "IGNORE NULLS"
        )
        self._order = settings.call.order
        self._arguments = len(settings.arguments)

    def create(self) -> Any:
        return []

    def merge(self, state: Any, other: Any) -> Any:
        return [*state, *other]

    def add(self, slots: Any, weights: Any | None, columns: Sequence[pa.Array]) -> None:
        rows = list(zip(*(column.to_pylist() for column in columns), strict=True))
        often = [1] * len(rows) if weights is None else weights.tolist()
        states = self._states.array
        for slot, weight, row in zip(slots.tolist(), often, rows, strict=True):
            if row[0] is None and not self._keeps_null:
                continue
            state = states[slot]
            if state is None:
                state = states[slot] = []
            if weight > 0:
                state.extend([row] * weight)
            else:
                for _ in range(-weight):
                    if row in state:
                        state.remove(row)

    def array(self, states: Sequence[Any]) -> pa.Array:
        values = [None if not state else self._finish(self._ordered(state)) for state in states]
        return pa.array(values, self.result)

    def _ordered(self, state: list[Any]) -> list[Any]:
        if not self._order:
            return state

        def compare(one: tuple[Any, ...], other: tuple[Any, ...]) -> int:
            for place, key in enumerate(self._order, self._arguments):
                mine, its = one[place], other[place]
                if mine == its:
                    continue
                if mine is None or its is None:
                    return -1 if (mine is None) == key.nulls_first else 1
                return -1 if (mine < its) != key.descending else 1
            return 0

        return sorted(state, key=cmp_to_key(compare))


def _joined(settings: Settings) -> Callable[[list[Any]], Any]:
    has_separator = len(settings.arguments) > 1
    return lambda rows: (rows[0][1] if has_separator else ",").join(row[0] for row in rows)


def _multiset(settings: Settings) -> Callable[[list[Any]], Any]:
    def finish(rows: list[Any]) -> Any:
        counts: list[list[Any]] = []
        known: dict[Any, list[Any]] = {}
        for value, *_ in rows:
            key = repr(value) if isinstance(value, (list, dict)) else value
            if key in known:
                known[key][1] += 1
            else:
                known[key] = [value, 1]
                counts.append(known[key])
        return [tuple(each) for each in counts]

    return finish


def _listed(settings: Settings) -> Callable[[list[Any]], Any]:
    return lambda rows: [row[0] for row in rows]


def _edge(settings: Settings) -> Callable[[list[Any]], Any]:
    place = 0 if settings.call.function == "FIRST_VALUE" else -1
    return lambda rows: rows[place][0]


def _single(settings: Settings) -> Callable[[list[Any]], Any]:
    def finish(rows: list[Any]) -> Any:
        if len(rows) > 1:
            raise EvaluationError(
                f"a subquery that stands for one value gave {len(rows)} rows",
                hint="Let it give one row: with an aggregate such as MAX, or a condition on a unique key.",
            )
        return rows[0][0]

    return finish


def _json_array(settings: Settings) -> Callable[[list[Any]], Any]:
    write = _to_json(settings.types[0])
    return lambda rows: "[" + ",".join(write(row[0]) for row in rows) + "]"


def _json_object(settings: Settings) -> Callable[[list[Any]], Any]:
    write = _to_json(settings.types[1])
    absent = settings.call.nulls == "ABSENT ON NULL"

    def finish(rows: list[Any]) -> str:
        shown = (row for row in rows if row[0] is not None and not (absent and row[1] is None))
        return "{" + ",".join(f"{dump_json(row[0])}:{write(row[1])}" for row in shown) + "}"

    return finish


def _percentile(settings: Settings) -> Callable[[list[Any]], Any]:
    has_often = len(settings.arguments) > 2

    def finish(rows: list[Any]) -> Any:
        numbers = np.array([float(row[0]) for row in rows])
        often = np.array([int(row[2] or 0) if has_often else 1 for row in rows])
        numbers = np.sort(np.repeat(numbers, np.maximum(often, 0)))
        wanted = rows[0][1]
        if not len(numbers) or wanted is None:
            return None
        if isinstance(wanted, list):
            return [_interpolated(numbers, float(each)) for each in wanted]
        return _interpolated(numbers, float(wanted))

    return finish


def _interpolated(numbers: Any, share: float) -> float:
    """Return the number at a share of the way from the least to the greatest."""
    return float(np.interp(share * (len(numbers) - 1), np.arange(len(numbers)), numbers))


LIST_FUNCTIONS: dict[str, Callable[[Settings], Callable[[list[Any]], Any]]] = {
    "LISTAGG": _joined,
    "COLLECT": _multiset,
    "ARRAY_AGG": _listed,
    "FIRST_VALUE": _edge,
    "LAST_VALUE": _edge,
    "SINGLE_VALUE": _single,
    "JSON_ARRAYAGG": _json_array,
    "JSON_OBJECTAGG": _json_object,
    "PERCENTILE": _percentile,
}


class UserAccumulator(ObjectAccumulator):
    """A user's aggregate function.

    Args:
        settings: What it is made of.
        function: Computes it; opened by the operator.
    """

    def __init__(self, settings: Settings, function: UserAggregate) -> None:
        super().__init__(settings)
        self._function = function

    def create(self) -> Any:
        return self._function.create()

    def merge(self, state: Any, other: Any) -> Any:
        return self._function.merge(state, [other])

    def add(self, slots: Any, weights: Any | None, columns: Sequence[pa.Array]) -> None:
        function, states = self._function, self._states.array
        rows = function.rows_of(columns, len(slots))
        if weights is None:
            for slot, row in zip(slots.tolist(), rows, strict=True):
                state = states[slot]
                states[slot] = function.accumulate(function.create() if state is None else state, row)
            return
        for slot, weight, row in zip(slots.tolist(), weights.tolist(), rows, strict=True):
            state = states[slot]
            state = function.create() if state is None else state
            change = function.accumulate if weight > 0 else function.retract
            for _ in range(abs(weight)):
                state = change(state, row)
            states[slot] = state

    def array(self, states: Sequence[Any]) -> pa.Array:
        function = self._function
        return function.results(
            [function.value(function.create() if state is None else state) for state in states]
        )

    def add_partials(self, slots: Any, columns: Sequence[Any]) -> None:
        states = self._states.array
        if self._function.merges or self._function.whole_groups:
            super().add_partials(slots, columns)
            return
        # Without `merge` a state can only go to a slot that has none, as those of windows of one slice do.
        for slot, other in zip(slots.tolist(), columns[0], strict=True):
            if other is not None:
                states[slot] = other if states[slot] is None else self.merge(states[slot], other)
