"""Parquet files (PyFlink's `pyflink.datastream.formats.parquet`)."""

from millstream.formats.parquet import ParquetBulkWriters, ParquetColumnarRowInputFormat

__all__ = ["ParquetBulkWriters", "ParquetColumnarRowInputFormat"]
