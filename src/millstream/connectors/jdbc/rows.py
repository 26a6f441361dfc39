"""Records as rows of values, a whole batch at a time."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import groupby
from operator import itemgetter
from typing import Any

from millstream.base.errors import TypeMismatchError, shorten
from millstream.types.basic import TypeInformation
from millstream.types.composite import RowTypeInfo
from millstream.types.row import Row, RowKind, unpack_rows

__all__ = ["RowReader"]

RowValues = tuple[Any, ...]


class RowReader:
    """Takes the values out of records.

    Args:
        fields: Names of the fields, in the order in which their values are wanted.
        type_info: Declared type of the records; None if there is none.
        declared: What the stream's records were checked against.
    """

    def __init__(
        self, fields: Sequence[str], type_info: RowTypeInfo | None, declared: TypeInformation | None
    ) -> None:
        self._fields = tuple(fields)
        self._type_info = type_info
        self._is_checked = type_info is None or declared == type_info
        names = self._fields if type_info is None else tuple(type_info.get_field_names())
        self._positions = None if names == self._fields else names  # of fields of which not all are wanted
        self._pickers: dict[tuple[str, ...], Callable[[RowValues], RowValues]] = {}

    def read(self, values: list[Any]) -> list[tuple[RowKind, list[RowValues]]]:
        """Return the rows of records: runs of those of the same kind, in order.

        Raises:
            TypeMismatchError: If a record does not have these fields, or values of other types.
        """
        if not self._is_checked:
            assert self._type_info is not None
            wrong = self._type_info.find_mismatch(values)
            if wrong is not None:
                raise self._misfit(values[wrong], f"They are declared as {self._type_info.describe()}.")
        unpacked = unpack_rows(values)
        if unpacked is not None:
            names, tuples, kind = unpacked
            return [(kind, self._in_order(names, tuples, values))]
        if set(map(type, values)) == {tuple}:
            return [(RowKind.INSERT, self._in_order(None, values, values))]
        return [(kind, list(map(self._read_one, run))) for kind, run in groupby(values, _kind_of)]

    def _in_order(
        self, names: tuple[str, ...] | None, tuples: list[RowValues], values: list[Any]
    ) -> list[RowValues]:
        if names is None:
            names = self._positions
        if names is not None and names != self._fields and not self._is_unnamed:
            pick = self._pickers.get(names)
            if pick is None:
                pick = self._pickers[names] = self._picker(names, values[0])
            self._check_lengths(tuples, values, len(names))
            return list(map(pick, tuples))
        self._check_lengths(tuples, values, len(self._fields))
        return tuples

    def _check_lengths(self, tuples: list[RowValues], values: list[Any], count: int) -> None:
        if set(map(len, tuples)) - {count}:
            wrong = next(each for each in values if len(each) != count)
            raise self._misfit(wrong, f"{count} values are wanted.")

    @property
    def _is_unnamed(self) -> bool:
        """Whether fields go by position: their names are only what Flink calls fields that have none."""
        return self._fields == tuple(f"f{index}" for index in range(len(self._fields)))

    def _picker(self, names: tuple[str, ...], value: Any) -> Callable[[RowValues], RowValues]:
        missing = [field for field in self._fields if field not in names]
        if missing:
            raise self._misfit(value, f"It has no {', '.join(missing)}.")
        positions = [names.index(field) for field in self._fields]
        return itemgetter(*positions) if len(positions) > 1 else lambda row: (row[positions[0]],)

    def _read_one(self, value: Any) -> RowValues:
        if isinstance(value, Row):
            return self._in_order(value._fields, [value._values], [value])[0]
        if isinstance(value, dict):
            return self._in_order(tuple(value), [tuple(value.values())], [value])[0]
        if isinstance(value, (tuple, list)):
            return self._in_order(None, [tuple(value)], [value])[0]
        try:
            return tuple(getattr(value, field) for field in self._fields)
        except AttributeError as error:
            raise self._misfit(value, str(error)) from None

    def _misfit(self, value: Any, why: str) -> TypeMismatchError:
        return TypeMismatchError(
            f"a database sink was given {shorten(value)}, which has not the fields {', '.join(self._fields)}",
            detail=why,
            hint="Give it rows, tuples or dicts with these fields; rows and dicts go by name if both have names.",
        )


def _kind_of(value: Any) -> RowKind:
    return value._schema.kind if isinstance(value, Row) else RowKind.INSERT
