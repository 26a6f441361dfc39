"""Sets of 32-bit integers as bytes: the portable form of Roaring bitmaps (RoaringFormatSpec).

Values are split by their upper 16 bits into containers: an array of up to 4,096 lower halves, or a bitmap of 65,536
bits; readers also meet runs.
"""

from __future__ import annotations

import numpy as np

__all__ = ["pack", "unpack"]

_NO_RUNS, _RUNS = 12346, 12347
_ARRAY_LIMIT = 4096


def pack(values: np.ndarray) -> bytes:
    """Return a set of `uint32` as bytes; it need not be sorted or distinct.

    >>> unpack(pack(np.array([7, 1, 7], dtype=np.uint32))).tolist()
    [1, 7]
    """
    values = np.unique(np.asarray(values, dtype=np.uint32))
    keys, starts = np.unique(values >> np.uint32(16), return_index=True)
    parts = np.split((values & np.uint32(0xFFFF)).astype("<u2"), starts[1:]) if len(values) else []
    head = np.array([_NO_RUNS, len(keys)], dtype="<u4").tobytes()
    described = np.array([[key, len(part) - 1] for key, part in zip(keys, parts, strict=True)], dtype="<u2")
    bodies = [_container(part) for part in parts]
    first = len(head) + described.nbytes + 4 * len(bodies)
    sizes = [len(body) for body in bodies]
    offsets = np.array([first + sum(sizes[:place]) for place in range(len(sizes))], dtype="<u4")
    return b"".join((head, described.tobytes(), offsets.tobytes(), *bodies))


def _container(part: np.ndarray) -> bytes:
    if len(part) <= _ARRAY_LIMIT:
        return part.tobytes()
    bits = np.zeros(65536, dtype=np.uint8)
    bits[part] = 1
    return np.packbits(bits, bitorder="little").tobytes()


def unpack(data: bytes) -> np.ndarray:
    """Return the sorted `uint32` of a set.

    Raises:
        ValueError: If the bytes are no such set.
    """
    try:
        return _unpack(data)
    except (IndexError, ValueError) as error:
        raise ValueError(f"{len(data)} bytes are no Roaring bitmap: {error}") from error


def _unpack(data: bytes) -> np.ndarray:
    cookie = int(np.frombuffer(data, "<u4", 1)[0])
    place, runs = 4, np.zeros(0, dtype=bool)
    if cookie & 0xFFFF == _RUNS:
        count = (cookie >> 16) + 1
        flags = np.frombuffer(data, np.uint8, (count + 7) // 8, place)
        runs = np.unpackbits(flags, bitorder="little")[:count].astype(bool)
        place += len(flags)
    elif cookie == _NO_RUNS:
        count = int(np.frombuffer(data, "<u4", 1, place)[0])
        place += 4
    else:
        raise ValueError(f"the cookie is {cookie}")
    described = np.frombuffer(data, "<u2", 2 * count, place).reshape(count, 2)
    place += 4 * count
    if cookie == _NO_RUNS or count >= 4:
        place += 4 * count  # offsets: containers follow one another anyway
    parts = []
    for number, (key, less) in enumerate(described.tolist()):
        low, place = _read_container(data, place, less + 1, is_run=bool(len(runs) and runs[number]))
        parts.append(low.astype(np.uint32) | np.uint32(key << 16))
    return np.concatenate(parts) if parts else np.zeros(0, dtype=np.uint32)


def _read_container(data: bytes, place: int, size: int, *, is_run: bool) -> tuple[np.ndarray, int]:
    if is_run:
        count = int(np.frombuffer(data, "<u2", 1, place)[0])
        pairs = np.frombuffer(data, "<u2", 2 * count, place + 2).reshape(count, 2).astype(np.int64)
        spans = [np.arange(start, start + length + 1) for start, length in pairs.tolist()]
        return np.concatenate(spans) if spans else np.zeros(0, dtype=np.int64), place + 2 + 4 * count
    if size <= _ARRAY_LIMIT:
        return np.frombuffer(data, "<u2", size, place), place + 2 * size
    bits = np.unpackbits(np.frombuffer(data, np.uint8, 8192, place), bitorder="little")
    return np.flatnonzero(bits), place + 8192
