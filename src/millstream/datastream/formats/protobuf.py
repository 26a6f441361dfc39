"""Rows as Protocol Buffers messages (millstream's own; PyFlink has them in the Table API only)."""

from millstream.formats.protobuf import (
    ProtobufMessage,
    ProtobufRowDeserializationSchema,
    ProtobufRowSerializationSchema,
)

__all__ = ["ProtobufMessage", "ProtobufRowDeserializationSchema", "ProtobufRowSerializationSchema"]
