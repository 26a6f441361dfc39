"""Serializers of windows (PyFlink's `pyflink.datastream.window`): accepted and working, not needed.

The operators pickle windows like everything else; `get_window_serializer` of an assigner is never called.
"""

from __future__ import annotations

import pickle
import struct
from typing import Any, BinaryIO

from millstream.common.windows import CountWindow, GlobalWindow, TimeWindow
from millstream.types.serializer import TypeSerializer

__all__ = [
    "CountWindowSerializer",
    "GlobalWindowSerializer",
    "PickledWindowSerializer",
    "TimeWindowSerializer",
]

_TIMES = struct.Struct(">qq")
_ID = struct.Struct(">q")


class TimeWindowSerializer(TypeSerializer[TimeWindow]):
    """Start and end as 8 bytes each, big-endian.

    >>> from millstream.datastream.window import TimeWindow, TimeWindowSerializer
    >>> import io
    >>> stream = io.BytesIO()
    >>> TimeWindowSerializer().serialize(TimeWindow(5, 10), stream)
    >>> TimeWindowSerializer().deserialize(io.BytesIO(stream.getvalue()))
    TimeWindow(start=5, end=10)
    """

    def serialize(self, element: TimeWindow, stream: BinaryIO) -> None:
        """Write a window."""
        stream.write(_TIMES.pack(element.start, element.end))

    def deserialize(self, stream: BinaryIO) -> TimeWindow:
        """Read a window."""
        return TimeWindow(*_TIMES.unpack(stream.read(_TIMES.size)))


class CountWindowSerializer(TypeSerializer[CountWindow]):
    r"""The id as 8 bytes, big-endian.

    Example:
        >>> import io
        >>> from millstream.datastream.window import CountWindow, CountWindowSerializer
        >>> stream = io.BytesIO()
        >>> CountWindowSerializer().serialize(CountWindow(3), stream)
        >>> stream.getvalue(), CountWindowSerializer().deserialize(io.BytesIO(stream.getvalue()))
        (b'\x00\x00\x00\x00\x00\x00\x00\x03', CountWindow(id=3))
    """

    def serialize(self, element: CountWindow, stream: BinaryIO) -> None:
        """Write a window."""
        stream.write(_ID.pack(element.id))

    def deserialize(self, stream: BinaryIO) -> CountWindow:
        """Read a window."""
        return CountWindow(*_ID.unpack(stream.read(_ID.size)))


class GlobalWindowSerializer(TypeSerializer[GlobalWindow]):
    r"""One byte of zero.

    Example:
        >>> import io
        >>> from millstream.datastream.window import GlobalWindow, GlobalWindowSerializer
        >>> stream = io.BytesIO()
        >>> GlobalWindowSerializer().serialize(GlobalWindow.get(), stream)
        >>> stream.getvalue()
        b'\x00'
    """

    def serialize(self, element: GlobalWindow, stream: BinaryIO) -> None:
        """Write the window."""
        stream.write(b"\0")

    def deserialize(self, stream: BinaryIO) -> GlobalWindow:
        """Read the window."""
        stream.read(1)
        return GlobalWindow.get()


class PickledWindowSerializer(TypeSerializer[Any]):
    """Any window, pickled: for assigners that give no serializer of their own."""

    def serialize(self, element: Any, stream: BinaryIO) -> None:
        """Write a window."""
        pickle.dump(element, stream, protocol=5)

    def deserialize(self, stream: BinaryIO) -> Any:
        """Read a window."""
        return pickle.load(stream)
