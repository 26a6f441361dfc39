"""Parquet files (PyFlink's `pyflink.datastream.formats.parquet`)."""

from millstream.formats.parquet.generic import AvroParquetReaders, AvroParquetWriters
from millstream.formats.parquet.reader import ParquetColumnarRowInputFormat
from millstream.formats.parquet.writer import ParquetBulkWriters

__all__ = ["AvroParquetReaders", "AvroParquetWriters", "ParquetBulkWriters", "ParquetColumnarRowInputFormat"]
