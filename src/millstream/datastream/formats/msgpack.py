"""Rows as MessagePack (millstream's own; PyFlink has none)."""

from millstream.formats.msgpack import MessagePackRowDeserializationSchema, MessagePackRowSerializationSchema

__all__ = ["MessagePackRowDeserializationSchema", "MessagePackRowSerializationSchema"]
