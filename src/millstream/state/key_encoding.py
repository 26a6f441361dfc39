"""Canonical bytes of keys: order-preserving, the same in every process, run and version.

In the manner of FoundationDB's tuple layer: a type tag, then bytes that sort as the values do. There are two kinds.
`encode_key` gives what key groups are made of: numbers that are equal in Python (`1`, `1.0`, `True`) have the same
bytes. `encode_exactly` tells them apart, as PyFlink does, and knows objects of every kind by what they hold::

    int, str, bytes, dates, UUIDs, Enums ...   the bytes of encode_key
    bool, float, Decimal, complex              a tag of their own; NaN is equal to itself, -0.0 differs from 0.0
    tuple, list, Row, set, dict                their elements; of sets and dicts sorted by their bytes
    any other object                           its class and what it is pickled from
"""

from __future__ import annotations

import copyreg
import struct
from collections.abc import Callable
from datetime import UTC, date, datetime, timedelta
from datetime import time as time_of_day
from decimal import Decimal
from enum import Enum
from functools import lru_cache
from typing import Any
from uuid import UUID

from millstream.base.errors import ConfigurationError, shorten
from millstream.common.windows import GlobalWindow, TimeWindow
from millstream.state.canonical_key import CanonicalKey
from millstream.types.row import Row, RowSchema

__all__ = ["EPOCH", "MICROSECOND", "encode_exactly", "encode_key", "is_enum_or_type", "time_in_microseconds"]

Encoder = Callable[[Any], bytes]

_END = b"\x00"
_NAN_BITS = 0x7FF8 << 48
_NOT_A_TIME = b"\x28"
EPOCH = datetime(1970, 1, 1)
MICROSECOND = timedelta(microseconds=1)


def encode_key(key: Any) -> bytes:
    """Return the canonical bytes of a key, for its key group.

    Raises:
        ConfigurationError: If the key cannot be pickled, so that it has no bytes; names the type and the value.

    Example:
        >>> encode_key(1) == encode_key(1.0) == encode_key(True), encode_key(-5) < encode_key(3) < encode_key(300)
        (True, True)
        >>> encode_key(("a", 1)) < encode_key(("a", 2)) < encode_key(("ab", 0))
        True
    """
    encoder = _ENCODERS.get(type(key))
    if encoder is None:
        encoder = _encoder_of_base(key)
    return encoder(key)


def encode_exactly(key: Any) -> bytes:
    """Return bytes that two keys share if they are the same key, and only then.

    Raises:
        ConfigurationError: If the key cannot be pickled, so that it has no bytes; names the type and the value.

    Example:
        >>> encode_exactly(1) == encode_exactly(1.0), encode_exactly([1]) == encode_exactly((1,))
        (False, False)
        >>> encode_exactly(float("nan")) == encode_exactly(float("inf") * 0)
        True
        >>> encode_exactly({"a": 1, "b": {2, 3}}) == encode_exactly({"b": {3, 2}, "a": 1})
        True
    """
    encoder = _EXACT.get(type(key))
    if encoder is None:
        encoder = _exact_encoder_of_base(key)
    return encoder(key)


def is_enum_or_type(kind: type) -> bool:
    """Return whether objects of a type are enum members or classes: of each there is one, known by its name."""
    return issubclass(kind, (Enum, type))


def _encoder_of_base(key: Any) -> Encoder:
    if isinstance(key, Enum):
        return _enum
    for base in type(key).__mro__[1:]:
        if base in _ENCODERS:
            return _ENCODERS[base]
    if getattr(type(key), "__dataclass_params__", None) is not None and type(key).__dataclass_params__.frozen:
        return _dataclass
    item = getattr(key, "item", None)  # numpy scalars
    if callable(item) and type(key).__module__ == "numpy" and not getattr(key, "ndim", 0):
        return _numpy
    return encode_exactly


def _exact_encoder_of_base(key: Any) -> Encoder:
    if isinstance(key, Enum):
        return _enum
    if isinstance(key, type):
        return _class
    for base in type(key).__mro__[1:]:
        if base in _EXACT and base is not dict:
            return _EXACT[base]
    if hasattr(type(key), "__dataclass_fields__") and "__reduce__" not in type(key).__dict__:
        return _exact_dataclass
    item = getattr(key, "item", None)
    if callable(item) and type(key).__module__ == "numpy" and not getattr(key, "ndim", 0):
        return _exact_numpy
    return _object


def _refused(key: Any, error: BaseException) -> ConfigurationError:
    return ConfigurationError(
        f"a key of type {type(key).__name__} has no canonical form: {shorten(key)}",
        detail=f"Keys are told apart by what they are pickled from: {type(error).__name__}: {error}.",
        hint="Let the key selector return plain data, for example a tuple of the fields that make the key.",
    )


def _escaped(raw: bytes) -> bytes:
    return raw.replace(b"\x00", b"\x00\xff") + _END


def _int(key: int) -> bytes:
    if key >= 0:
        size = (key.bit_length() + 7) // 8
        return b"\x21" + _length(size) + key.to_bytes(size, "big")
    size = (key.bit_length() + 7) // 8
    inverted = (1 << (size * 8)) - 1 + key
    return b"\x20" + bytes(255 - b for b in _length(size)) + inverted.to_bytes(size, "big")


def _length(size: int) -> bytes:
    if size < 255:
        return bytes((size,))
    return b"\xff" + size.to_bytes(8, "big")


def _float(key: float) -> bytes:
    if key.is_integer():
        return _int(int(key))
    bits = int.from_bytes(struct.pack(">d", key), "big") if key == key else _NAN_BITS
    bits = bits ^ (1 << 63) if bits < 1 << 63 else bits ^ ((1 << 64) - 1)
    return b"\x22" + bits.to_bytes(8, "big")


def _decimal(key: Decimal) -> bytes:
    if key.is_nan():
        return b"\x23" + _escaped(b"NaN")
    if key.is_finite() and key == key.to_integral_value():
        return _int(int(key))
    as_float = float(key)
    if Decimal(as_float) == key:
        return _float(as_float)
    return b"\x23" + _escaped(str(key.normalize()).encode())


def _datetime(key: datetime) -> bytes:
    if key != key:  # the NaT of pandas, which is a datetime
        return _NOT_A_TIME
    aware = key.tzinfo is not None
    naive = key.astimezone(UTC).replace(tzinfo=None) if aware else key
    return (b"\x43" if aware else b"\x42") + _int((naive - EPOCH) // MICROSECOND)


def time_in_microseconds(key: time_of_day) -> int:
    """Return a time's microseconds since midnight, of one with a zone in UTC."""
    offset = key.utcoffset()
    micros = ((key.hour * 60 + key.minute) * 60 + key.second) * 1_000_000 + key.microsecond
    return micros - (0 if offset is None else offset // MICROSECOND)


def _time(key: time_of_day) -> bytes:
    return b"\x41" + _int(time_in_microseconds(key))


def _sequence(key: Any) -> bytes:
    return b"\x50" + b"".join(map(encode_key, key)) + _END


def _enum(key: Enum) -> bytes:
    if isinstance(key, (int, str)):
        return encode_key(key.value)
    return b"\x60" + _escaped(type(key).__qualname__.encode()) + _escaped(key.name.encode())


def _dataclass(key: Any) -> bytes:
    fields = (getattr(key, name) for name in type(key).__dataclass_fields__)
    return b"\x61" + _escaped(type(key).__qualname__.encode()) + b"".join(map(encode_key, fields)) + _END


def _numpy(key: Any) -> bytes:
    item = key.item()
    return encode_exactly(key) if type(item) is type(key) else encode_key(item)


def _exact_numpy(key: Any) -> bytes:
    if key.dtype.kind in "mM":
        return b"\x2a" + _escaped(key.dtype.str.encode()) + _int(int(key.astype("int64")))
    item = key.item()
    if type(item) is type(key):  # more digits than a float has
        return b"\x29" + _escaped(repr(key).encode())
    return encode_exactly(item)


def _exact_datetime(key: datetime) -> bytes:
    if key != key:
        return _NOT_A_TIME
    return _datetime(key) + _nanoseconds(getattr(key, "nanosecond", 0))


def _exact_timedelta(key: timedelta) -> bytes:
    return b"\x44" + _int(key // MICROSECOND) + _nanoseconds(getattr(key, "nanoseconds", 0))


def _nanoseconds(rest: int) -> bytes:
    """Return the bytes of what pandas' times have beside microseconds; none if that is nothing."""
    return b"\x45" + _int(rest) if rest else b""


def _exact_bool(key: bool) -> bytes:
    return b"\x02\x01" if key else b"\x02\x00"


def _exact_float(key: float) -> bytes:
    if not key.is_integer() and key == key:
        return _float(key)
    return b"\x24" + struct.pack(">d", key) if key == key else b"\x25"


def _exact_decimal(key: Decimal) -> bytes:
    return b"\x26" + _escaped(b"NaN" if key.is_nan() else str(key.normalize()).encode())


def _exact_complex(key: complex) -> bytes:
    return b"\x27" + _exact_float(key.real) + _exact_float(key.imag)


def _exact_elements(tag: bytes) -> Encoder:
    return lambda key: tag + b"".join(map(encode_exactly, key)) + _END


def _exact_set(tag: bytes) -> Encoder:
    return lambda key: tag + b"".join(sorted(map(encode_exactly, key))) + _END


def _exact_dict(key: dict[Any, Any]) -> bytes:
    return b"\x52" + b"".join(sorted(encode_exactly(k) + encode_exactly(v) for k, v in key.items())) + _END


def _exact_row(key: Row) -> bytes:
    return _row_head(key._schema) + b"".join(map(encode_exactly, key._values)) + _END


@lru_cache(maxsize=1000)
def _row_head(schema: RowSchema) -> bytes:
    return b"\x55" + bytes((schema.kind.value + 1,)) + encode_exactly(schema.fields)


def _exact_dataclass(key: Any) -> bytes:
    fields = (getattr(key, name) for name in type(key).__dataclass_fields__)
    return b"\x61" + _escaped(type(key).__qualname__.encode()) + b"".join(map(encode_exactly, fields)) + _END


def _class(key: type) -> bytes:
    return b"\x62" + _escaped(key.__qualname__.encode())


def _object(key: Any) -> bytes:
    """Return the bytes of an object: its class, and what it would be pickled from."""
    try:
        reduced = _reduced(key)
        if isinstance(reduced, str):  # the name of something that exists once
            return b"\x63" + _class(type(key)) + _escaped(reduced.encode())
        make, arguments, *rest = reduced
        state, elements, items = (*rest, None, None, None)[:3]
        made_by = _escaped(getattr(make, "__qualname__", type(make).__qualname__).encode())
        held = (arguments, state, elements and list(elements), items and dict(items))
        return b"\x64" + _class(type(key)) + made_by + encode_exactly(held)
    except ConfigurationError:
        raise
    except Exception as error:
        raise _refused(key, error) from error


def _reduced(key: Any) -> Any:
    reduce = copyreg.dispatch_table.get(type(key))
    return key.__reduce_ex__(4) if reduce is None else reduce(key)


_ENCODERS: dict[type, Encoder] = {
    CanonicalKey: lambda key: encode_key(key._original),
    type(None): lambda key: b"\x01",
    bytes: lambda key: b"\x10" + _escaped(key),
    str: lambda key: b"\x11" + _escaped(key.encode("utf-8", "surrogatepass")),
    bool: _int,
    int: _int,
    float: _float,
    Decimal: _decimal,
    date: lambda key: b"\x40" + _int(key.toordinal()),
    datetime: _datetime,
    time_of_day: _time,
    tuple: _sequence,
    list: _sequence,
    Row: _sequence,
    UUID: lambda key: b"\x70" + key.bytes,
    TimeWindow: lambda key: b"\x58" + _int(key.start) + _int(key.end),
    GlobalWindow: lambda key: b"\x59",
}

_EXACT: dict[type, Encoder] = {
    **_ENCODERS,
    CanonicalKey: lambda key: key.identity,
    bool: _exact_bool,
    float: _exact_float,
    complex: _exact_complex,
    Decimal: _exact_decimal,
    datetime: _exact_datetime,
    timedelta: _exact_timedelta,
    bytearray: lambda key: b"\x12" + _escaped(bytes(key)),
    tuple: _exact_elements(b"\x50"),
    list: _exact_elements(b"\x51"),
    dict: _exact_dict,
    set: _exact_set(b"\x53"),
    frozenset: _exact_set(b"\x54"),
    Row: _exact_row,
}
