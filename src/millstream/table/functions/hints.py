"""SQL types of Python's annotations: `def f(n: int) -> str` gives STRING."""

from __future__ import annotations

import collections.abc
import datetime
import decimal
import types
import typing
from collections.abc import Callable, Iterator
from typing import Any

from millstream.base.errors import ConfigurationError
from millstream.table.sql.parser import parse_type
from millstream.types import datatypes as t
from millstream.types import further_types as f

__all__ = ["declared_type", "result_hint", "row_hint", "type_of_hint"]

_PLAIN: dict[Any, Callable[[], t.DataType]] = {
    bool: t.BooleanType,
    int: t.BigIntType,
    float: t.DoubleType,
    str: t.VarCharType,
    bytes: t.VarBinaryType,
    bytearray: t.VarBinaryType,
    decimal.Decimal: lambda: t.DecimalType(38, 18),
    datetime.date: t.DateType,
    datetime.time: t.TimeType,
    datetime.datetime: lambda: t.TimestampType(6),
    datetime.timedelta: f.DayTimeIntervalType,
}
_SEQUENCES = (list, collections.abc.Sequence)
_STREAMS = (Iterator, collections.abc.Iterable, collections.abc.Generator)


def declared_type(said: t.DataType | str | None) -> t.DataType | None:
    """Return a type that was said: as a type, or as its text."""
    return parse_type(said) if isinstance(said, str) else said


def type_of_hint(hint: Any) -> t.DataType | None:
    """Return the SQL type of an annotation; None if it tells none.

    >>> type_of_hint(dict[str, list[int]])
    MAP<STRING, ARRAY<BIGINT>>
    """
    if isinstance(hint, t.DataType):
        return hint
    if hint in _PLAIN:
        return _PLAIN[hint]()
    origin, parts = typing.get_origin(hint), typing.get_args(hint)
    if origin is typing.Annotated:
        return type_of_hint(parts[1]) or type_of_hint(parts[0])
    if origin in (typing.Union, types.UnionType):
        told = [each for each in parts if each is not type(None)]
        return type_of_hint(told[0]) if len(told) == 1 else None
    inner = [type_of_hint(each) for each in parts if each is not Ellipsis]
    if not inner or any(each is None for each in inner):
        return None
    if origin in _SEQUENCES:
        return t.ArrayType(inner[0])  # type: ignore[arg-type]
    if origin is dict:
        return t.MapType(*inner)  # type: ignore[arg-type]
    if origin is tuple:
        return t.RowType([t.RowField(f"f{place}", each) for place, each in enumerate(inner)])  # type: ignore[arg-type]
    return None


def _annotations(function: Any) -> dict[str, Any]:
    called = function.eval if hasattr(function, "eval") else function
    try:
        return typing.get_type_hints(called, include_extras=True)
    except (NameError, TypeError):
        return {}  # names of the annotations are not there, or it is no function


def result_hint(function: Any) -> t.DataType | None:
    """Return the type of what a function gives by its annotation; None if it has none."""
    return type_of_hint(_annotations(function).get("return"))


def row_hint(function: Any) -> t.DataType | None:
    """Return the type of the rows of a table function: of `Iterator[tuple[int, str]]` a ROW of two."""
    hint = _annotations(function).get("return")
    parts = typing.get_args(hint)
    if parts and typing.get_origin(hint) in (*_STREAMS, list):
        return type_of_hint(parts[0])
    return type_of_hint(hint)


def needs_type(what: str) -> ConfigurationError:
    """Return the error of a function that says no type."""
    return ConfigurationError(
        f"{what} does not say the type of its result",
        hint="Give result_type=DataTypes.BIGINT(), or annotate the function: def f(x: int) -> int.",
    )
