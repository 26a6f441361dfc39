"""Canonical bytes back to keys, where that gives the key itself.

Keys that are equal have the same bytes (`1`, `1.0`, `True`), so bytes alone do not tell a key's type in every
case. `is_decodable` says for which keys they do; for others the key itself has to be stored as well.
"""

from __future__ import annotations

import pickle
import struct
from collections.abc import Callable
from typing import Any

from millstream.base.errors import ConfigurationError
from millstream.common.windows import GlobalWindow, TimeWindow
from millstream.state.key_encoding import encode_key

__all__ = ["decode_key", "encode_user_key", "is_decodable"]

_PICKLED = b"\x7f"
_SIMPLE = frozenset({type(None), str, int, bytes, TimeWindow, GlobalWindow})


def encode_user_key(key: Any) -> bytes:
    """Return the canonical bytes of a key of a MapState or a namespace; pickled under a tag if it has none.

    Pickles of equal objects are not always the same: such keys should be avoided where equality matters.
    """
    try:
        return encode_key(key)
    except ConfigurationError:
        return _PICKLED + pickle.dumps(key, protocol=5).replace(b"\x00", b"\x00\xff") + b"\x00"


def is_decodable(key: Any) -> bool:
    """Return whether `decode_key` gives the very same key, of the same type.

    >>> is_decodable(("a", 1)), is_decodable(True), is_decodable(1.0), is_decodable(1.5)
    (True, False, False, True)
    """
    kind = type(key)
    if kind in _SIMPLE:
        return True
    if kind is tuple:
        return all(map(is_decodable, key))
    return kind is float and not key.is_integer()


def decode_key(encoded: bytes, start: int = 0) -> tuple[Any, int]:
    """Return a decodable key and where its bytes end.

    Args:
        encoded: Bytes of one key, or of several one after the other.
        start: Where the key begins.

    Raises:
        ValueError: If there are the bytes of a key that cannot be decoded.

    Example:
        >>> decode_key(encode_key(("a", -300)))[0]
        ('a', -300)
    """
    tag = encoded[start]
    decoder = _DECODERS.get(tag)
    if decoder is None:
        raise ValueError(f"a key with tag {tag:#x} cannot be decoded")
    return decoder(encoded, start + 1)


def _escaped(encoded: bytes, start: int) -> tuple[bytes, int]:
    end = encoded.index(b"\x00", start)
    while encoded[end + 1 : end + 2] == b"\xff":
        end = encoded.index(b"\x00", end + 1)
    return encoded[start:end].replace(b"\x00\xff", b"\x00"), end + 1


def _string(encoded: bytes, start: int) -> tuple[str, int]:
    raw, end = _escaped(encoded, start)
    return raw.decode("utf-8", "surrogatepass"), end


def _positive(encoded: bytes, start: int) -> tuple[int, int]:
    size = encoded[start]
    start += 1
    if size == 255:
        size = int.from_bytes(encoded[start : start + 8], "big")
        start += 8
    return int.from_bytes(encoded[start : start + size], "big"), start + size


def _negative(encoded: bytes, start: int) -> tuple[int, int]:
    size = 255 - encoded[start]
    start += 1
    if size == 255:
        size = int.from_bytes(bytes(255 - byte for byte in encoded[start : start + 8]), "big")
        start += 8
    inverted = int.from_bytes(encoded[start : start + size], "big")
    return inverted - ((1 << (size * 8)) - 1), start + size


def _float(encoded: bytes, start: int) -> tuple[float, int]:
    bits = int.from_bytes(encoded[start : start + 8], "big")
    bits = bits ^ (1 << 63) if bits >> 63 else bits ^ ((1 << 64) - 1)
    number: float = struct.unpack(">d", bits.to_bytes(8, "big"))[0]
    return number, start + 8


def _tuple(encoded: bytes, start: int) -> tuple[tuple[Any, ...], int]:
    fields = []
    while encoded[start]:
        field, start = decode_key(encoded, start)
        fields.append(field)
    return tuple(fields), start + 1


def _window(encoded: bytes, start: int) -> tuple[TimeWindow, int]:
    first, start = decode_key(encoded, start)
    last, start = decode_key(encoded, start)
    return TimeWindow(first, last), start


_DECODERS: dict[int, Callable[[bytes, int], tuple[Any, int]]] = {
    0x01: lambda encoded, start: (None, start),
    0x10: _escaped,
    0x11: _string,
    0x20: _negative,
    0x21: _positive,
    0x22: _float,
    0x50: _tuple,
    0x58: _window,
    0x59: lambda encoded, start: (GlobalWindow.get(), start),
}
