"""Bitmaps as bytes: against pyroaring's, which are what Java's library writes."""

from __future__ import annotations

import numpy as np
import pytest

from millstream.table.functions.kernels.roaring import pack, unpack

pyroaring = pytest.importorskip("pyroaring")


@pytest.mark.parametrize(
    "values",
    [[], [0], [1, 2, 3], [70_000, 5, 2**32 - 1], list(range(0, 9000, 2)), list(range(65_000, 75_000))],
    ids=["empty", "zero", "few", "spread", "bitmap", "two containers"],
)
def test_bytes_are_those_of_other_libraries(values: list[int]) -> None:
    other = pyroaring.BitMap(values)
    assert unpack(other.serialize()).tolist() == sorted(values)
    assert list(pyroaring.BitMap.deserialize(pack(np.array(values, dtype=np.uint32)))) == sorted(values)


def test_runs_are_read() -> None:
    other = pyroaring.BitMap(range(100, 60_000))
    other.run_optimize()
    assert unpack(other.serialize()).tolist() == list(range(100, 60_000))


def test_other_bytes_are_refused() -> None:
    with pytest.raises(ValueError, match="no Roaring bitmap"):
        unpack(b"\x01\x02")
