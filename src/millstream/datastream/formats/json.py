"""JSON messages (PyFlink's `pyflink.datastream.formats.json`)."""

from millstream.formats.json.messages import JsonRowDeserializationSchema, JsonRowSerializationSchema

__all__ = ["JsonRowDeserializationSchema", "JsonRowSerializationSchema"]
