"""Serializers, under PyFlink's name (`pyflink.common.serializer`)."""

from millstream.types.serializer import TypeSerializer, VoidNamespaceSerializer

__all__ = ["TypeSerializer", "VoidNamespaceSerializer"]
