"""How a pane takes in records: by an aggregate function, by a reduce function, or as a list.

A pane is a dict `{key: accumulator}`. `Fold.add_all` is the hot loop of every window: about 0.2 microseconds
a record besides the user's function, so it is written out for each kind.
"""

from __future__ import annotations

import functools
import operator
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable
from operator import length_hint
from typing import Any

from millstream.common.functions import AggregateFunction
from millstream.operators.inlined.expressions import fold_loop
from millstream.operators.plain_functions import is_plain
from millstream.operators.user_code import attach_element
from millstream.operators.values import ATOMIC, copies, copy_of, protect

__all__ = ["AggregateFold", "Fold", "ListFold", "Pane", "ReduceFold", "Rows"]

Pane = dict[Any, Any]
"""Accumulators by key, in order of the keys' first records."""

Rows = Iterable[tuple[Any, Any, int, int]]
"""Key, value, start of the pane, timestamp."""

_MISSING: Any = object()


class Fold(ABC):
    """Folds records into the accumulators of panes.

    Attributes:
        first: Returns the accumulator of a single record.
        add: Returns an accumulator with a record added, `add(value, accumulator)`; may change the given one.
        merge: Returns two accumulators combined; may change both.
        result: Returns what an accumulator stands for; may be the accumulator itself.
    """

    def __init__(
        self,
        *,
        first: Callable[[Any], Any],
        add: Callable[[Any, Any], Any],
        merge: Callable[[Any, Any], Any],
        result: Callable[[Any], Any],
    ) -> None:
        self.first = first
        self.add = add
        self.merge = merge
        self.result = result
        self._is_plain = is_plain(result)

    def can_merge(self) -> bool:
        """Return whether accumulators of parts of a window may be kept apart until it fires."""
        return True

    @abstractmethod
    def add_to(self, pane: Pane, keys: list[Any], values: list[Any]) -> None:
        """Add records in order to one pane.

        Args:
            pane: The pane.
            keys: Key of each record.
            values: The records.
        """

    @abstractmethod
    def add_all(
        self,
        rows: Rows,
        live: dict[int, Pane],
        open_pane: Callable[[int], Pane | None],
        add_behind: Callable[[int, Any, Any, int], None],
    ) -> None:
        """Add records in order.

        Args:
            rows: The records.
            live: Panes that take records without further ado, by start.
            open_pane: Makes the live pane for a start, or returns None if its time is over.
            add_behind: Takes the records of such panes: start, key, value, timestamp.
        """

    def add_in_order(
        self,
        stretches: list[tuple[int, int, int]],
        columns: tuple[list[Any], list[Any], list[int]],
        live: dict[int, Pane],
        open_pane: Callable[[int], Pane | None],
        add_behind: Callable[[int, Any, Any, int], None],
    ) -> None:
        """Add records as `add_all` does, those of a pane at once.

        Args:
            stretches: Start of a pane, place of its first record, and place behind the last one.
            columns: Keys, records and timestamps.
            live: As for `add_all`.
            open_pane: As for `add_all`.
            add_behind: As for `add_all`.
        """
        keys, values, timestamps = columns
        for start, first, stop in stretches:
            pane = live.get(start)
            if pane is None:
                pane = open_pane(start)
            if pane is not None:
                self.add_to(pane, keys[first:stop], values[first:stop])
            else:
                for place in range(first, stop):
                    add_behind(start, keys[place], values[place], timestamps[place])

    def add_results(self, accumulators: list[Any], results: list[Any]) -> None:
        """Append what accumulators stand for that are not in use any more."""
        result = self.result
        if self._is_plain:
            made = list(map(result, accumulators))
            if ATOMIC.issuperset(map(type, made)):
                results += made
                return
        for accumulator in accumulators:
            content = result(accumulator)
            results.append(content if type(content) in ATOMIC else protect(content))

    def copy_result(self, accumulator: Any) -> Any:
        """Return what an accumulator stands for, as a copy: the accumulator stays in use."""
        return copy_of(self.result(accumulator))

    def of_all(self, values: list[Any]) -> list[Any]:
        """Return what some records come to, in a list; an empty one if no records come to nothing.

        For windows with an evictor, which keep their records.
        """
        if not values:
            return []
        accumulator = self.first(values[0])
        for value in values[1:]:
            accumulator = self.add(value, accumulator)
        return [self.result(accumulator)]

    def add_one(self, pane: Pane, key: Any, value: Any) -> None:
        """Add one record to a pane."""
        accumulator = pane.get(key, _MISSING)
        pane[key] = self.first(value) if accumulator is _MISSING else self.add(value, accumulator)

    def combine(self, accumulators: list[Any]) -> Any:
        """Return the accumulator of all given ones, at least one, which are left as they are."""
        return functools.reduce(self.merge, map(copy_of, accumulators))


class AggregateFold(Fold):
    """Folds with a user's `AggregateFunction`."""

    def __init__(self, function: AggregateFunction) -> None:
        self._function = function
        self._loop = fold_loop(function.add)
        super().__init__(
            first=lambda value: function.add(value, function.create_accumulator()),
            add=function.add,
            merge=function.merge,
            result=function.get_result,
        )

    def of_all(self, values: list[Any]) -> list[Any]:
        """Return the result of some records; no records have that of an empty accumulator, as in Flink."""
        accumulator = self._function.create_accumulator()
        for value in values:
            accumulator = self.add(value, accumulator)
        return [self.result(accumulator)]

    def can_merge(self) -> bool:
        """Return whether `merge` is written: programs may leave it empty, Flink needs it for sessions only.

        It is tried on two empty accumulators; one that raises, or that makes None of what is not None, is
        taken as not written.
        """
        empty = self._function.create_accumulator()
        try:
            merged = self.merge(empty, self._function.create_accumulator())
        except Exception:  # noqa: BLE001 - whatever a stub raises, it says that merging is not meant
            return False
        return merged is not None or empty is None

    def add_to(self, pane: Pane, keys: list[Any], values: list[Any]) -> None:
        """Add records in order to one pane."""
        create, add, get, missing = self._function.create_accumulator, self.add, pane.get, _MISSING
        remaining = iter(values)
        try:
            if self._loop is not None:
                self._loop(zip(remaining, keys, strict=True), get, pane, create)
                return
            for value, key in zip(remaining, keys, strict=True):
                accumulator = get(key, missing)
                pane[key] = add(value, create() if accumulator is missing else accumulator)
        except BaseException as error:
            attach_element(error, values[len(values) - length_hint(remaining) - 1])
            raise

    def add_all(
        self,
        rows: Rows,
        live: dict[int, Pane],
        open_pane: Callable[[int], Pane | None],
        add_behind: Callable[[int, Any, Any, int], None],
    ) -> None:
        """Add records in order."""
        create, add, pane_at, missing = self._function.create_accumulator, self.add, live.get, _MISSING
        current: int | None = None
        pane: Pane | None = None
        value: Any = None
        try:
            for key, value, start, timestamp in rows:
                if start != current:
                    current = start
                    pane = pane_at(start)
                    if pane is None:
                        pane = open_pane(start)
                if pane is None:
                    add_behind(start, key, value, timestamp)
                else:
                    accumulator = pane.get(key, missing)
                    pane[key] = add(value, create() if accumulator is missing else accumulator)
        except BaseException as error:
            attach_element(error, value)
            raise


class ReduceFold(Fold):
    """Folds with a reduce function: the accumulator is the record so far.

    A pane begins with a copy of its first record: the function may change it, and other windows share it.

    Args:
        reduce: Combines two records.
        associative: Whether that is known of it.
    """

    def __init__(self, reduce: Callable[[Any, Any], Any], *, associative: bool = False) -> None:
        self._associative = associative
        super().__init__(
            first=copy_of, add=lambda value, so_far: reduce(so_far, value), merge=reduce, result=_same
        )

    def can_merge(self) -> bool:
        """Return whether the function is known to be associative; a user's has to be tried."""
        return self._associative

    def add_to(self, pane: Pane, keys: list[Any], values: list[Any]) -> None:
        """Add records in order to one pane."""
        reduce, get, missing = self.merge, pane.get, _MISSING
        value: Any = None
        try:
            for key, value in zip(keys, values, strict=True):
                so_far = get(key, missing)
                pane[key] = copy_of(value) if so_far is missing else reduce(so_far, value)
        except BaseException as error:
            attach_element(error, value)
            raise

    def add_all(
        self,
        rows: Rows,
        live: dict[int, Pane],
        open_pane: Callable[[int], Pane | None],
        add_behind: Callable[[int, Any, Any, int], None],
    ) -> None:
        """Add records in order."""
        reduce, pane_at, missing = self.merge, live.get, _MISSING
        current: int | None = None
        pane: Pane | None = None
        value: Any = None
        try:
            for key, value, start, timestamp in rows:
                if start != current:
                    current = start
                    pane = pane_at(start)
                    if pane is None:
                        pane = open_pane(start)
                if pane is None:
                    add_behind(start, key, value, timestamp)
                else:
                    so_far = pane.get(key, missing)
                    pane[key] = copy_of(value) if so_far is missing else reduce(so_far, value)
        except BaseException as error:
            attach_element(error, value)
            raise


class ListFold(Fold):
    """Keeps all records of a pane, in order of arrival."""

    def __init__(self) -> None:
        super().__init__(first=lambda value: [value], add=_append, merge=operator.iadd, result=_same)

    def can_merge(self) -> bool:
        """Return False: lists of parts put together would not be in order of arrival."""
        return False

    def of_all(self, values: list[Any]) -> list[Any]:
        """Return the records; an empty window is given to its function as well, as in Flink."""
        return [values]

    def copy_result(self, accumulator: Any) -> Any:
        """Return a list of copies of the records."""
        return copies(accumulator)

    def add_to(self, pane: Pane, keys: list[Any], values: list[Any]) -> None:
        """Add records in order to one pane."""
        get = pane.get
        for key, value in zip(keys, values, strict=True):
            records = get(key)
            if records is None:
                pane[key] = [value]
            else:
                records.append(value)

    def add_all(
        self,
        rows: Rows,
        live: dict[int, Pane],
        open_pane: Callable[[int], Pane | None],
        add_behind: Callable[[int, Any, Any, int], None],
    ) -> None:
        """Add records in order."""
        pane_at = live.get
        current: int | None = None
        pane: Pane | None = None
        value: Any = None
        try:
            for key, value, start, timestamp in rows:
                if start != current:
                    current = start
                    pane = pane_at(start)
                    if pane is None:
                        pane = open_pane(start)
                if pane is None:
                    add_behind(start, key, value, timestamp)
                else:
                    records = pane.get(key)
                    if records is None:
                        pane[key] = [value]
                    else:
                        records.append(value)
        except BaseException as error:
            attach_element(error, value)
            raise


def _same(value: Any) -> Any:
    return value


def _append(value: Any, records: list[Any]) -> list[Any]:
    records.append(value)
    return records
