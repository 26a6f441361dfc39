"""Parquet files (PyFlink's `pyflink.datastream.formats.parquet`)."""

from millstream.base.not_yet import NotYet
from millstream.formats.parquet.reader import ParquetColumnarRowInputFormat
from millstream.formats.parquet.writer import ParquetBulkWriters

__all__ = ["AvroParquetReaders", "AvroParquetWriters", "ParquetBulkWriters", "ParquetColumnarRowInputFormat"]


class _AvroParquet(NotYet):
    _reason = "Avro comes with a later release, as the extra millstream[avro]."
    _hint = "Use ParquetColumnarRowInputFormat and ParquetBulkWriters, which take types of rows."


class AvroParquetReaders(_AvroParquet):
    """Reads Parquet files as Avro's records."""


class AvroParquetWriters(_AvroParquet):
    """Writes Avro's records as Parquet files."""
