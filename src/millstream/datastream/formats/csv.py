"""CSV files and messages (PyFlink's `pyflink.datastream.formats.csv`)."""

from millstream.common.csv_rows import CsvRowDeserializationSchema, CsvRowSerializationSchema
from millstream.formats.csv_reader import CsvReaderFormat
from millstream.formats.csv_schema import CsvSchema, CsvSchemaBuilder
from millstream.formats.csv_writer import CsvBulkWriters

__all__ = [
    "CsvBulkWriters",
    "CsvReaderFormat",
    "CsvRowDeserializationSchema",
    "CsvRowSerializationSchema",
    "CsvSchema",
    "CsvSchemaBuilder",
]
