"""Rows as Protocol Buffers messages (millstream's own; PyFlink has them in the Table API only)."""

from millstream.connectors.schema_registry import (
    ConfluentRegistryProtobufDeserializationSchema,
    ConfluentRegistryProtobufSerializationSchema,
    SchemaRegistry,
)
from millstream.formats.protobuf import (
    ProtobufMessage,
    ProtobufRowDeserializationSchema,
    ProtobufRowSerializationSchema,
)

__all__ = [
    "ConfluentRegistryProtobufDeserializationSchema",
    "ConfluentRegistryProtobufSerializationSchema",
    "ProtobufMessage",
    "ProtobufRowDeserializationSchema",
    "ProtobufRowSerializationSchema",
    "SchemaRegistry",
]
