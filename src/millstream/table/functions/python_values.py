"""Values of user functions: columns as lists of Python values, and lists as columns of a declared type."""

from __future__ import annotations

import datetime
import decimal
import pickle
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import pyarrow as pa

from millstream.base.errors import TypeMismatchError, shorten
from millstream.base.time import Instant
from millstream.table.functions.types import arrow_type
from millstream.types import datatypes as t
from millstream.types import further_types as f
from millstream.types.arrow_values import values_of
from millstream.types.row import Row

__all__ = ["from_python", "to_python"]


def to_python(column: pa.Array, kind: t.DataType) -> list[Any]:
    """Return a column's values as functions get them: NULL is None, ROW a `Row`, MAP a dict, moments `Instant`."""
    if isinstance(kind, f.RawType):
        return [None if data is None else pickle.loads(data) for data in column.to_pylist()]
    if isinstance(kind, f.DayTimeIntervalType):
        step = datetime.timedelta(milliseconds=1)
        return [None if amount is None else amount * step for amount in column.to_pylist()]
    if pa.types.is_timestamp(column.type) and column.type.unit == "ns":
        column = column.cast(pa.timestamp("us", column.type.tz), safe=False)
    return values_of(column)


def from_python(values: Sequence[Any], kind: t.DataType, what: str) -> pa.Array:
    """Return Python values as a column.

    Args:
        values: What a function gave.
        kind: The type it declares.
        what: Whose values they are, for the message: `function "f"`.

    Raises:
        TypeMismatchError: If one does not fit; names it.
    """
    convert = _converter(kind)
    try:
        converted = (
            values if convert is None else [None if each is None else convert(each) for each in values]
        )
        return pa.array(converted, arrow_type(kind))
    except (pa.ArrowException, TypeError, ValueError, ArithmeticError, AttributeError) as error:
        raise TypeMismatchError(
            f"{what} gave {shorten(_first_wrong(values, kind))}, which does not fit its type {kind}",
            detail=str(error),
            hint="Declare the type that the function gives, or convert the value in it.",
        ) from error


def _first_wrong(values: Sequence[Any], kind: t.DataType) -> Any:
    convert = _converter(kind)
    for value in values:
        try:
            pa.array([value if convert is None or value is None else convert(value)], arrow_type(kind))
        except (pa.ArrowException, TypeError, ValueError, ArithmeticError, AttributeError):
            return value
    return values


def _converter(kind: t.DataType) -> Callable[[Any], Any] | None:
    """Return what makes a Python value one that Arrow takes; None if it is one."""
    for classes, make in _CONVERTERS:
        if isinstance(kind, classes):
            return make(kind)
    return None


def _optional(convert: Callable[[Any], Any] | None) -> Callable[[Any], Any]:
    if convert is None:
        return lambda value: value
    return lambda value: None if value is None else convert(value)


def _integer(kind: t.DataType) -> Callable[[Any], Any]:
    def convert(value: Any) -> int:
        if type(value) is int:
            return value
        whole = int(value)
        if whole != value:
            raise ValueError(f"{value!r} is no whole number")
        return whole

    return convert


def _float(kind: t.DataType) -> Callable[[Any], Any]:
    return float


def _decimal(kind: Any) -> Callable[[Any], Any]:
    def convert(value: Any) -> decimal.Decimal:
        number = value if isinstance(value, decimal.Decimal) else decimal.Decimal(str(value))
        return kind.rounded(number)  # type: ignore[no-any-return]

    return convert


def _text(kind: t.DataType) -> Callable[[Any], Any]:
    def convert(value: Any) -> str:
        if not isinstance(value, str):
            raise TypeError(f"{type(value).__name__} is no str")
        return value

    return convert


def _interval(kind: t.DataType) -> Callable[[Any], Any]:
    step = datetime.timedelta(milliseconds=1)
    return lambda value: value // step if isinstance(value, datetime.timedelta) else value


def _moment(kind: t.DataType) -> Callable[[Any], Any]:
    def convert(value: Any) -> Any:
        if isinstance(value, Instant):
            return (
                value.seconds * 1_000_000 + value.nanos // 1000
                if arrow_type(kind).unit == "us"
                else (value.seconds * 10**9 + value.nanos)
            )
        return value if getattr(value, "tzinfo", None) else value.replace(tzinfo=datetime.UTC)

    return convert


def _array(kind: Any) -> Callable[[Any], Any]:
    convert = _optional(_converter(kind.element_type))
    return lambda value: [convert(each) for each in value]


def _map(kind: Any) -> Callable[[Any], Any]:
    keys, values = _optional(_converter(kind.key_type)), _optional(_converter(kind.value_type))
    return lambda value: [(keys(key), values(item)) for key, item in value.items()]


def _multiset(kind: Any) -> Callable[[Any], Any]:
    keys = _optional(_converter(kind.element_type))
    return lambda value: [(keys(key), count) for key, count in value.items()]


def _row(kind: Any) -> Callable[[Any], Any]:
    names = kind.field_names()
    converts = [_optional(_converter(each)) for each in kind.field_types()]

    def convert(value: Any) -> dict[str, Any]:
        if isinstance(value, Row):
            value = (
                value.get_fields_by_names(names) if set(value._fields or ()) == set(names) else list(value)
            )
        elif isinstance(value, Mapping):
            value = [value.get(name) for name in names]
        elif not isinstance(value, Sequence):
            value = [value]
        if len(value) != len(names):
            raise ValueError(f"{len(value)} fields where there are {len(names)}")
        return {name: convert(part) for name, convert, part in zip(names, converts, value, strict=True)}

    return convert


def _raw(kind: t.DataType) -> Callable[[Any], Any]:
    return pickle.dumps


_CONVERTERS: tuple[
    tuple[type[t.DataType] | tuple[type[t.DataType], ...], Callable[[Any], Callable[[Any], Any]]], ...
] = (
    ((t.TinyIntType, t.SmallIntType, t.IntType, t.BigIntType), _integer),
    (t.DoubleType, _float),
    (t.DecimalType, _decimal),
    (t.VarCharType, _text),
    (f.DayTimeIntervalType, _interval),
    (t.LocalZonedTimestampType, _moment),
    (t.ArrayType, _array),
    (t.MapType, _map),
    (f.MultisetType, _multiset),
    (t.RowType, _row),
    (f.RawType, _raw),
)
