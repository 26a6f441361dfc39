"""Values as Flink's CAST(... AS STRING) writes them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from millstream.table.functions.kernels.values import Setting, Value, as_array, is_constant, per_row
from millstream.types import datatypes as t
from millstream.types import further_types as f
from millstream.types.java_text import double_text, float_text
from millstream.types.numpy_views import as_numpy

__all__ = ["assume_zone", "interval_text", "to_text", "zoned_to_local"]

_DAY_MS = 86_400_000


def to_text(setting: Setting, value: Value, kind: t.DataType) -> Value:
    """Return the texts of a column or constant of a SQL type."""
    for classes, convert in _TEXTS:
        if isinstance(kind, classes):
            return convert(setting, value, kind)
    return pc.cast(value, pa.string())


def _boolean(setting: Setting, value: Value, kind: t.DataType) -> Value:
    return pc.if_else(value, "TRUE", "FALSE")


def _decimal(setting: Setting, value: Value, kind: Any) -> Value:
    if kind.scale <= 6:
        return pc.cast(value, pa.string())
    return per_row(lambda number: f"{number:f}", pa.string(), [value], _count(value))


def _count(value: Value) -> int:
    return 1 if is_constant(value) else len(value)


def _float(setting: Setting, value: Value, kind: t.DataType) -> Value:
    write: Callable[[float], str] = float_text if isinstance(kind, t.FloatType) else double_text
    if is_constant(value) or len(value) < 32:
        return per_row(write, pa.string(), [value], _count(value))
    numbers = as_numpy(value)
    size = np.abs(numbers)
    plain = ((size >= 1e-3) & (size < 1e7)) | (numbers == 0)
    if not plain.all():
        return per_row(write, pa.string(), [value], len(value))
    texts = pc.cast(value, pa.string())
    return pc.if_else(pc.match_substring(texts, "."), texts, pc.binary_join_element_wise(texts, ".0", ""))


def _time(setting: Setting, value: Value, kind: Any) -> Value:
    texts = pc.cast(pc.cast(value, pa.time64("ns")), pa.string())
    return pc.utf8_slice_codeunits(texts, 0, 8 if kind.precision == 0 else 9 + kind.precision)


def _timestamp(setting: Setting, value: Value, kind: Any) -> Value:
    texts = pc.cast(value, pa.string())  # all digits of the unit
    if kind.precision == 0:
        return pc.utf8_slice_codeunits(texts, 0, 19)
    return pc.utf8_slice_codeunits(texts, 0, 20 + kind.precision)


def zoned_to_local(setting: Setting, value: Value) -> Value:
    """Return moments as timestamps of the session's time zone."""
    unit = value.type.unit
    return pc.local_timestamp(pc.cast(value, pa.timestamp(unit, setting.zone)))


def assume_zone(local: Value, zone: str) -> Value:
    """Return timestamps of a zone as moments: the earlier of two, and in a gap as much later as the gap is long."""
    utc = pa.timestamp(local.type.unit, "UTC")
    try:
        return pc.cast(pc.assume_timezone(local, zone, ambiguous="earliest", nonexistent="raise"), utc)
    except pa.ArrowInvalid:
        before = pc.assume_timezone(local, zone, ambiguous="earliest", nonexistent="earliest")
        exact = pc.equal(pc.local_timestamp(before), local)
    # the last instant before the gap has the offset that counts on
    offset = pc.subtract(
        pc.local_timestamp(before), pc.cast(pc.cast(before, utc), pa.timestamp(local.type.unit))
    )
    shifted = pc.cast(pc.subtract(local, offset), utc)
    return pc.if_else(exact, pc.cast(before, utc), shifted)


def _zoned(setting: Setting, value: Value, kind: t.DataType) -> Value:
    return _timestamp(setting, zoned_to_local(setting, value), kind)


def interval_text(kind: t.DataType, amount: int) -> str:
    """Return an interval as Flink writes it: `+1-02`, `-0 01:00:00.000`."""
    sign, size = ("-" if amount < 0 else "+"), abs(amount)
    if isinstance(kind, f.YearMonthIntervalType):
        return f"{sign}{size // 12}-{size % 12:02}"
    days, rest = divmod(size, _DAY_MS)
    seconds, ms = divmod(rest, 1000)
    return f"{sign}{days} {seconds // 3600:02}:{seconds // 60 % 60:02}:{seconds % 60:02}.{ms:03}"


def _interval(setting: Setting, value: Value, kind: t.DataType) -> Value:
    return per_row(lambda amount: interval_text(kind, amount), pa.string(), [value], _count(value))


def _binary(setting: Setting, value: Value, kind: t.DataType) -> Value:
    try:
        return pc.cast(value, pa.string())
    except pa.ArrowInvalid:
        return per_row(lambda data: data.decode("utf-8", "replace"), pa.string(), [value], _count(value))


# --- nested


def _texts(setting: Setting, value: Value, kind: t.DataType) -> list[str]:
    """Return texts for use inside others: NULL is `NULL`."""
    return pc.fill_null(to_text(setting, value, kind), "NULL").to_pylist()  # type: ignore[no-any-return]


def _column(value: Value) -> pa.Array:
    return as_array(value, 1) if is_constant(value) else value


def _like(value: Value, texts: Sequence[str | None]) -> Value:
    column = pa.array(texts, pa.string())
    return column[0] if is_constant(value) else column


def _array(setting: Setting, value: Value, kind: Any) -> Value:
    column = _column(value)
    inner = _texts(setting, column.flatten(), kind.element_type)
    return _like(value, [None if part is None else f"[{', '.join(part)}]" for part in _cut(column, inner)])


def _cut(column: pa.Array, inner: list[str]) -> list[list[str] | None]:
    """Return a list's parts for each row; `inner` are those of all valid rows in turn."""
    sizes = pc.list_value_length(column).to_pylist()
    parts: list[list[str] | None] = []
    start = 0
    for size in sizes:
        if size is None:
            parts.append(None)
        else:
            parts.append(inner[start : start + size])
            start += size
    return parts


def _map(setting: Setting, value: Value, kind: Any) -> Value:
    column = _column(value)
    key_type = kind.element_type if isinstance(kind, f.MultisetType) else kind.key_type
    value_type = t.IntType() if isinstance(kind, f.MultisetType) else kind.value_type
    lists = pc.cast(
        column, pa.list_(pa.struct([("key", column.type.key_type), ("value", column.type.item_type)]))
    )
    entries = lists.flatten()
    keys = _texts(setting, entries.field(0), key_type)
    values = _texts(setting, entries.field(1), value_type)
    pairs = [f"{key}={item}" for key, item in zip(keys, values, strict=True)]
    return _like(value, [None if part is None else f"{{{', '.join(part)}}}" for part in _cut(lists, pairs)])


def _row(setting: Setting, value: Value, kind: Any) -> Value:
    column = _column(value)
    fields = [_texts(setting, column.field(place), each.data_type) for place, each in enumerate(kind.fields)]
    valid = column.is_valid().to_pylist()
    rows = zip(*fields, strict=True) if fields else ((),) * len(column)
    texts = [f"({', '.join(row)})" if there else None for there, row in zip(valid, rows, strict=True)]
    return _like(value, texts)


_Convert = Callable[[Setting, Value, Any], Value]
_TEXTS: tuple[tuple[type[t.DataType] | tuple[type[t.DataType], ...], _Convert], ...] = (
    (t.VarCharType, lambda setting, value, kind: value),
    (f.VariantType, lambda setting, value, kind: value),
    (t.BooleanType, _boolean),
    (t.DecimalType, _decimal),
    (t.DoubleType, _float),
    (t.TimeType, _time),
    (t.LocalZonedTimestampType, _zoned),
    (t.TimestampType, _timestamp),
    ((f.YearMonthIntervalType, f.DayTimeIntervalType), _interval),
    (t.VarBinaryType, _binary),
    (t.ArrayType, _array),
    ((t.MapType, f.MultisetType), _map),
    (t.RowType, _row),
)
