"""A sequence of numbers."""

from __future__ import annotations

from importlib.util import find_spec
from typing import Any

from millstream.base.errors import ConfigurationError
from millstream.connectors.index_splits import BATCH_ROWS, IndexEnumerator, IndexReader, cut, number_array
from millstream.spi.batch import Batch, Columns, Rows
from millstream.spi.source import Boundedness, Source, SourceReader, SplitEnumerator
from millstream.types.arrow_values import bare_schema
from millstream.types.basic import TypeInformation
from millstream.types.typeinfo import Types

__all__ = ["NumberSequenceSource"]


class NumberSequenceSource(Source):
    """The numbers from `start` to `end`, both included, one consecutive part for each subtask.

    Example:
        >>> from millstream.common import WatermarkStrategy
        >>> from millstream.datastream import StreamExecutionEnvironment
        >>> from millstream.datastream.connectors.number_seq import NumberSequenceSource
        >>> env = StreamExecutionEnvironment.get_execution_environment()
        >>> numbers = env.from_source(NumberSequenceSource(1, 3), WatermarkStrategy.no_watermarks(), "numbers")
        >>> # numbers.execute_and_collect() gives 1, 2 and 3
    """

    def __init__(self, start: int, end: int) -> None:
        """Declare the sequence.

        Raises:
            ConfigurationError: If `start` is larger than `end`.
        """
        if start > end:
            raise ConfigurationError(f"number sequence starts at {start}, after its end {end}")
        self._start = start
        self._end = end

    def get_boundedness(self) -> Boundedness:
        """Return BOUNDED."""
        return Boundedness.BOUNDED

    def get_produced_type(self) -> TypeInformation | None:
        """Return the type that LONG."""
        return Types.LONG()

    def build_enumerator(self, parallelism: int, restored: Any | None) -> SplitEnumerator:
        """Cut the sequence, or go on where a snapshot ends."""
        return IndexEnumerator(cut(self._start, self._end + 1, parallelism), parallelism, restored)

    def build_reader(self, subtask_index: int, parallelism: int) -> SourceReader:
        """Make the reader of one subtask."""
        return NumberReader()


class NumberReader(IndexReader):
    """Reads indices themselves: as a column where one is wanted."""

    gives_away = True

    def __init__(self) -> None:
        super().__init__(lambda indices: Rows(list(indices)))

    def open(self) -> None:
        """Find out in which form records are wanted."""
        if self.wants_columns and find_spec("pyarrow") is not None:
            self._batch_of, self._batch_records = _number_column, BATCH_ROWS


_LIMIT = 1 << 63


def _number_column(numbers: range) -> Batch:
    if min(numbers) < -_LIMIT or max(numbers) >= _LIMIT:
        return Rows(list(numbers))
    import pyarrow as pa  # optional: the extra `parquet`

    return Columns(pa.record_batch([number_array(numbers)], schema=bare_schema("value", pa.int64())))
