"""JSON files and messages (PyFlink's `pyflink.datastream.formats.json`)."""

from millstream.formats.json.messages import JsonRowDeserializationSchema, JsonRowSerializationSchema
from millstream.formats.json.reader import JsonLinesFormat
from millstream.formats.json.writer import JsonLinesBulkWriters

__all__ = [
    "JsonLinesBulkWriters",
    "JsonLinesFormat",
    "JsonRowDeserializationSchema",
    "JsonRowSerializationSchema",
]
