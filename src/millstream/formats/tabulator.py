"""From records to columns, as writers of tables need them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from operator import itemgetter
from typing import Any

from millstream.base.errors import TypeMismatchError, shorten
from millstream.types.arrow_values import is_bare, records_of
from millstream.types.row import Row, unpack_rows

__all__ = ["Tabulator"]


class Tabulator:
    """Turns rows, tuples, lists or dicts into columns.

    Fields are taken by position; those of a dict, and of a row with the same names in another order, by name.

    >>> Tabulator(("a", "b")).columns([Row(1, 2), Row(b=4, a=3), (5, 6)])
    [(1, 3, 5), (2, 4, 6)]
    """

    def __init__(self, names: tuple[str, ...]) -> None:
        self._names = names
        self._orders: dict[tuple[str, ...], Callable[[Any], Any] | None] = {names: None}

    def columns(self, elements: Sequence[Any]) -> list[tuple[Any, ...]]:
        """Return one tuple of values for each column.

        Raises:
            TypeMismatchError: If an element is no row of as many fields.
        """
        if not elements:
            return [()] * len(self._names)
        rows = self._rows(elements)
        width = len(self._names)
        if set(map(len, rows)) != {width}:
            row, element = next(each for each in zip(rows, elements, strict=True) if len(each[0]) != width)
            raise TypeMismatchError(
                f"record {shorten(element)} has {len(row)} fields, the file has {width} columns",
                detail=f"Columns: {', '.join(self._names)}.",
            )
        # zip(*rows) makes an iterator for each row, which costs about twice as much.
        return [tuple(map(itemgetter(place), rows)) for place in range(width)]

    def arrays(self, batch: Any) -> list[Any]:
        """Return the arrays of a `pyarrow.RecordBatch`, in the order of the columns.

        Raises:
            TypeMismatchError: If it has another number of them, or its records are no rows.
        """
        names = tuple(batch.schema.names)
        if is_bare(batch.schema) or len(names) != len(self._names):
            self.columns(records_of(batch.slice(0, 1)))  # says what is wrong with the record
        pick = self._order_of(names)
        arrays = batch.columns
        return list(arrays if pick is None else pick(arrays))

    def fields(self, element: Any) -> Sequence[Any]:
        """Return the values of one record.

        Raises:
            TypeMismatchError: If it is no row of as many fields.
        """
        values = self._values(element)
        if len(values) != len(self._names):
            raise TypeMismatchError(
                f"record {shorten(element)} has {len(values)} fields, not {len(self._names)}",
                detail=f"Fields: {', '.join(self._names)}.",
            )
        return values

    def _rows(self, elements: Sequence[Any]) -> Sequence[Sequence[Any]]:
        kinds = set(map(type, elements))
        if kinds == {tuple}:
            return elements
        packed = unpack_rows(elements)
        if packed is not None and (packed[0] is None or packed[0] == self._names):
            return packed[1]
        return [self._values(element) for element in elements]

    def _values(self, element: Any) -> Sequence[Any]:
        if type(element) is Row:
            fields = element._fields
            if fields is None or fields == self._names:
                return element._values
            return self._reordered(fields, element._values)
        if isinstance(element, (tuple, list)):
            return element
        if isinstance(element, dict) and element.keys() == set(self._names):
            return [element[name] for name in self._names]
        raise TypeMismatchError(
            f"record {shorten(element)} of type {type(element).__name__} is no row",
            detail=f"Columns: {', '.join(self._names)}.",
            hint="Map the records to Row, tuple, list or dict before the sink.",
        )

    def _reordered(self, fields: tuple[str, ...], values: tuple[Any, ...]) -> Sequence[Any]:
        pick = self._order_of(fields)
        return values if pick is None else pick(values)

    def _order_of(self, fields: tuple[str, ...]) -> Callable[[Any], Any] | None:
        """Return what puts the values of those fields in order; None if they are taken by position."""
        if fields not in self._orders:
            same = len(fields) > 1 and sorted(fields) == sorted(self._names)
            self._orders[fields] = itemgetter(*map(fields.index, self._names)) if same else None
        return self._orders[fields]
