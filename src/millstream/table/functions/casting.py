"""Which types compare with each other, and which cast to which (Flink's matrix)."""

from __future__ import annotations

from typing import Any

from millstream.table.functions.types import INTEGERS, common_type, is_string, is_time_point, same_kind
from millstream.types import datatypes as t
from millstream.types import further_types as f

__all__ = ["can_cast", "comparable"]

_BY_TEXT = (t.NumericType, t.DateType, t.TimeType, t.TimestampType, t.BooleanType)


def comparable(left: t.DataType, right: t.DataType) -> t.DataType | None:
    """Return the type in which two types' values compare; None if they do not.

    Text compares with numbers, times and BOOLEAN as their value; DATE does not compare with TIMESTAMP.
    """
    if is_string(left) and isinstance(right, _BY_TEXT):
        return right
    if is_string(right) and isinstance(left, _BY_TEXT):
        return left
    if is_time_point(left) and is_time_point(right) and _is_day(left) != _is_day(right):
        return None
    return common_type([left, right])


def _is_day(kind: t.DataType) -> bool:
    return isinstance(kind, t.DateType)


def can_cast(source: t.DataType, target: t.DataType) -> bool:
    """Whether an explicit cast exists."""
    if isinstance(source, f.NullType) or same_kind(source, target):
        return True
    if is_string(target):
        return not isinstance(source, f.BitmapType)
    nested = _can_cast_nested(source, target)
    if nested is not None:
        return nested
    return any(
        isinstance(source, sources) and isinstance(target, targets) for sources, targets in _CASTS
    ) and not (isinstance(source, t.DateType) and isinstance(target, t.TimeType))


def _can_cast_nested(source: Any, target: Any) -> bool | None:
    if isinstance(source, t.ArrayType) and isinstance(target, t.ArrayType):
        return can_cast(source.element_type, target.element_type)
    if isinstance(source, t.MapType) and isinstance(target, t.MapType):
        return can_cast(source.key_type, target.key_type) and can_cast(source.value_type, target.value_type)
    if isinstance(source, f.MultisetType) and isinstance(target, f.MultisetType):
        return can_cast(source.element_type, target.element_type)
    if isinstance(source, t.RowType) and isinstance(target, t.RowType):
        return len(source.fields) == len(target.fields) and all(
            can_cast(a.data_type, b.data_type) for a, b in zip(source.fields, target.fields, strict=True)
        )
    return None


_Kinds = tuple[type[t.DataType], ...]
_CASTS: tuple[tuple[_Kinds, _Kinds], ...] = (
    (
        (t.VarCharType,),
        (
            t.NumericType,
            t.BooleanType,
            t.VarBinaryType,
            t.DateType,
            t.TimeType,
            t.TimestampType,
            f.VariantType,
        ),
    ),
    ((t.NumericType,), (t.NumericType, t.BooleanType)),
    ((t.BooleanType,), (t.NumericType,)),
    ((t.VarBinaryType,), (t.VarBinaryType,)),
    ((t.DateType,), (t.TimestampType,)),
    ((t.TimestampType,), (t.TimestampType, t.DateType, t.TimeType)),
    ((t.TimeType,), (t.TimeType, t.TimestampType)),
    ((f.YearMonthIntervalType,), (f.YearMonthIntervalType,)),
    ((f.DayTimeIntervalType,), (f.DayTimeIntervalType,)),
    (INTEGERS, (f.YearMonthIntervalType, f.DayTimeIntervalType)),
    (
        (f.VariantType,),
        (
            t.NumericType,
            t.BooleanType,
            t.VarBinaryType,
            t.DateType,
            t.TimestampType,
        ),
    ),
    ((t.VarBinaryType,), (f.RawType,)),
    ((f.RawType,), (t.VarBinaryType,)),
)
