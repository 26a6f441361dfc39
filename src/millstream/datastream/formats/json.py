"""JSON messages (PyFlink's `pyflink.datastream.formats.json`)."""

from millstream.common.json_rows import JsonRowDeserializationSchema, JsonRowSerializationSchema

__all__ = ["JsonRowDeserializationSchema", "JsonRowSerializationSchema"]
