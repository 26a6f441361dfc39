"""Bitmaps as bytes: those that pyroaring 1.2 wrote (as Java's library does), compressed in `roaring_bitmaps.json`."""

from __future__ import annotations

import base64
import json
import zlib
from pathlib import Path

import numpy as np
import pytest

from millstream.table.functions.kernels.roaring import pack, unpack

WRITTEN = json.loads((Path(__file__).parent / "truth" / "roaring_bitmaps.json").read_text())
VALUES = {
    "empty": [],
    "zero": [0],
    "few": [1, 2, 3],
    "spread": [70_000, 5, 2**32 - 1],
    "bitmap": list(range(0, 9000, 2)),
    "two containers": list(range(60_000, 80_000, 2)),
}


def written(name: str) -> bytes:
    return zlib.decompress(base64.b64decode(WRITTEN[name]))


@pytest.mark.parametrize("name", VALUES)
def test_bytes_are_those_of_other_libraries(name: str) -> None:
    assert unpack(written(name)).tolist() == sorted(VALUES[name])
    assert pack(np.array(VALUES[name], dtype=np.uint32)) == written(name)


def test_runs_are_read() -> None:
    assert unpack(written("runs")).tolist() == list(range(100, 60_000))


def test_other_bytes_are_refused() -> None:
    with pytest.raises(ValueError, match="no Roaring bitmap"):
        unpack(b"\x01\x02")
