"""Columns as plain values that conditions compare and partial matches keep, and back.

Numbers, texts and truth values are Python's, decimals `Decimal`, times numbers in the unit of their column.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import pyarrow as pa

from millstream.table.runtime.growing import growing_column

__all__ = ["column_of_plain", "plain_column"]


def plain_column(column: pa.Array) -> list[Any]:
    """Return the values of a column."""
    if pa.types.is_decimal(column.type):
        return list(column.to_pylist())
    held = growing_column(column.type)
    held.append(column)
    return held.entries(np.arange(len(column)))


def column_of_plain(values: Sequence[Any], kind: pa.DataType) -> pa.Array:
    """Return a column of what `plain_column` gave."""
    if pa.types.is_decimal(kind):
        return pa.array(values, kind)
    return growing_column(kind).array_of_entries(values)
