"""Parquet files of records of a declared type, whatever it is."""

from __future__ import annotations

from typing import Any, BinaryIO

from millstream.formats.parquet.writer import _ParquetWriter
from millstream.formats.record_columns import RecordColumns
from millstream.spi.serialization import BulkWriter, BulkWriterFactory
from millstream.types.typeinfo import TypeInformation

__all__ = ["RecordParquetWriters"]


class RecordParquetWriters(BulkWriterFactory):
    """Makes writers of Parquet files with the columns that `RecordColumns` makes.

    Args:
        type_info: Type of the records; all of it must be declared.
    """

    def __init__(self, type_info: TypeInformation) -> None:
        self._type_info = type_info

    def create(self, file: BinaryIO) -> BulkWriter:
        """Begin a file."""
        columns: Any = RecordColumns(self._type_info)
        return _ParquetWriter(file, columns)
