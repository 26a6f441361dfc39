"""The one hash of keys: of single values and of columns, with equal results.

A key becomes a **word** of 64 bits by its kind, the word's bits are mixed, and the key group is cut from the mix. Words
are made so that numpy makes them of a whole column as well::

    int, bool              the number, modulo 2**64 (numbers of more than 64 bits: as anything else)
    float, Decimal         of an int that is equal; else the bits of an equal float
    str, bytes             CRC-32 of the UTF-8, of the bytes
    date, datetime, time   days, microseconds; of datetimes with a zone in UTC
    tuple, list, Row       the words of their elements, folded
    anything else          CRC-32 of the canonical bytes (`encode_key`)

So numbers that are equal in Python have one word, whatever their kind: dicts take them for one key. Keys that are not
equal may share a word. Words do not depend on interpreter run, machine or version: checkpoints rely on that.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Iterable, Sequence
from datetime import UTC, date, datetime
from datetime import time as time_of_day
from decimal import Decimal
from enum import Enum
from types import NoneType
from typing import TYPE_CHECKING, Any
from zlib import crc32

from millstream.base.time import Instant
from millstream.state.canonical_key import CanonicalKey
from millstream.state.key_encoding import EPOCH, MICROSECOND, encode_key, time_in_microseconds
from millstream.types.row import Row

if TYPE_CHECKING:
    import numpy
    import pyarrow

    from millstream.state.key_words import Words

__all__ = ["key_group", "key_groups_of_columns", "key_hash"]

_MASK = (1 << 64) - 1
_FIRST = 0x9E3779B97F4A7C15
_SECOND = 0xBF58476D1CE4E5B9
_LEAST, _BEYOND = -(1 << 63), 1 << 64
_EXACT_FLOATS = 1 << 63
_GROUP_SHIFT = 33

_NONE = 1 << 40
_NAN = 2 << 40
_BYTES = 3 << 40
_DATE = 4 << 40
_OTHER = 5 << 40
_TUPLE = 6 << 40
_TIME = 7 << 56
_NAIVE = 8 << 56
_AWARE = 9 << 56

_double = struct.Struct(">d").pack


def key_group(key: Any, max_parallelism: int) -> int:
    """Return the key's group, in `[0, max_parallelism)`.

    Raises:
        ConfigurationError: If the key cannot be pickled, so that it has no bytes; names the type and the value.

    >>> key_group("AA", 128) == key_group("A" + "A", 128)
    True
    """
    word = _WORDS[type(key)](key) * _FIRST & _MASK
    return (((word ^ word >> 32) * _SECOND & _MASK) >> _GROUP_SHIFT) % max_parallelism


def key_hash(key: Any) -> int:
    """Return 64 bits of which all depend on the whole key; the same as `hash_columns` gives.

    Raises:
        ConfigurationError: As `key_group` does.

    >>> key_hash(1) == key_hash(1.0) == key_hash(True), key_hash(("a", 1)) == key_hash(("a", 2))
    (True, False)
    """
    word = _WORDS[type(key)](key) * _FIRST & _MASK
    word = (word ^ word >> 32) * _SECOND & _MASK
    return word ^ word >> 32


def _int(key: int) -> int:
    return key & _MASK if _LEAST <= key < _BEYOND else _other(key)


def _float(key: float) -> int:
    if key.is_integer():
        return _int(int(key))
    return int.from_bytes(_double(key), "big") if key == key else _NAN


def _decimal(key: Decimal) -> int:
    if key.is_nan():
        return _NAN
    if key.is_finite() and key == key.to_integral_value():
        return _int(int(key))
    as_float = float(key)
    return _float(as_float) if Decimal(as_float) == key else _other(key)


def _str(key: str) -> int:
    try:
        return crc32(key.encode())
    except UnicodeEncodeError:
        return crc32(key.encode("utf-8", "surrogatepass"))


def _bytes(key: bytes) -> int:
    return crc32(key) + _BYTES


def _date(key: date) -> int:
    return key.toordinal() + _DATE


def _datetime(key: datetime) -> int:
    if key != key:  # the NaT of pandas, which is a datetime
        return _NONE
    if key.tzinfo is None:
        return (key - EPOCH) // MICROSECOND + _NAIVE & _MASK
    return (key.astimezone(UTC).replace(tzinfo=None) - EPOCH) // MICROSECOND + _AWARE & _MASK


def _instant(key: Instant) -> int:
    """Return the word of an aware datetime of the same moment: columns of moments do not tell them apart."""
    return key.seconds * 1_000_000 + key.nanos // 1_000 + _AWARE & _MASK


def _time(key: time_of_day) -> int:
    return time_in_microseconds(key) + _TIME & _MASK


def _elements(key: Iterable[Any]) -> int:
    words = _WORDS
    folded = _TUPLE
    for element in key:
        folded = (folded ^ words[type(element)](element)) * _FIRST & _MASK
        folded ^= folded >> 32
    return folded


def _other(key: Any) -> int:
    return crc32(encode_key(key)) + _OTHER


def _enum(key: Enum) -> int:
    if isinstance(key, (int, str)):  # equal to its value
        return _word(key.value)
    return _other(key)


def _numpy_scalar(key: Any) -> int:
    item = key.item()
    return _other(key) if type(item) is type(key) else _word(item)


def _word(key: Any) -> int:
    return _WORDS[type(key)](key)


class _ByKind(dict[type, Callable[[Any], int]]):
    """How the word of a key of a kind is made; that of a subclass is found once."""

    def __missing__(self, kind: type) -> Callable[[Any], int]:
        found = self[kind] = _of_subclass(kind)
        return found


def _of_subclass(kind: type) -> Callable[[Any], int]:
    if issubclass(kind, Enum):
        return _enum
    for base in kind.__mro__[1:]:
        if base in _WORDS and base is not object:
            return _WORDS[base]
    if kind.__module__ == "numpy" and callable(getattr(kind, "item", None)) and kind.__hash__ is not None:
        return _numpy_scalar
    return _other


_WORDS = _ByKind(
    {
        bool: int,
        bytes: _bytes,
        CanonicalKey: lambda key: _word(key._original),
        date: _date,
        datetime: _datetime,
        Decimal: _decimal,
        float: _float,
        Instant: _instant,
        int: _int,
        list: _elements,
        NoneType: lambda key: _NONE,
        Row: _elements,
        str: _str,
        time_of_day: _time,
        tuple: _elements,
    }
)


def key_groups_of_columns(
    arrays: Sequence[pyarrow.Array], max_parallelism: int
) -> numpy.ndarray[tuple[int], numpy.dtype[numpy.int32]]:
    """Return the key group of each row, as `key_group` gives it for what the columns have there.

    Args:
        arrays: The key columns, of the same length; at least one. The key of one column is its value, that of
            several a tuple.
        max_parallelism: Number of key groups.

    Returns:
        One group for each row.

    Raises:
        ConfigurationError: If a key has no canonical form.
    """
    hashes = hash_columns(arrays)
    hashes >>= hashes.dtype.type(_GROUP_SHIFT)
    hashes %= hashes.dtype.type(max_parallelism)
    return hashes.astype("int32")


def hash_columns(arrays: Sequence[pyarrow.Array]) -> Words:
    """Return the `key_hash` of each row, in an array of its own.

    Args:
        arrays: The key columns, as `key_groups_of_columns` takes them.
    """
    # Whoever has columns has pyarrow and numpy; jobs without columns never import them.
    from millstream.state.key_words import fold_words, mix_words, words_of_column

    columns = [words_of_column(array) for array in arrays]
    return mix_words(columns[0] if len(columns) == 1 else fold_words(columns))
