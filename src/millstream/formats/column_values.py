"""Whole columns of Python values: whether they belong to a type, and as text."""

from __future__ import annotations

import datetime
from collections.abc import Sequence
from typing import Any

from millstream.base.errors import TypeMismatchError, shorten
from millstream.types import datatypes as types
from millstream.types.java_text import double_text

__all__ = ["check_column", "double_texts"]


def double_texts(values: Sequence[float | None], null: str) -> list[str]:
    """Return numbers of type DOUBLE as Java writes them, `null` for None."""
    return [  # what double_text() does with most numbers in place, which saves a call for each
        repr(value)
        if type(value) is float and 1e-3 <= value < 1e7
        else null
        if value is None
        else double_text(value)
        for value in values
    ]


def _fits_at_a_glance(kind: types.DataType, values: Sequence[Any]) -> bool:
    """Return whether all values belong to a type, told without a call for each; False if that cannot be told."""
    exact = _EXACT.get(type(kind))
    if exact is None or set(map(type, values)) != {exact}:
        return False
    if exact is int:
        limit = 1 << (kind.bits - 1)  # type: ignore[attr-defined]
        return bool(-limit <= min(values) and max(values) < limit)
    return exact is not str or bool(max(map(len, values)) <= kind.length)  # type: ignore[attr-defined]


_EXACT: dict[type[types.DataType], type] = {
    types.VarCharType: str,
    types.CharType: str,
    types.BooleanType: bool,
    types.TinyIntType: int,
    types.SmallIntType: int,
    types.IntType: int,
    types.BigIntType: int,
    types.FloatType: float,
    types.DoubleType: float,
    types.DateType: datetime.date,
    types.TimeType: datetime.time,
    types.TimestampType: datetime.datetime,
}
"""The one Python type of most values; those of other types, None among them, are looked at one by one."""


def check_column(name: str, data_type: types.DataType, values: Sequence[Any]) -> None:
    """Check that the values of a column belong to its type.

    Raises:
        TypeMismatchError: If one does not.
    """
    if _fits_at_a_glance(data_type, values):
        return
    check = data_type.check
    for value in values:
        try:
            check(value)
        except TypeMismatchError as error:
            raise TypeMismatchError(
                f"column {name!r}: {error.message}", detail=f"Value: {shorten(value)}"
            ) from error
