"""A table in memory as a source: what it holds when it is declared, whatever becomes of it later.

::

    Table ──► a file of Arrow's, batch by batch ──► each reader reads the batches of its rows
              in memory if it is small, else in a temporary file

So the rows of a large table are in memory once, in the program's own table, and a few batches of them in each reader.
Readers on other hosts are sent the whole file.
"""

from __future__ import annotations

import os
from bisect import bisect_right
from collections.abc import Iterator
from typing import Any

from millstream.base.errors import SourceError
from millstream.connectors.columns.event_time import EventTime
from millstream.connectors.columns.frames import plain_table
from millstream.connectors.columns.kept import KeptDirectory
from millstream.connectors.columns.parts import PartsEnumerator, PartsReader, batch_rows
from millstream.connectors.index_splits import cut
from millstream.files.scratch import is_for_this_machine, scratch_directory
from millstream.spi.source import Boundedness, Source, SourceReader, SplitEnumerator, SplitRange
from millstream.types.arrow_typeinfo import plain_schema

__all__ = ["TableSource"]

_LARGE_ROWS = 100_000
_LARGE_BYTES = 16 << 20
_PIECE_ROWS = 20_000


class TableSource(Source):
    """The rows of a table, in order; those of a large one are shared out, a slice for each subtask.

    Args:
        table: A `pyarrow.Table`; written as one of the plain schema (`types.arrow_typeinfo.plain_schema`).
        event_time: Which column holds event time; None if none does.

    Raises:
        TypeMismatchError: If a value is outside of what Python has.
        SourceError: If the table is large and cannot be written to a temporary file.
    """

    def __init__(self, table: Any, event_time: EventTime | None = None) -> None:
        self._rows: int = table.num_rows
        self._event_time = event_time
        self._kept: KeptDirectory | None = None
        if table.nbytes < _LARGE_BYTES:
            import pyarrow as pa  # optional: whoever has a table has it

            sink = pa.BufferOutputStream()
            self._starts = _write(table, sink)
            self._content: bytes | str = sink.getvalue().to_pybytes()
        else:
            self._write_file(table)

    def _write_file(self, table: Any) -> None:
        import pyarrow as pa  # optional: whoever has a table has it

        try:
            self._kept = KeptDirectory(scratch_directory("table"))
            self._content = os.path.join(self._kept.path, "rows.arrow")
            with pa.OSFile(self._content, "wb") as file:
                self._starts = _write(table, file)
        except OSError as error:
            raise SourceError(
                f"a table of {table.nbytes:,} bytes cannot be written to a temporary file: {error}",
                detail="Slots read a large table from a file; only tables below 16 MiB travel in memory.",
                hint="Make room in the directory of temporary files, or have TMPDIR name another.",
            ) from error

    def __getstate__(self) -> dict[str, Any]:
        content = self._content
        if isinstance(content, str) and not is_for_this_machine():
            try:
                with open(content, "rb") as file:
                    content = file.read()
            except OSError as error:
                raise _gone(error) from error
        return {**vars(self), "_content": content, "_kept": None}

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
        return _TableReader(self._content, self._starts, self._event_time)


def _write(table: Any, sink: Any) -> list[int]:
    """Write a table in batches of some megabytes at most; return which row each begins with."""
    import pyarrow as pa  # optional: whoever has a table has it

    starts, row = [], 0
    with pa.ipc.new_file(sink, plain_schema(table.schema)) as writer:
        while row < table.num_rows:
            piece = plain_table(table.slice(row, _PIECE_ROWS)).combine_chunks()
            for batch in piece.to_batches(max_chunksize=batch_rows(piece.nbytes // piece.num_rows)):
                writer.write_batch(batch)
                starts.append(row)
                row += batch.num_rows
    return starts


class _TableReader(PartsReader):
    """Opens the file when the first range is read: some subtasks need none of it.

    Args:
        content: The file, or its path.
        starts: Which row each of its batches begins with.
        event_time: Which column holds event time; None if none does.
    """

    def __init__(self, content: bytes | str, starts: list[int], event_time: EventTime | None) -> None:
        super().__init__(event_time)
        self._content = content
        self._starts = starts
        self._file: Any = None

    def batches(self, split_range: SplitRange) -> Iterator[Any]:
        """Give the rows of a range.

        Raises:
            SourceError: If the file is not there any more.
        """
        indices: range = split_range.split[split_range.start : split_range.stop]
        row = indices.start
        while row < indices.stop:
            place = bisect_right(self._starts, row) - 1
            batch = self._batch_at(place)
            found = batch.slice(row - self._starts[place], indices.stop - row)
            row += found.num_rows
            yield found

    def _batch_at(self, place: int) -> Any:
        import pyarrow as pa  # optional: whoever was sent a table has it

        try:
            if self._file is None:
                content = self._content
                source = pa.OSFile(content) if isinstance(content, str) else pa.BufferReader(content)
                self._file = pa.ipc.open_file(source)
            return self._file.get_batch(place)
        except (OSError, pa.ArrowException) as error:
            raise _gone(error) from error

    def close(self) -> None:
        """Close the file."""
        self._file = None


def _gone(error: Exception) -> SourceError:
    return SourceError(
        f"the temporary file of a table cannot be read: {error}",
        hint="Keep other programs from removing what is in the directory of temporary files (TMPDIR).",
    )
