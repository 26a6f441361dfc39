"""Kernels of BITMAP: sets of INT, in columns as the bytes of `roaring`."""

from __future__ import annotations

from collections.abc import Callable
from functools import reduce
from typing import Any

import numpy as np
import pyarrow as pa

from millstream.table.expressions.errors import EvaluationError
from millstream.table.functions.kernels.roaring import pack, unpack
from millstream.table.functions.kernels.strings import python_function
from millstream.table.functions.kernels.values import Factory

__all__ = ["KERNELS"]

_BYTES = pa.binary()


def _build(values: list[int | None]) -> bytes:
    known = [value for value in values if value is not None]
    return pack(np.array(known, dtype=np.int64).astype(np.uint32))


def _combined(function: Callable[..., Any]) -> Factory:
    def one(*bitmaps: bytes) -> bytes:
        return pack(reduce(function, map(unpack, bitmaps)))

    return python_function(one, _BYTES)


def _from_bytes(data: bytes) -> bytes:
    try:
        return pack(unpack(data))
    except ValueError as error:
        raise EvaluationError(str(error)) from error


def _to_text(data: bytes) -> str:
    return "{" + ",".join(map(str, unpack(data).tolist())) + "}"


def _to_array(data: bytes) -> list[int]:
    numbers: list[int] = unpack(data).astype(np.int32).tolist()
    return numbers


KERNELS: dict[str, Factory] = {
    "BITMAP_BUILD": python_function(_build, _BYTES),
    "BITMAP_AND": _combined(np.intersect1d),
    "BITMAP_OR": _combined(np.union1d),
    "BITMAP_XOR": _combined(np.setxor1d),
    "BITMAP_ANDNOT": _combined(np.setdiff1d),
    "BITMAP_CARDINALITY": python_function(lambda data: len(unpack(data)), pa.int64()),
    "BITMAP_FROM_BYTES": python_function(_from_bytes, _BYTES),
    "BITMAP_TO_BYTES": python_function(lambda data: data, _BYTES),
    "BITMAP_TO_ARRAY": python_function(_to_array, pa.list_(pa.int32())),
    "BITMAP_TO_STRING": python_function(_to_text, pa.string()),
}
