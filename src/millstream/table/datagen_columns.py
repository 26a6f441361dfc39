"""Columns of the connector `datagen` that are made at once: sequences of numbers, random numbers, truth values.

As with rows, a value depends on its row's number, its column and a seed only: what is random is a hash of them.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

from millstream.connectors.datagen import DataGeneratorSource, RateLimiterStrategy
from millstream.connectors.index_splits import BATCH_ROWS, IndexEnumerator, IndexReader, strides
from millstream.spi.batch import Batch
from millstream.spi.source import SourceReader, SplitEnumerator
from millstream.types.datatypes import DataType

if TYPE_CHECKING:
    import numpy as np

__all__ = ["Column", "ColumnsSource", "hashes"]

Column = tuple[Callable[["np.ndarray[Any, Any]", int], Any], DataType, int]
"""What makes numpy's values of rows' numbers and a seed; their type; the place of the column in its table."""


_BETWEEN = 0x632BE59BD9B4E019
"""Between the seeds of two columns: odd, and large."""


def hashes(indices: np.ndarray[Any, Any], seed: int) -> np.ndarray[Any, Any]:
    """Return 64 bits for each number: splitmix64 (Steele, Lea and Flood: Fast splittable pseudorandom generators).

    >>> import numpy as np
    >>> hashes(np.array([0, 1]), 0).tolist()
    [16294208416658607535, 7960286522194355700]
    """
    import numpy as np

    mixed = indices.astype(np.uint64) + np.uint64(1)
    mixed *= np.uint64(0x9E3779B97F4A7C15)
    mixed += np.uint64(seed & 0xFFFFFFFFFFFFFFFF)
    mixed ^= mixed >> np.uint64(30)
    mixed *= np.uint64(0xBF58476D1CE4E5B9)
    mixed ^= mixed >> np.uint64(27)
    mixed *= np.uint64(0x94D049BB133111EB)
    return mixed ^ (mixed >> np.uint64(31))


class ColumnsSource(DataGeneratorSource):
    """Rows as batches of columns f0, f1, ...; subtask i of n makes rows i, i + n, ..., so all are as far.

    Args:
        columns: The columns.
        seed: Of what is random.
        count: Number of rows; None for no end.
        rate: How fast.
    """

    def __init__(
        self, columns: Sequence[Column], seed: int, count: int | None, rate: RateLimiterStrategy
    ) -> None:
        super().__init__(_no_row, count, rate)
        self._columns = tuple(columns)
        self._seed = seed

    def build_enumerator(self, parallelism: int, restored: Any | None) -> SplitEnumerator:
        """Share out the numbers of rows."""
        splits = strides(parallelism)
        if self._count is not None:
            splits = [range(part, self._count, parallelism) for part in range(min(parallelism, self._count))]
        return IndexEnumerator(splits, parallelism, restored, per_second=self._rate.records_per_second)

    def build_reader(self, subtask_index: int, parallelism: int) -> SourceReader:
        """Make the reader of one subtask."""
        return IndexReader(self._batch, BATCH_ROWS)

    def _batch(self, numbers: range) -> Batch:
        import numpy as np
        import pyarrow as pa

        from millstream.table.functions.types import arrow_type
        from millstream.table.runtime.changes import columns_batch

        indices = np.arange(numbers.start, numbers.stop, numbers.step, dtype=np.int64)
        made = []
        for make, kind, place in self._columns:
            arrow = arrow_type(kind)
            values = make(indices, self._seed + place * _BETWEEN)
            made.append(pa.array(values.astype(arrow.to_pandas_dtype(), copy=False), arrow))
        return columns_batch(made, None, len(indices))


def _no_row(index: int) -> Any:
    raise AssertionError(f"row {index} of a source that makes columns")
