"""The words of whole columns, by numpy: each equal to the word that `key_hash` makes of the same single value.

Only jobs with columns import this module.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import lru_cache
from typing import Any
from zlib import crc32

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from millstream.state import key_hash as single
from millstream.types.arrow_values import values_of
from millstream.types.numpy_views import as_numpy

__all__ = ["Words", "fold_words", "mix_words", "words_of_column"]

Words = np.ndarray[tuple[int], np.dtype[np.uint64]]

_LONG_BYTES = 256
_WORD_BYTES = 4
_PORTION = 16_384  # rows whose numbers stay in the processor's cache from step to step
_EPOCH_ORDINAL = 719_163
_DAY_MS = 86_400_000
_PER_SECOND = {"s": 1, "ms": 1_000, "us": 1_000_000, "ns": 1_000_000_000}
_POLYNOMIAL = 0xEDB88320


def words_of_column(array: pa.Array) -> Words:
    """Return the word of each value, in an array of its own."""
    make = _word_maker(array.type)
    words = make(array) if len(array) else np.empty(0, np.uint64)
    if array.null_count and make is not _of_dictionary:
        words[as_numpy(array.is_null())] = single._NONE
    return words


def fold_words(columns: Sequence[Words]) -> Words:
    """Return the words of tuples: one of each row's words."""
    folded = np.full(len(columns[0]), single._TUPLE, np.uint64)
    for words in columns:
        folded ^= words
        folded *= np.uint64(single._FIRST)
        folded ^= folded >> np.uint64(32)
    return folded


def mix_words(words: Words) -> Words:
    """Turn words into hashes, in place."""
    words *= np.uint64(single._FIRST)
    words ^= words >> np.uint64(32)
    words *= np.uint64(single._SECOND)
    words ^= words >> np.uint64(32)
    return words


@lru_cache(maxsize=200)
def _word_maker(kind: pa.DataType) -> Callable[[pa.Array], Words]:
    types = pa.types
    for is_kind, make in (
        (types.is_integer, _of_integers),
        (types.is_boolean, lambda array: _of_integers(array.cast(pa.uint8()))),
        (types.is_floating, _of_floats),
        (lambda kind: types.is_string(kind) or types.is_large_string(kind), _of_strings),
        (lambda kind: types.is_binary(kind) or types.is_large_binary(kind), _of_binaries),
        (types.is_date, _of_dates),
        (types.is_timestamp, _of_timestamps),
        (types.is_time, lambda array: _microseconds(array) + np.uint64(single._TIME)),
        (types.is_dictionary, _of_dictionary),
        (types.is_null, lambda array: np.full(len(array), single._NONE, np.uint64)),
    ):
        if is_kind(kind):
            return make
    return _of_values


def _as_words(numbers: Any) -> Words:
    """Return integers modulo 2**64."""
    words: Words = numbers.view(np.uint64)
    return words


def _raw(array: pa.Array, kind: Any) -> Any:
    """Return the numbers of an array of fixed width as they are in memory; where it has nulls, anything."""
    dtype = np.dtype(kind)
    return np.frombuffer(array.buffers()[1], dtype, len(array), array.offset * dtype.itemsize)


def _of_integers(array: pa.Array) -> Words:
    kind = array.type.to_pandas_dtype()
    return _as_words(
        _raw(array, kind).astype(np.int64 if np.issubdtype(kind, np.signedinteger) else np.uint64)
    )


def _of_floats(array: pa.Array) -> Words:
    numbers = _raw(array, array.type.to_pandas_dtype()).astype(np.float64)
    words = _as_words(numbers).copy()
    with np.errstate(invalid="ignore"):
        whole = (np.trunc(numbers) == numbers) & np.isfinite(numbers)
        words[whole] = numbers[whole].astype(np.int64).view(np.uint64)
    words[np.isnan(numbers)] = single._NAN
    for place in np.flatnonzero(whole & (np.abs(numbers) >= single._EXACT_FLOATS)):
        words[place] = single._float(float(numbers[place]))
    return words


def _of_dates(array: pa.Array) -> Words:
    days = _raw(array, np.int32) if array.type == pa.date32() else _raw(array, np.int64) // _DAY_MS
    return _as_words(days.astype(np.int64) + (_EPOCH_ORDINAL + single._DATE))


def _of_timestamps(array: pa.Array) -> Words:
    return _microseconds(array) + np.uint64(single._NAIVE if array.type.tz is None else single._AWARE)


def _microseconds(array: pa.Array) -> Words:
    counts = _raw(array, np.int32 if array.type.bit_width == 32 else np.int64).astype(np.int64)
    per_second = _PER_SECOND[array.type.unit]
    micros = (
        counts * (1_000_000 // per_second) if per_second <= 1_000_000 else counts // (per_second // 1_000_000)
    )
    return _as_words(micros)


def _of_dictionary(array: pa.DictionaryArray) -> Words:
    words = words_of_column(array.dictionary)
    places = array.indices
    if not places.null_count:
        return _as_words(words[_raw(places, places.type.to_pandas_dtype())])
    with_none = np.append(words, np.uint64(single._NONE))
    return _as_words(with_none[_raw(places.fill_null(len(words)), places.type.to_pandas_dtype())])


def _of_values(array: pa.Array) -> Words:
    """Return the words of values that numpy cannot hash: one by one, equal ones once where Arrow finds them."""
    try:
        encoded = pc.dictionary_encode(array)
    except pa.ArrowNotImplementedError:
        return np.array([single._word(value) for value in values_of(array)], np.uint64)
    words = np.array([single._word(value) for value in values_of(encoded.dictionary)], np.uint64)
    return _as_words(np.append(words, np.uint64(0))[_raw(encoded.indices.fill_null(len(words)), np.int32)])


def _of_strings(array: pa.Array) -> Words:
    return _as_words(_checksums(array).astype(np.uint64))


def _of_binaries(array: pa.Array) -> Words:
    return _as_words(_checksums(array) + np.uint64(single._BYTES))


def _checksums(array: pa.Array) -> Any:
    """Return the CRC-32 of each value's bytes.

    CRC-32 is linear: that of a text is the one of its bytes from state 0, xor the one of as many zeros. From state 0
    leading zeros change nothing, so values are taken as if they all ended at the same place, four bytes a step::

        ....flight        . is nothing: not there, or made zero
        ........AA        steps: 3 (the first for "flight" alone), 2, 1
    """
    _, offsets, data = array.buffers()
    wide = pa.types.is_large_string(array.type) or pa.types.is_large_binary(array.type)
    width = np.dtype(np.int64 if wide else np.int32)
    bounds = np.frombuffer(offsets, width, len(array) + 1, array.offset * width.itemsize).astype(np.int64)
    lengths = np.diff(bounds)
    whole = np.frombuffer(data or b"", np.uint8)
    longest = int(lengths.max())
    if longest <= _LONG_BYTES:
        return _short_checksums(whole, bounds[1:], lengths)
    short = np.flatnonzero(lengths <= _LONG_BYTES)
    result = np.empty(len(lengths), np.uint32)
    result[short] = _short_checksums(whole, bounds[1:][short], lengths[short])
    for place in np.flatnonzero(lengths > _LONG_BYTES):
        result[place] = crc32(whole[bounds[place] : bounds[place + 1]].tobytes())
    return result


def _short_checksums(data: Any, ends: Any, lengths: Any) -> Any:
    portions = [slice(start, start + _PORTION) for start in range(0, len(ends), _PORTION)]
    parts = [_checksums_of_portion(data, ends[portion], lengths[portion]) for portion in portions]
    return np.concatenate(parts) if parts else np.empty(0, np.uint32)


def _checksums_of_portion(data: Any, ends: Any, lengths: Any) -> Any:
    steps = (lengths + (_WORD_BYTES - 1)) // _WORD_BYTES
    order = None
    if steps.min() != steps.max():
        order = np.argsort(np.uint8(255) - steps.astype(np.uint8), kind="stable")
        steps, ends, lengths = steps.take(order), ends.take(order), lengths.take(order)
    first = int((ends - lengths).min())
    padded = np.concatenate([np.zeros(_WORD_BYTES, np.uint8), data[first : int(ends.max())]])
    fours = np.ndarray(len(padded) - (_WORD_BYTES - 1), "<u4", padded, strides=(1,))
    states = _states(fours, ends + (_WORD_BYTES - first), steps, lengths)
    states ^= _zeros_checksums().take(lengths)
    if order is None:
        return states
    result = np.empty_like(states)
    result[order] = states
    return result


def _states(fours: Any, ends: Any, steps: Any, lengths: Any) -> Any:
    """Return CRC-32 states from 0; rows in descending order of steps."""
    table = _tables()
    states = np.zeros(len(ends), np.uint32)
    most = int(steps[0])
    counts = np.searchsorted(
        -steps, -np.arange(most), side="left"
    )  # rows that have more steps than 0, 1, 2, ...
    begun = 0
    for step in range(most - 1, -1, -1):
        count = int(counts[step])
        taken = fours[ends[:count] - _WORD_BYTES * (step + 1)]
        missing = _WORD_BYTES * (step + 1) - lengths[begun:count]
        taken[begun:] &= _MASKS.take(missing)
        begun = count
        taken ^= states[:count]
        octets = taken.view(np.uint8)
        np.take(table[0], octets[3::4], out=states[:count], mode="clip")
        for place in range(3):
            states[:count] ^= table[3 - place].take(octets[place::4])
    return states


_MASKS = np.array([0xFFFFFFFF << 8 * missing & 0xFFFFFFFF for missing in range(_WORD_BYTES)], np.uint32)


@lru_cache(maxsize=1)
def _tables() -> Any:
    """Return what a byte does to the state: as the last one, and with one, two, three zeros behind it."""
    last = []
    for byte in range(256):
        for _ in range(8):
            byte = byte >> 1 ^ (_POLYNOMIAL if byte & 1 else 0)
        last.append(byte)
    tables = [np.array(last, np.uint32)]
    for _ in range(3):
        tables.append(tables[0][tables[-1] & np.uint32(255)] ^ tables[-1] >> np.uint32(8))
    return tables


@lru_cache(maxsize=1)
def _zeros_checksums() -> Any:
    return np.array([crc32(bytes(length)) for length in range(_LONG_BYTES + 1)], np.uint32)
