"""Records that Amazon's producer library (KPL) packed into one: a message of Protocol Buffers between magic and digest.

::

    F3 89 9A C2 │ message AggregatedRecord                            │ MD5 of the message
                │   1: partition keys                                 │
                │   3: records { 1: index of the key  3: data }       │

Flink's consumer unpacks them; so do we. What only looks like one, and whose digest does not fit, is a record as it is.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator

__all__ = ["unpack"]

_MAGIC = b"\xf3\x89\x9a\xc2"
_DIGEST_BYTES = 16
_VARINT, _FIXED64, _BYTES, _FIXED32 = 0, 1, 2, 5
_KEYS, _RECORDS = 1, 3
_KEY_INDEX, _DATA = 1, 3


def unpack(partition_key: str, data: bytes) -> list[tuple[str, bytes]]:
    """Return partition key and data of each record that is packed into one, or of itself.

    >>> unpack("k", b"plain")
    [('k', b'plain')]
    """
    if not data.startswith(_MAGIC) or len(data) < len(_MAGIC) + _DIGEST_BYTES:
        return [(partition_key, data)]
    message, digest = data[len(_MAGIC) : -_DIGEST_BYTES], data[-_DIGEST_BYTES:]
    if hashlib.md5(message, usedforsecurity=False).digest() != digest:
        return [(partition_key, data)]
    keys: list[str] = []
    found: list[tuple[int, bytes]] = []
    for number, value in _fields(message):
        if number == _KEYS and isinstance(value, bytes):
            keys.append(value.decode())
        elif number == _RECORDS and isinstance(value, bytes):
            parts = dict(_fields(value))
            index, packed = parts.get(_KEY_INDEX, 0), parts.get(_DATA, b"")
            assert isinstance(index, int) and isinstance(packed, bytes)
            found.append((index, packed))
    return [(keys[index], packed) for index, packed in found]


def _fields(message: bytes) -> Iterator[tuple[int, int | bytes]]:
    """Yield number and value of each field of a message."""
    place = 0
    while place < len(message):
        tag, place = _varint(message, place)
        kind = tag & 7
        if kind == _VARINT:
            value, place = _varint(message, place)
            yield tag >> 3, value
            continue
        if kind == _BYTES:
            size, place = _varint(message, place)
        else:
            size = {_FIXED64: 8, _FIXED32: 4}[kind]
        yield tag >> 3, message[place : place + size]
        place += size


def _varint(message: bytes, place: int) -> tuple[int, int]:
    value = shift = 0
    while True:
        byte = message[place]
        value |= (byte & 0x7F) << shift
        place += 1
        if byte < 0x80:
            return value, place
        shift += 7
