"""Values of declared types from and to what JSON and CSV have: strings, numbers, lists, objects."""

from __future__ import annotations

import base64
import datetime
import decimal
from collections.abc import Callable, Sequence
from typing import Any

from millstream.base.errors import NotSupportedError
from millstream.base.time import Instant
from millstream.types.basic import BasicTypeInfo, PickledBytesTypeInfo, TypeInformation
from millstream.types.composite import (
    ExternalTypeInfo,
    MapTypeInfo,
    PrimitiveArrayTypeInfo,
    RowTypeInfo,
    TupleTypeInfo,
    _SequenceTypeInfo,
)
from millstream.types.row import Row

__all__ = ["Converter", "reader", "scalar_reader", "scalar_writer", "writer"]

Converter = Callable[[Any], Any]


def _boolean(value: Any) -> bool:
    if isinstance(value, bool):
        return value
    if str(value).strip().lower() in ("true", "false"):
        return str(value).strip().lower() == "true"
    raise ValueError(f"{value!r} is neither true nor false")


def _integer(value: Any) -> int:
    if isinstance(value, bool) or (isinstance(value, float) and not value.is_integer()):
        raise ValueError(f"{value!r} is no integer")
    return int(value)


def _text(value: Any) -> str:
    if isinstance(value, bool):
        return "true" if value else "false"
    return value if isinstance(value, str) else str(value)


def _timestamp(value: Any) -> datetime.datetime:
    return datetime.datetime.fromisoformat(str(value).strip()).replace(tzinfo=None)


def _instant(value: Any) -> Instant:
    found = datetime.datetime.fromisoformat(str(value).strip())
    seconds = found.replace(microsecond=0, tzinfo=found.tzinfo or datetime.UTC).timestamp()
    return Instant(int(seconds), found.microsecond * 1000)


_READERS: dict[str, Converter] = {
    "STRING": _text,
    "CHAR": _text,
    "BOOLEAN": _boolean,
    "BYTE": _integer,
    "SHORT": _integer,
    "INT": _integer,
    "LONG": _integer,
    "BIG_INT": _integer,
    "FLOAT": float,
    "DOUBLE": float,
    "BIG_DEC": lambda value: decimal.Decimal(str(value).strip()),
    "INSTANT": _instant,
    "SQL_DATE": lambda value: datetime.date.fromisoformat(str(value).strip()),
    "SQL_TIME": lambda value: datetime.time.fromisoformat(str(value).strip()).replace(tzinfo=None),
    "SQL_TIMESTAMP": _timestamp,
    "LOCAL_DATE": lambda value: datetime.date.fromisoformat(str(value).strip()),
    "LOCAL_TIME": lambda value: datetime.time.fromisoformat(str(value).strip()),
    "LOCAL_DATE_TIME": _timestamp,
}


def _instant_text(value: Instant) -> str:
    moment = datetime.datetime.fromtimestamp(value.seconds, datetime.UTC)
    return moment.replace(microsecond=value.nanos // 1000).isoformat().replace("+00:00", "Z")


_WRITERS: dict[str, Converter] = {
    "BIG_DEC": lambda value: int(value) if value == value.to_integral_value() else float(value),
    "INSTANT": _instant_text,
    "SQL_DATE": lambda value: value.isoformat(),
    "SQL_TIME": lambda value: value.isoformat() + "Z",
    "SQL_TIMESTAMP": lambda value: value.isoformat() + "Z",
    "LOCAL_DATE": lambda value: value.isoformat(),
    "LOCAL_TIME": lambda value: value.isoformat(),
    "LOCAL_DATE_TIME": lambda value: value.isoformat(),
}


def scalar_reader(kind: TypeInformation) -> Converter | None:
    """Return what reads a value without parts, None if the type has some."""
    return _READERS[kind.name] if isinstance(kind, BasicTypeInfo) else None


def scalar_writer(kind: TypeInformation) -> Converter | None:
    """Return what writes a value without parts, None if the type has some."""
    return _WRITERS.get(kind.name, lambda value: value) if isinstance(kind, BasicTypeInfo) else None


def reader(kind: TypeInformation, *, fail_on_missing: bool) -> Converter:
    """Return what makes a value of a type from parsed JSON; None stays None.

    Args:
        kind: The type.
        fail_on_missing: Whether a field that an object lacks is an error (a ValueError), not None.

    Raises:
        NotSupportedError: If the type has no JSON form.
    """

    def inner(part: TypeInformation) -> Converter:
        return reader(part, fail_on_missing=fail_on_missing)

    scalar = scalar_reader(kind)
    if scalar is not None:
        return _nullable(scalar)
    if isinstance(kind, ExternalTypeInfo):
        return inner(kind._type_info)
    if isinstance(kind, RowTypeInfo):
        return _nullable(_RowReader(kind, [inner(part) for part in kind.get_field_types()], fail_on_missing))
    if isinstance(kind, TupleTypeInfo):
        parts = [inner(part) for part in kind.get_field_types()]
        return _nullable(lambda values: tuple(read(v) for read, v in zip(parts, values, strict=True)))
    if isinstance(kind, MapTypeInfo):
        value_reader, key_reader = inner(kind._value_type), inner(kind._key_type)
        return _nullable(lambda items: {key_reader(k): value_reader(v) for k, v in items.items()})
    if isinstance(kind, PrimitiveArrayTypeInfo) and kind._element_type.describe() == "BYTE":
        return _nullable(lambda text: base64.b64decode(text, validate=True))
    if isinstance(kind, _SequenceTypeInfo):
        element = inner(kind._element_type)
        return _nullable(lambda values: [element(value) for value in _list(values)])
    raise _no_json(kind)


def writer(kind: TypeInformation) -> Converter:
    """Return what makes JSON's values from a value of a type; None stays None.

    Raises:
        NotSupportedError: If the type has no JSON form.
    """
    scalar = scalar_writer(kind)
    if scalar is not None:
        return _nullable(scalar)
    if isinstance(kind, ExternalTypeInfo):
        return writer(kind._type_info)
    if isinstance(kind, RowTypeInfo):
        pairs = list(zip(kind.get_field_names(), map(writer, kind.get_field_types()), strict=True))
        return _nullable(lambda row: {n: w(v) for (n, w), v in zip(pairs, kind._in_order(row), strict=True)})
    if isinstance(kind, TupleTypeInfo):
        parts = list(map(writer, kind.get_field_types()))
        return _nullable(lambda values: [write(v) for write, v in zip(parts, values, strict=True)])
    if isinstance(kind, MapTypeInfo):
        value_writer = writer(kind._value_type)
        return _nullable(lambda items: {str(key): value_writer(value) for key, value in items.items()})
    if isinstance(kind, PrimitiveArrayTypeInfo) and kind._element_type.describe() == "BYTE":
        return _nullable(lambda data: base64.b64encode(bytes(data)).decode())
    if isinstance(kind, _SequenceTypeInfo):
        element = writer(kind._element_type)
        return _nullable(lambda values: [element(value) for value in values])
    raise _no_json(kind)


class _RowReader:
    def __init__(self, kind: RowTypeInfo, parts: Sequence[Converter], fail_on_missing: bool) -> None:
        self._names = tuple(kind.get_field_names())
        self._parts = list(zip(self._names, parts, strict=True))
        self._fail_on_missing = fail_on_missing

    def __call__(self, value: Any) -> Row:
        if not isinstance(value, dict):
            raise ValueError(f"{value!r} is no JSON object")
        if self._fail_on_missing:
            for name in self._names:
                if name not in value:
                    raise ValueError(f"field {name!r} is missing")
        return Row.of(self._names, [read(value.get(name)) for name, read in self._parts])


def _list(value: Any) -> list[Any]:
    if not isinstance(value, list):
        raise ValueError(f"{value!r} is no JSON array")
    return value


def _nullable(convert: Converter) -> Converter:
    return lambda value: None if value is None else convert(value)


def _no_json(kind: TypeInformation) -> NotSupportedError:
    detail = "Pickled values are readable to Python only." if isinstance(kind, PickledBytesTypeInfo) else None
    return NotSupportedError(f"type {kind.describe()} has no JSON form", detail=detail)
