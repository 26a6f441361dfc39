"""What windows by expression take out of batches: key columns, and what is aggregated."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pyarrow as pa

from millstream.operators.columnar.aggregates import Aggregate
from millstream.operators.columnar.combining import read_rows
from millstream.operators.columnar.groups import KeyedRows
from millstream.operators.columnar.reading import ColumnReader
from millstream.spi.batch import Batch

__all__ = ["KeyedReader"]

_ALL = "\0all"
"""Name of the key column of windows without keys: all records have the key 0."""


class KeyedReader:
    """Takes key columns and fields out of batches.

    Args:
        keys: Names of the key fields; none for windows of all records.
        aggregates: What is computed.
        names: Names of the fields of plain tuples, in order; None if they have none.

    Attributes:
        key_names: Names of the key columns, at least one.
    """

    def __init__(
        self, keys: Sequence[str], aggregates: Sequence[Aggregate], names: Sequence[str] | None
    ) -> None:
        self.key_names = list(keys) or [_ALL]
        self._key_count = len(keys)
        self._reader = ColumnReader([*keys, *(each.field for each in aggregates)], names)

    def read(self, batch: Batch) -> KeyedRows:
        """Return the columns of a batch, combined or not."""
        rows = read_rows(self._reader, batch, self._key_count)
        if self._key_count:
            return rows
        return rows._replace(keys=[pa.array(np.zeros(len(batch), np.int8))])
