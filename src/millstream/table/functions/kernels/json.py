"""Kernels of functions of JSON and VARIANT."""

from __future__ import annotations

import base64
import datetime
import decimal
from collections.abc import Callable
from functools import lru_cache
from typing import Any

import pyarrow as pa

from millstream.table.expressions.errors import EvaluationError
from millstream.table.expressions.rex import Call
from millstream.table.functions.kernels.json_paths import (
    JsonPath,
    PathError,
    dump_json,
    parse_json,
    parse_path,
)
from millstream.table.functions.kernels.texts import interval_text
from millstream.table.functions.kernels.values import (
    Factory,
    Kernel,
    Setting,
    Value,
    is_constant,
    per_row,
    python_values,
)
from millstream.table.functions.types import arrow_type
from millstream.types import datatypes as t
from millstream.types import further_types as f
from millstream.types.java_text import double_text, float_text

__all__ = ["KERNELS", "variant_item"]

_TEXT, _BOOL = pa.string(), pa.bool_()


@lru_cache(maxsize=4096)
def _parsed(text: str) -> Any:
    """Return a text's value; nobody changes it."""
    return parse_json(text)


def _find(text: str, path: str) -> tuple[bool, Any, JsonPath | None]:
    """Return whether it went well, what was found, and the path.

    In lax mode what is missing is None, which went well.
    """
    way = None
    try:
        way = parse_path(path)
        return True, way.find(_parsed(text)), way
    except PathError:
        return bool(way and way.lax), None, way
    except (ValueError, RecursionError):
        return False, None, way


def _is_scalar(value: Any) -> bool:
    return not isinstance(value, dict | list)


# --- JSON_VALUE


def _value(call: Any) -> Kernel:
    kind, target = arrow_type(call.type), call.type
    on_empty, on_error = call.operands[2].value, call.operands[3].value

    def one(text: str | None, path: str | None, empty_default: Any, error_default: Any) -> Any:
        if text is None or path is None:
            return None
        well, found, way = _find(text, path)
        lax = way is not None and way.lax
        if not well or (found is not None and not lax and not _is_scalar(found)):
            return _otherwise("JSON_VALUE", on_error, error_default, text, path)
        if found is None or not _is_scalar(found):
            return _otherwise("JSON_VALUE", on_empty, empty_default, text, path)
        try:
            return _returned(found, target)
        except (ValueError, ArithmeticError):
            return _otherwise("JSON_VALUE", on_error, error_default, text, path)

    def kernel(setting: Setting, count: int, *values: Value) -> Value:
        used = [values[0], values[1], values[4], values[5]]
        return per_row(one, kind, used, count, strict=False)

    return kernel


def _otherwise(name: str, word: str, default: Any, text: str, path: str) -> Any:
    if word == "ERROR":
        raise EvaluationError(f"{name} found no value at path {path!r} in {text[:100]!r}")
    return default if word == "DEFAULT" else None


def _returned(value: Any, target: t.DataType) -> Any:
    if isinstance(target, t.VarCharType):
        return value if isinstance(value, str) else dump_json(value)
    if isinstance(target, t.BooleanType):
        if isinstance(value, bool):
            return value
        if str(value).lower() in ("true", "false"):
            return str(value).lower() == "true"
        raise ValueError("no BOOLEAN")
    if isinstance(value, bool):
        raise ValueError("a BOOLEAN is no number")
    if isinstance(target, t.DoubleType):
        return float(value)
    whole = int(decimal.Decimal(value))
    if not -(2**31) <= whole < 2**31:
        raise ValueError("out of range")
    return whole


# --- JSON_QUERY, JSON_EXISTS

_EMPTY: dict[str, Any] = {"EMPTY ARRAY": [], "EMPTY OBJECT": {}}


def _query(call: Any) -> Kernel:
    kind = arrow_type(call.type)
    listed = isinstance(call.type, t.ArrayType)
    wrapper, on_empty, on_error = (each.value for each in call.operands[2:])

    def answer(word: str, text: str, path: str) -> Any:
        if word == "ERROR":
            raise EvaluationError(f"JSON_QUERY found no array or object at path {path!r} in {text[:100]!r}")
        return given(_EMPTY[word]) if word in _EMPTY else None

    def given(value: Any) -> Any:
        if not listed:
            return dump_json(value)
        if not isinstance(value, list):
            return None
        return [
            None if each is None else each if isinstance(each, str) else dump_json(each) for each in value
        ]

    def one(text: str, path: str) -> Any:
        well, found, way = _find(text, path)
        if not well:
            return answer(on_error, text, path)
        if wrapper == "WITH UNCONDITIONAL" or (wrapper == "WITH CONDITIONAL" and not isinstance(found, list)):
            found = [found]
        lax = way is not None and way.lax
        if found is None or (lax and _is_scalar(found)):
            return answer(on_empty, text, path)
        if _is_scalar(found):
            return answer(on_error, text, path)
        return given(found)

    def kernel(setting: Setting, count: int, text: Value, path: Value, *words: Value) -> Value:
        return per_row(one, kind, [text, path], count)

    return kernel


def _exists(call: Any) -> Kernel:
    on_error = call.operands[2].value

    def one(text: str, path: str) -> bool | None:
        well, found, _ = _find(text, path)
        if well:
            return found is not None
        if on_error == "ERROR":
            raise EvaluationError(f"JSON_EXISTS could not follow path {path!r} in {text[:100]!r}")
        return {"TRUE": True, "FALSE": False}.get(on_error)

    def kernel(setting: Setting, count: int, text: Value, path: Value, word: Value) -> Value:
        return per_row(one, _BOOL, [text, path], count)

    return kernel


# --- IS JSON

_SHAPES: dict[str, Callable[[Any], bool]] = {
    "": lambda value: True,
    " VALUE": lambda value: True,
    " SCALAR": _is_scalar,
    " ARRAY": lambda value: isinstance(value, list),
    " OBJECT": lambda value: isinstance(value, dict),
}


def _is_json(shape: str, negated: bool) -> Factory:
    test = _SHAPES[shape]

    def one(text: str | None) -> bool:
        if text is None:
            return negated
        try:
            return test(_parsed(text)) is not negated
        except (ValueError, RecursionError):
            return negated

    return lambda call: lambda setting, count, value: per_row(one, _BOOL, [value], count, strict=False)


# --- making JSON

_MADE = ("JSON_OBJECT", "JSON_ARRAY", "JSON")


def _to_json(kind: t.DataType) -> Callable[[Any], str]:
    """Return what writes a Python value of a type as JSON."""
    for classes, make in _WRITERS:
        if isinstance(kind, classes):
            write = make(kind)
            return lambda value: "null" if value is None else write(value)
    return lambda value: dump_json(None if value is None else str(value))


def _array_writer(kind: Any) -> Callable[[Any], str]:
    write = _to_json(kind.element_type)
    return lambda values: f"[{','.join(map(write, values))}]"


def _map_writer(kind: Any) -> Callable[[Any], str]:
    value_type = t.IntType() if isinstance(kind, f.MultisetType) else kind.value_type
    write = _to_json(value_type)
    return lambda pairs: "{" + ",".join(f"{dump_json(str(key))}:{write(item)}" for key, item in pairs) + "}"


def _row_writer(kind: Any) -> Callable[[Any], str]:
    writers = {each.name: _to_json(each.data_type) for each in kind.fields}
    return lambda row: (
        "{" + ",".join(f"{dump_json(name)}:{write(row[name])}" for name, write in writers.items()) + "}"
    )


def _timestamp_text(value: datetime.datetime, zone: str = "") -> str:
    micro = f"{value.microsecond:06}".rstrip("0")
    fraction = f".{micro}" if micro else ""
    return dump_json(f"{value.replace(microsecond=0, tzinfo=None).isoformat()}{fraction}{zone}")


_Writer = Callable[[Any], Callable[[Any], str]]
_WRITERS: tuple[tuple[type[t.DataType] | tuple[type[t.DataType], ...], _Writer], ...] = (
    (t.VarCharType, lambda kind: dump_json),
    (f.VariantType, lambda kind: str),
    (t.BooleanType, lambda kind: dump_json),
    (t.FloatType, lambda kind: float_text),
    (t.DoubleType, lambda kind: double_text),
    (t.DecimalType, lambda kind: lambda value: f"{value:f}"),
    (t.NumericType, lambda kind: str),
    (t.VarBinaryType, lambda kind: lambda value: dump_json(base64.b64encode(value).decode())),
    (t.LocalZonedTimestampType, lambda kind: lambda value: _timestamp_text(value, "Z")),
    (t.TimestampType, lambda kind: _timestamp_text),
    (
        (f.YearMonthIntervalType, f.DayTimeIntervalType),
        lambda kind: lambda value: dump_json(interval_text(kind, value)),
    ),
    (t.ArrayType, _array_writer),
    ((t.MapType, f.MultisetType), _map_writer),
    (t.RowType, _row_writer),
)


def _writer_of(operand: Any) -> Callable[[Any], str]:
    if isinstance(operand, Call) and operand.function in _MADE:
        return lambda value: "null" if value is None else str(value)
    return _to_json(operand.type)


def _object(call: Any) -> Kernel:
    absent = call.operands[0].value == "ABSENT"
    writers = [_writer_of(each) for each in call.operands[2::2]]

    def kernel(setting: Setting, count: int, _: Value, *values: Value) -> Value:
        rows = 1 if all(map(is_constant, values)) else count
        columns = [list(python_values(each, rows)) for each in values]
        texts = []
        for row in zip(*columns, strict=True) if columns else [()] * rows:
            keys = row[::2]
            if any(key is None for key in keys):
                raise EvaluationError("a key of JSON_OBJECT is NULL")
            parts = [
                f"{dump_json(key)}:{write(value)}"
                for key, value, write in zip(keys, row[1::2], writers, strict=True)
                if value is not None or not absent
            ]
            texts.append("{" + ",".join(parts) + "}")
        return pa.scalar(texts[0]) if rows == 1 and count != 1 else pa.array(texts, _TEXT)

    return kernel


def _array(call: Any) -> Kernel:
    absent = call.operands[0].value == "ABSENT"
    writers = [_writer_of(each) for each in call.operands[1:]]

    def one(*row: Any) -> str:
        parts = [
            write(value) for value, write in zip(row, writers, strict=True) if value is not None or not absent
        ]
        return f"[{','.join(parts)}]"

    return lambda setting, count, _, *values: (
        per_row(one, _TEXT, values, count, strict=False) if values else pa.scalar("[]")
    )


def _string(call: Any) -> Kernel:
    write = _writer_of(call.operands[0])
    return lambda setting, count, value: per_row(write, _TEXT, [value], count)


def _as_json(call: Any) -> Kernel:
    return lambda setting, count, value: value


# --- VARIANT: its JSON text


def _parse(text: str, allow_duplicates: bool = False) -> str:
    try:
        return dump_json(_parsed(text))
    except (ValueError, RecursionError) as error:
        raise EvaluationError(
            f"text {text[:100]!r} is no JSON: {error}", hint="TRY_PARSE_JSON gives NULL instead."
        ) from error


def _try_parse(text: str, allow_duplicates: bool = False) -> str | None:
    try:
        return dump_json(_parsed(text))
    except (ValueError, RecursionError):
        return None


def variant_item(text: str, place: Any) -> str | None:
    """Return a part of a variant: of an array from 1, of an object by name."""
    value = _parsed(text)
    if isinstance(value, list) and isinstance(place, int):
        return dump_json(value[place - 1]) if 1 <= place <= len(value) else None
    if isinstance(value, dict) and isinstance(place, str):
        return dump_json(value[place]) if place in value else None
    return None


KERNELS: dict[str, Factory] = {
    "JSON_VALUE": _value,
    "JSON_QUERY": _query,
    "JSON_EXISTS": _exists,
    "JSON_OBJECT": _object,
    "JSON_ARRAY": _array,
    "JSON_STRING": _string,
    "JSON": _as_json,
    "PARSE_JSON": lambda call: lambda setting, count, *values: per_row(_parse, _TEXT, values, count),
    "TRY_PARSE_JSON": lambda call: lambda setting, count, *values: per_row(_try_parse, _TEXT, values, count),
    **{
        f"IS {'NOT ' if negated else ''}JSON{shape}": _is_json(shape, negated)
        for negated in (False, True)
        for shape in _SHAPES
    },
}
