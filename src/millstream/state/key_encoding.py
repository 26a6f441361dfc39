"""Canonical bytes of keys: order-preserving, the same in every process, run and version.

In the manner of FoundationDB's tuple layer: a type tag, then bytes that sort as the values do. Keys that are
equal in Python (`1`, `1.0`, `True`) have the same bytes, so hashing agrees with dict look-up.
"""

from __future__ import annotations

import struct
from collections.abc import Callable
from datetime import UTC, date, datetime, timedelta
from datetime import time as time_of_day
from decimal import Decimal
from enum import Enum
from typing import Any
from uuid import UUID

from millstream.common.errors import ConfigurationError, shorten
from millstream.common.types import Row
from millstream.common.windows import GlobalWindow, TimeWindow

__all__ = ["encode_key"]

_END = b"\x00"
_EPOCH = datetime(1970, 1, 1)
_MICROSECOND = timedelta(microseconds=1)


def encode_key(key: Any) -> bytes:
    """Return the canonical bytes of a key.

    Args:
        key: None, bool, int, float, str, bytes, Decimal, Enum, date, time, datetime, UUID, or tuples, lists,
            Rows and frozen dataclasses of these.

    Raises:
        ConfigurationError: If the key's type has no canonical bytes; names the type and the value.

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


def _encoder_of_base(key: Any) -> Callable[[Any], bytes]:
    if isinstance(key, Enum):
        return _enum
    for base in type(key).__mro__[1:]:
        if base in _ENCODERS:
            return _ENCODERS[base]
    if getattr(type(key), "__dataclass_params__", None) is not None and type(key).__dataclass_params__.frozen:
        return _dataclass
    item = getattr(key, "item", None)  # numpy scalars
    if callable(item) and type(key).__module__ == "numpy":
        return _numpy
    raise ConfigurationError(
        f"a key of type {type(key).__name__} has no canonical form: {shorten(key)}",
        detail="Keys are None, bool, int, float, str, bytes, Decimal, Enum, date, time, datetime, UUID, or "
        "tuples, Rows and frozen dataclasses of these.",
        hint="Let the key selector return one of these, for example a tuple of the fields that make the key.",
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
    bits = int.from_bytes(struct.pack(">d", key), "big")
    bits = bits ^ (1 << 63) if bits < 1 << 63 else bits ^ ((1 << 64) - 1)
    return b"\x22" + bits.to_bytes(8, "big")


def _decimal(key: Decimal) -> bytes:
    if key.is_finite() and key == key.to_integral_value():
        return _int(int(key))
    as_float = float(key)
    if Decimal(as_float) == key:
        return _float(as_float)
    return b"\x23" + _escaped(str(key.normalize()).encode())


def _datetime(key: datetime) -> bytes:
    aware = key.tzinfo is not None
    naive = key.astimezone(UTC).replace(tzinfo=None) if aware else key
    return (b"\x43" if aware else b"\x42") + _int((naive - _EPOCH) // _MICROSECOND)


def _time(key: time_of_day) -> bytes:
    offset = key.utcoffset()
    micros = ((key.hour * 60 + key.minute) * 60 + key.second) * 1_000_000 + key.microsecond
    return b"\x41" + _int(micros - (0 if offset is None else offset // _MICROSECOND))


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
    return encode_key(key.item())


_ENCODERS: dict[type, Callable[[Any], bytes]] = {
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
