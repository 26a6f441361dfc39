"""Serializers of values (PyFlink's `pyflink.common.serializer`)."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import Any, BinaryIO, Generic, TypeVar

__all__ = ["TypeSerializer", "VoidNamespaceSerializer"]


T = TypeVar("T")


class TypeSerializer(ABC, Generic[T]):
    """Turns values of one type into bytes and back; two serializers of a class with equal fields are equal.

    Example:
        >>> from millstream.common import TypeSerializer
        >>> import io
        >>> class TextSerializer(TypeSerializer):
        ...     def serialize(self, element, stream):
        ...         stream.write(element.encode())
        ...     def deserialize(self, stream):
        ...         return stream.read().decode()
        >>> stream = io.BytesIO()
        >>> TextSerializer().serialize("tea", stream)
        >>> TextSerializer().deserialize(io.BytesIO(stream.getvalue()))
        'tea'
    """

    @abstractmethod
    def serialize(self, element: Any, stream: BinaryIO) -> None:
        """Write a value."""

    @abstractmethod
    def deserialize(self, stream: BinaryIO) -> Any:
        """Read a value."""

    def __eq__(self, other: object) -> bool:
        return type(other) is type(self) and other.__dict__ == self.__dict__

    def __ne__(self, other: object) -> bool:
        return not self == other

    def __hash__(self) -> int:
        return hash(type(self))

    def __repr__(self) -> str:
        return f"{type(self).__name__}()"


class VoidNamespaceSerializer(TypeSerializer[bytes]):
    """Of state that belongs to no window: nothing is written."""

    def serialize(self, element: bytes, stream: BinaryIO) -> None:
        """Write nothing."""

    def deserialize(self, stream: BinaryIO) -> bytes:
        """Return no bytes."""
        return b""
