"""A table in memory as a source."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from millstream.connectors.columns.event_time import EventTime
from millstream.connectors.columns.parts import PartsEnumerator, PartsReader, batch_rows
from millstream.connectors.index_splits import cut
from millstream.spi.source import Boundedness, Source, SourceReader, SplitEnumerator, SplitRange

__all__ = ["TableSource"]

_LARGE_ROWS = 100_000


class TableSource(Source):
    """The rows of a table, in order; those of a large one are shared out, a slice for each subtask.

    Args:
        table: A `pyarrow.Table` of the plain schema (`types.arrow_typeinfo.plain_schema`); goes to every slot.
        event_time: Which column holds event time; None if none does.
    """

    def __init__(self, table: Any, event_time: EventTime | None = None) -> None:
        self._table = table
        self._rows: int = table.num_rows
        self._event_time = event_time

    def __getstate__(self) -> dict[str, Any]:
        if isinstance(self._table, bytes):
            return vars(self)
        import pyarrow as pa  # optional: whoever has a table has it

        sink = pa.BufferOutputStream()
        with pa.ipc.new_stream(sink, self._table.schema) as writer:
            writer.write_table(self._table)
        return {**vars(self), "_table": sink.getvalue().to_pybytes()}

    def get_boundedness(self) -> Boundedness:
        """Return BOUNDED."""
        return Boundedness.BOUNDED

    def max_parallelism(self) -> int | None:
        """Return 1 unless the table is large: then order matters more than speed."""
        return 1 if self._rows < _LARGE_ROWS else None

    def build_enumerator(self, parallelism: int, restored: Any | None) -> SplitEnumerator:
        """Cut the table, or go on where a snapshot ends.

        Raises:
            SourceError: If the snapshot is of a table with another number of rows.
        """
        return PartsEnumerator(cut(0, self._rows, parallelism), parallelism, (self._rows,), restored)

    def build_reader(self, subtask_index: int, parallelism: int) -> SourceReader:
        """Make the reader of one subtask."""
        return _TableReader(self._table, self._event_time)


class _TableReader(PartsReader):
    """Loads the table when the first range is read: some subtasks need none of it."""

    def __init__(self, table: Any, event_time: EventTime | None) -> None:
        super().__init__(event_time)
        self._table = table

    def batches(self, split_range: SplitRange) -> Iterator[Any]:
        """Give the rows of a range."""
        if isinstance(self._table, bytes):
            import pyarrow as pa  # optional: whoever was sent a table has it

            self._table = pa.ipc.open_stream(self._table).read_all()
        table = self._table
        indices: range = split_range.split[split_range.start : split_range.stop]
        rows = table.slice(indices.start, len(indices))
        yield from rows.to_batches(max_chunksize=batch_rows(table.nbytes // max(table.num_rows, 1)))
