"""CSV files and messages (PyFlink's `pyflink.datastream.formats.csv`)."""

from millstream.formats.csv.messages import CsvRowDeserializationSchema, CsvRowSerializationSchema
from millstream.formats.csv.reader import CsvReaderFormat
from millstream.formats.csv.schema import CsvSchema, CsvSchemaBuilder
from millstream.formats.csv.writer import CsvBulkWriters

__all__ = [
    "CsvBulkWriters",
    "CsvReaderFormat",
    "CsvRowDeserializationSchema",
    "CsvRowSerializationSchema",
    "CsvSchema",
    "CsvSchemaBuilder",
]
