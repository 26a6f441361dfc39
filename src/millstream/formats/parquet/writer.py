"""Parquet files written from rows; needs pyarrow (the extra `parquet`), loaded when it is used."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, BinaryIO

from millstream.formats.row_columns import RowColumns
from millstream.spi.serialization import BulkWriter, BulkWriterFactory
from millstream.types import datatypes as types
from millstream.types.arrow_types import load_arrow, load_parquet

__all__ = ["ParquetBulkWriters", "writers_with_schema"]

_ROW_GROUP_ROWS = 100_000


class ParquetBulkWriters:
    """Makes writers of Parquet files for `FileSink.for_bulk_format`.

    Example:
        >>> from millstream.table import DataTypes
        >>> from millstream.datastream.connectors.file_system import FileSink
        >>> from millstream.datastream.formats.parquet import ParquetBulkWriters
        >>> city = DataTypes.ROW([DataTypes.FIELD("city", DataTypes.STRING())])
        >>> sink = FileSink.for_bulk_format("out/cities", ParquetBulkWriters.for_row_type(city)).build()
    """

    @staticmethod
    def for_row_type(
        row_type: types.RowType, hadoop_config: object | None = None, utc_timestamp: bool = False
    ) -> BulkWriterFactory:
        """Write rows, tuples, lists or dicts of the row type.

        Timestamps are written as they are, without zone; `hadoop_config` has no meaning here.

        Raises:
            ConfigurationError: If pyarrow is not installed, or a type cannot be written.
        """
        load_parquet()
        RowColumns(row_type)
        return _ParquetWriterFactory(row_type)


def writers_with_schema(row_type: types.RowType, schema: Any) -> BulkWriterFactory:
    """Make a writer of Parquet files whose columns have metadata, such as ids of fields.

    Args:
        row_type: Of the rows.
        schema: The same as Arrow has it, with metadata.
    """
    return _ParquetWriterFactory(row_type, schema)


class _ParquetWriterFactory(BulkWriterFactory):
    def __init__(self, row_type: types.RowType, schema: Any = None) -> None:
        self._row_type = row_type
        self._schema = schema
        self._columns: RowColumns | None = None

    def __getstate__(self) -> dict[str, Any]:
        return {"_row_type": self._row_type, "_schema": self._schema, "_columns": None}

    def create(self, file: BinaryIO) -> BulkWriter:
        if self._columns is None:
            self._columns = RowColumns(self._row_type)
            if self._schema is not None:
                self._columns.schema = self._schema
        return _ParquetWriter(file, self._columns)


class _ParquetWriter(BulkWriter):
    """Collects rows and writes them as row groups; a file of one group is made in memory and written at once."""

    def __init__(self, file: BinaryIO, columns: RowColumns) -> None:
        self._file = file
        self._columns = columns
        self._writer: Any = None
        self._batches: list[Any] = []
        self._count = 0

    def add_elements(self, elements: Sequence[Any]) -> None:
        # Converted at once: a record that does not fit fails in the epoch it came in.
        self._add(self._columns.batch(elements))

    def add_columns(self, batch: Any) -> None:
        self._add(self._columns.stored(batch))

    def _add(self, batch: Any) -> None:
        self._batches.append(batch)
        self._count += batch.num_rows
        if self._count >= _ROW_GROUP_ROWS:
            if self._writer is None:
                self._writer = self._begin(self._file)
            self._write_group(self._writer)

    def finish(self) -> None:
        if self._writer is not None:
            self._write_group(self._writer)
            self._writer.close()
            return
        # Arrow writes a file in many small pieces, and asks for the position before each.
        buffer = load_arrow("Parquet files").BufferOutputStream()
        with self._begin(buffer) as writer:
            self._write_group(writer)
        self._file.write(buffer.getvalue())

    def _begin(self, file: Any) -> Any:
        return load_parquet().ParquetWriter(file, self._columns.schema)

    def _write_group(self, writer: Any) -> None:
        if self._count:
            pa = load_arrow("Parquet files")
            table = pa.Table.from_batches(self._batches, self._columns.schema)
            writer.write_table(table if len(self._batches) == 1 else table.combine_chunks())
        self._batches, self._count = [], 0
