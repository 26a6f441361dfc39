"""Parquet files read and written as Avro's generic records, which are dicts (PyFlink's `AvroParquetReaders`)."""

from __future__ import annotations

from typing import Any, BinaryIO

from millstream.base.errors import ConfigurationError, shorten
from millstream.formats.avro.schema import AvroSchema
from millstream.formats.parquet.reader import ParquetColumnarRowInputFormat
from millstream.formats.parquet.writer import ParquetBulkWriters
from millstream.formats.text.lines import StreamFormat
from millstream.spi.formats import FileRecords
from millstream.spi.serialization import BulkWriterFactory
from millstream.types.datatypes import RowType

__all__ = ["AvroParquetReaders", "AvroParquetWriters"]


class AvroParquetReaders:
    """Makes formats of Parquet files for `FileSource.for_record_stream_format`.

    Example:
        >>> from millstream.datastream.formats.parquet import AvroParquetReaders
        >>> from millstream.datastream.connectors.file_system import FileSource
        >>> from millstream.datastream.formats.avro import AvroSchema
        >>> text = '{"type": "record", "name": "click", "fields": [{"name": "page", "type": "string"}]}'
        >>> clicks = AvroParquetReaders.for_generic_record(AvroSchema.parse_string(text))
        >>> source = FileSource.for_record_stream_format(clicks, "data/clicks").build()
    """

    @staticmethod
    def for_generic_record(schema: AvroSchema) -> StreamFormat:
        """Read the fields of a schema as dicts.

        Raises:
            ConfigurationError: If it is no AvroSchema; if pyarrow or fastavro is not installed.
            NotSupportedError: If its records hold themselves, or unions of several types.
        """
        return _AvroParquetFormat(_row_type(schema))


class AvroParquetWriters:
    """Makes writers of Parquet files for `FileSink.for_bulk_format`.

    Example:
        >>> from millstream.datastream.formats.parquet import AvroParquetWriters
        >>> from millstream.datastream.connectors.file_system import FileSink
        >>> from millstream.datastream.formats.avro import AvroSchema
        >>> text = '{"type": "record", "name": "click", "fields": [{"name": "page", "type": "string"}]}'
        >>> writers = AvroParquetWriters.for_generic_record(AvroSchema.parse_string(text))
        >>> sink = FileSink.for_bulk_format("out/clicks", writers).build()
    """

    @staticmethod
    def for_generic_record(schema: AvroSchema) -> BulkWriterFactory:
        """Write dicts (or rows, tuples, lists) that fit a schema.

        Raises:
            ConfigurationError: If it is no AvroSchema; if pyarrow or fastavro is not installed.
            NotSupportedError: If its records hold themselves, or unions of several types.
        """
        return ParquetBulkWriters.for_row_type(_row_type(schema))


def _row_type(schema: AvroSchema) -> RowType:
    if not isinstance(schema, AvroSchema):
        raise ConfigurationError(
            f"Parquet files were given the Avro schema {shorten(schema)}",
            hint="Use AvroSchema.parse_string(...).",
        )
    return schema.row_type()


class _AvroParquetFormat(StreamFormat):
    decompress = False
    gives_columns = False
    is_splittable = True

    def __init__(self, row_type: RowType) -> None:
        self._rows = ParquetColumnarRowInputFormat(row_type, is_utc_timestamp=True)

    def open(self, file: BinaryIO, path: str, position: Any) -> FileRecords:
        return _Dicts(self._rows.open(file, path, position))

    def open_part(self, file: BinaryIO, path: str, position: Any, part: tuple[int, int]) -> FileRecords:
        return _Dicts(self._rows.open_part(file, path, position, part))


class _Dicts(FileRecords):
    """Rows as dicts."""

    def __init__(self, rows: FileRecords) -> None:
        self._rows = rows

    def read(self, max_records: int) -> list[Any]:
        return [row.as_dict(recursive=True) for row in self._rows.read(max_records)]

    def read_columns(self, max_records: int) -> Any:
        raise AssertionError("columns of generic records")

    @property
    def position(self) -> Any:
        return self._rows.position

    @property
    def exhausted(self) -> bool:
        return self._rows.exhausted

    def close(self) -> None:
        self._rows.close()
