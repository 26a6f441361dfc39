"""CSV files (PyFlink's `pyflink.datastream.formats.csv`)."""

from millstream.formats.csv_reader import CsvReaderFormat
from millstream.formats.csv_schema import CsvSchema, CsvSchemaBuilder
from millstream.formats.csv_writer import CsvBulkWriters

__all__ = ["CsvBulkWriters", "CsvReaderFormat", "CsvSchema", "CsvSchemaBuilder"]
