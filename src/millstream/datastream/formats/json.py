"""JSON files and messages (PyFlink's `pyflink.datastream.formats.json`), and change logs of databases."""

from millstream.formats.json.changelog import (
    CanalJsonDeserializationSchema,
    CanalJsonSerializationSchema,
    DebeziumJsonDeserializationSchema,
    DebeziumJsonSerializationSchema,
    MaxwellJsonDeserializationSchema,
    MaxwellJsonSerializationSchema,
)
from millstream.formats.json.messages import JsonRowDeserializationSchema, JsonRowSerializationSchema
from millstream.formats.json.reader import JsonLinesFormat
from millstream.formats.json.writer import JsonLinesBulkWriters

__all__ = [
    "CanalJsonDeserializationSchema",
    "CanalJsonSerializationSchema",
    "DebeziumJsonDeserializationSchema",
    "DebeziumJsonSerializationSchema",
    "MaxwellJsonDeserializationSchema",
    "MaxwellJsonSerializationSchema",
    "JsonLinesBulkWriters",
    "JsonLinesFormat",
    "JsonRowDeserializationSchema",
    "JsonRowSerializationSchema",
]
