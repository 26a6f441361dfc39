"""Avro under PyFlink's names: declared, not yet built (`pyflink.datastream.formats.avro`)."""

from __future__ import annotations

from millstream.base.not_yet import NotYet

__all__ = [
    "AvroBulkWriters",
    "AvroInputFormat",
    "AvroRowDeserializationSchema",
    "AvroRowSerializationSchema",
    "AvroSchema",
    "GenericRecordAvroTypeInfo",
]


class _Avro(NotYet):
    _reason = "Avro comes with a later release, as the extra millstream[avro]."
    _hint = "Until then use JSON or CSV (JsonRowSerializationSchema, CsvBulkWriters) or Parquet."


class AvroSchema(_Avro):
    """An Avro schema."""


class GenericRecordAvroTypeInfo(_Avro):
    """The type of Avro's generic records."""


class AvroInputFormat(_Avro):
    """Reads Avro files."""


class AvroBulkWriters(_Avro):
    """Writes Avro files."""


class AvroRowDeserializationSchema(_Avro):
    """Avro messages into rows."""


class AvroRowSerializationSchema(_Avro):
    """Rows into Avro messages."""
