"""Kernels of arrays, maps and rows."""

from __future__ import annotations

from collections.abc import Callable
from functools import cmp_to_key
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from millstream.table.expressions.errors import EvaluationError
from millstream.table.functions.kernels.values import (
    Factory,
    Kernel,
    Setting,
    Value,
    as_array,
    cast,
    is_constant,
    per_row,
)
from millstream.table.functions.types import arrow_type
from millstream.types import datatypes as t
from millstream.types.numpy_views import as_numpy

__all__ = ["KERNELS"]


def _rows(function: Callable[..., Any], *, strict: bool = True) -> Factory:
    """Return the factory of a kernel of Python lists (maps: of pairs)."""

    def make(call: Any) -> Kernel:
        kind = arrow_type(call.type)
        return lambda setting, count, *values: per_row(function, kind, values, count, strict=strict)

    return make


def _same_key(value: Any) -> Any:
    """Return a hashable value that is equal for equal values."""
    if isinstance(value, list):
        return tuple(map(_same_key, value))
    if isinstance(value, dict):
        return tuple((name, _same_key(part)) for name, part in value.items())
    return "NaN" if value != value else value


def _distinct(values: list[Any]) -> list[Any]:
    seen: dict[Any, Any] = {}
    for value in values:
        seen.setdefault(_same_key(value), value)
    return list(seen.values())


# --- making them


def _single(values: tuple[Value, ...]) -> bool:
    return all(map(is_constant, values))


def _array(call: Any) -> Kernel:
    kind = arrow_type(call.type)
    width = len(call.operands)

    def kernel(setting: Setting, count: int, *values: Value) -> Value:
        rows = 1 if _single(values) else count
        columns = [as_array(cast(each, kind.value_type), rows) for each in values]
        inner = _interleaved(columns, rows)
        offsets = pa.array(np.arange(rows + 1, dtype=np.int32) * width)
        result = pa.ListArray.from_arrays(offsets, inner, type=kind)
        return result[0] if _single(values) else result

    return kernel


def _interleaved(columns: list[pa.Array], rows: int) -> pa.Array:
    """Return the values of columns row by row."""
    if len(columns) == 1:
        return columns[0]
    places = np.arange(len(columns) * rows).reshape(len(columns), rows).T.ravel()
    return pa.concat_arrays(columns).take(pa.array(places))


def _map(call: Any) -> Kernel:
    kind = arrow_type(call.type)

    def one(*parts: Any) -> list[tuple[Any, Any]]:
        found: dict[Any, tuple[Any, Any]] = {}
        for key, value in zip(parts[::2], parts[1::2], strict=True):
            found[_same_key(key)] = (key, value)
        return list(found.values())

    def kernel(setting: Setting, count: int, *values: Value) -> Value:
        if any(each.null_count for each in values[::2] if not is_constant(each)):
            raise EvaluationError("a key of a map is NULL")
        if _single(values) or len(values) > 2:
            return per_row(one, kind, values, count, strict=False)
        keys, items = (as_array(each, count) for each in values)
        offsets = pa.array(np.arange(count + 1, dtype=np.int32))
        return pa.MapArray.from_arrays(
            offsets, cast(keys, kind.key_type), cast(items, kind.item_type), type=kind
        )

    return kernel


def _row(call: Any) -> Kernel:
    kind = arrow_type(call.type)

    def kernel(setting: Setting, count: int, *values: Value) -> Value:
        rows = 1 if _single(values) else count
        columns = [as_array(cast(each, field.type), rows) for each, field in zip(values, kind, strict=True)]
        result = pa.StructArray.from_arrays(columns, fields=list(kind))
        return result[0] if _single(values) else result

    return kernel


# --- reading them


def _item(call: Any) -> Kernel:
    whole = call.operands[0].type
    kind = arrow_type(call.type)
    if isinstance(whole, t.ArrayType):
        return _array_item(kind)
    if isinstance(whole, t.MapType):

        def of_map(entries: list[tuple[Any, Any]], key: Any) -> Any:
            return next((value for name, value in entries if name == key), None)

        def kernel(setting: Setting, count: int, value: Value, key: Value) -> Value:
            return per_row(of_map, kind, [value, key], count)

        return kernel
    from millstream.table.functions.kernels.json import variant_item  # JSON builds on collections

    return lambda setting, count, value, key: per_row(variant_item, kind, [value, key], count)


def _array_item(kind: pa.DataType) -> Kernel:
    def kernel(setting: Setting, count: int, value: Value, index: Value) -> Value:
        if is_constant(value) and is_constant(index):
            return per_row(_nth, kind, [value, index], count)
        lists, places = as_array(value, count), as_array(index, count)
        sizes = as_numpy(pc.fill_null(pc.list_value_length(lists), 0))
        starts = np.concatenate([[0], np.cumsum(sizes)[:-1]])
        wanted = as_numpy(pc.fill_null(places, 0))
        there = (wanted >= 1) & (wanted <= sizes)
        taken = pa.array((starts + wanted - 1).astype(np.int64), mask=~there)
        return lists.flatten().take(taken)

    return kernel


def _nth(values: list[Any], index: int) -> Any:
    return values[index - 1] if 1 <= index <= len(values) else None


def _field(call: Any) -> Kernel:
    name = call.operands[1].value
    place = call.operands[0].type.field_names().index(name)

    def kernel(setting: Setting, count: int, value: Value, _: Value) -> Value:
        return pc.struct_field(value, [place])

    return kernel


def _cardinality(call: Any) -> Kernel:
    def kernel(setting: Setting, count: int, value: Value) -> Value:
        if pa.types.is_map(value.type):
            if is_constant(value):
                return pa.scalar(None if value.as_py() is None else len(value.as_py()), pa.int32())
            pair = pa.struct([("key", value.type.key_type), ("value", value.type.item_type)])
            value = pc.cast(value, pa.list_(pair))
        return pc.list_value_length(value)

    return kernel


def _only(values: list[Any]) -> Any:
    if len(values) > 1:
        raise EvaluationError(f"ELEMENT was given an array of {len(values)} elements", hint="It takes one.")
    return values[0] if values else None


# --- changing arrays


def _slice(values: list[Any], start: int, end: int | None = None) -> list[Any]:
    size = len(values)
    first = size + start + 1 if start < 0 else max(start, 1)
    last = size if end is None else size + end + 1 if end < 0 else max(end, 1)
    return values[max(first, 1) - 1 : last] if first <= last else []


def _compare(a: Any, b: Any) -> int:
    if a is None or b is None:
        return (a is not None) - (b is not None)
    return int(a > b) - int(a < b)


def _sort(values: list[Any], ascending: bool = True, nulls_first: bool | None = None) -> list[Any]:
    first = ascending if nulls_first is None else nulls_first
    nulls = [value for value in values if value is None]
    known = sorted((value for value in values if value is not None), key=cmp_to_key(_compare))
    if not ascending:
        known.reverse()
    return nulls + known if first else known + nulls


def _without(values: list[Any], others: list[Any]) -> list[Any]:
    excluded = set(map(_same_key, others))
    return [value for value in _distinct(values) if _same_key(value) not in excluded]


def _within(values: list[Any], others: list[Any]) -> list[Any]:
    kept = set(map(_same_key, others))
    return [value for value in _distinct(values) if _same_key(value) in kept]


def _extreme(pick: Callable[..., Any]) -> Callable[[list[Any]], Any]:
    return lambda values: pick((value for value in values if value is not None), default=None)


def _join(values: list[str | None], delimiter: str, missing: str | None = None) -> str:
    texts = [missing if value is None else value for value in values]
    return delimiter.join(text for text in texts if text is not None)


def _join_row(values: Any, delimiter: Any, *missing: Any) -> str | None:
    if values is None or delimiter is None:
        return None
    return _join(values, delimiter, *missing)


def _with_any_element(function: Callable[[list[Any], Any], Any]) -> Callable[..., Any]:
    """A NULL element is one to look for; a NULL array gives NULL."""
    return lambda values, element: None if values is None else function(values, element)


def _position(values: list[Any] | None, element: Any) -> int | None:
    if values is None or element is None:
        return None
    return next((place for place, value in enumerate(values, 1) if value == element), 0)


def _remove(values: list[Any], element: Any) -> list[Any]:
    return [value for value in values if _same_key(value) != _same_key(element)]


def _contains(values: list[Any], element: Any) -> bool:
    return any(_same_key(value) == _same_key(element) for value in values)


# --- maps


def _map_union(*maps: list[tuple[Any, Any]]) -> list[tuple[Any, Any]]:
    found: dict[Any, tuple[Any, Any]] = {}
    for entries in reversed(maps):
        for key, value in entries:
            found.setdefault(_same_key(key), (key, value))
    return list(found.values())


def _from_arrays(keys: list[Any], values: list[Any]) -> list[tuple[Any, Any]]:
    if len(keys) != len(values):
        raise EvaluationError(f"MAP_FROM_ARRAYS was given {len(keys)} keys and {len(values)} values")
    found: dict[Any, tuple[Any, Any]] = {}
    for key, value in zip(keys, values, strict=True):
        found[_same_key(key)] = (key, value)
    return list(found.values())


KERNELS: dict[str, Factory] = {
    "ARRAY": _array,
    "MAP": _map,
    "ROW": _row,
    "ITEM": _item,
    "FIELD": _field,
    "CARDINALITY": _cardinality,
    "ELEMENT": _rows(_only),
    "ARRAY_APPEND": _rows(_with_any_element(lambda values, element: [*values, element]), strict=False),
    "ARRAY_PREPEND": _rows(_with_any_element(lambda values, element: [element, *values]), strict=False),
    "ARRAY_CONTAINS": _rows(_with_any_element(_contains), strict=False),
    "ARRAY_POSITION": _rows(_position, strict=False),
    "ARRAY_REMOVE": _rows(_with_any_element(_remove), strict=False),
    "ARRAY_DISTINCT": _rows(_distinct),
    "ARRAY_REVERSE": _rows(lambda values: values[::-1]),
    "ARRAY_SLICE": _rows(_slice),
    "ARRAY_SORT": _rows(_sort),
    "ARRAY_UNION": _rows(lambda left, right: _distinct(left + right)),
    "ARRAY_CONCAT": _rows(lambda *arrays: [value for array in arrays for value in array]),
    "ARRAY_EXCEPT": _rows(_without),
    "ARRAY_INTERSECT": _rows(_within),
    "ARRAY_MAX": _rows(_extreme(max)),
    "ARRAY_MIN": _rows(_extreme(min)),
    "ARRAY_JOIN": _rows(_join_row, strict=False),
    "MAP_KEYS": _rows(lambda entries: [key for key, _ in entries]),
    "MAP_VALUES": _rows(lambda entries: [value for _, value in entries]),
    "MAP_ENTRIES": _rows(lambda entries: [{"key": key, "value": value} for key, value in entries]),
    "MAP_UNION": _rows(_map_union),
    "MAP_FROM_ARRAYS": _rows(_from_arrays),
}
