"""Constants of expressions as Arrow has them."""

from __future__ import annotations

import datetime
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from millstream.table.expressions.rex import Literal
from millstream.table.functions.types import arrow_type
from millstream.types import datatypes as t
from millstream.types import further_types as f

__all__ = ["literal_scalar", "to_arrow_value"]


def literal_scalar(literal: Literal) -> pa.Scalar:
    """Return a constant of its type's Arrow type.

    Values are Python's of the type; times may also be text (with nanoseconds), intervals a `timedelta` or int.
    """
    kind = arrow_type(literal.type)
    value = literal.value
    if value is None:
        return pa.scalar(None, kind)
    if isinstance(literal.type, t.CharType) and isinstance(value, str):
        value = value.ljust(literal.type.length)
    if isinstance(value, str) and pa.types.is_temporal(kind):
        return pc.cast(pa.scalar(value.strip()), kind, safe=False)
    return pa.scalar(to_arrow_value(value, literal.type), kind)


def to_arrow_value(value: Any, kind: t.DataType) -> Any:
    """Return a Python value in the form Arrow takes for a type."""
    if isinstance(kind, f.DayTimeIntervalType) and isinstance(value, datetime.timedelta):
        return value // datetime.timedelta(milliseconds=1)
    if isinstance(kind, t.MapType | f.MultisetType) and isinstance(value, dict):
        return list(value.items())
    if isinstance(kind, t.LocalZonedTimestampType) and isinstance(value, datetime.datetime):
        return value if value.tzinfo is not None else value.replace(tzinfo=datetime.UTC)
    return value
