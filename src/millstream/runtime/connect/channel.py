"""Whole messages over a connection whose ends have proved themselves.

Between processes of one user on one machine the kernel tells who the other end is, and nobody else can get at what
they say. Over a network somebody may sit between, so there each message is followed by a code that only the two ends
can make; it covers the message's number, so that none can be left out, repeated or moved. The code is HMAC-SHA256,
about 1 ms for a megabyte. Nothing is encrypted.
"""

from __future__ import annotations

import hmac
import os
import socket
import struct
from contextlib import suppress
from multiprocessing.connection import Connection
from types import TracebackType
from typing import Self

from millstream.runtime.connect.handshake import SessionKeys

__all__ = ["Channel", "TamperedError", "limit_waiting"]

_CODE_BYTES = 32
_HEAD = struct.Struct(">QQ")


def limit_waiting(stream: socket.socket, seconds: float) -> None:
    """Have each call on a blocking socket wait for so long at most, then raise `BlockingIOError`; 0 for ever."""
    limit = struct.pack("@ll", int(seconds), int(seconds % 1 * 1_000_000))
    stream.setsockopt(socket.SOL_SOCKET, socket.SO_RCVTIMEO, limit)
    stream.setsockopt(socket.SOL_SOCKET, socket.SO_SNDTIMEO, limit)


class TamperedError(ConnectionError):
    """A message is not the one that the other end sent."""


class _Codes:
    """Codes of the messages in one direction, in their order."""

    def __init__(self, key: bytes) -> None:
        self._key = key
        self._number = 0

    def next(self, message: bytes) -> bytes:
        code = hmac.new(self._key, _HEAD.pack(self._number, len(message)), "sha256")
        code.update(message)
        self._number += 1
        return code.digest()


class Channel:
    """One end; used by one thread at a time.

    Args:
        stream: The socket, which belongs to the channel from now on.
        sending: Key for what this end sends; None if messages need no codes.
        receiving: Key for what it receives; likewise.
        silence_s: How long one call may wait for the other end; None for ever.
    """

    def __init__(
        self,
        stream: socket.socket,
        *,
        sending: bytes | None,
        receiving: bytes | None,
        silence_s: float | None = None,
    ) -> None:
        self._sent = None if sending is None else _Codes(sending)
        self._received = None if receiving is None else _Codes(receiving)
        stream.settimeout(None)
        limit_waiting(stream, silence_s or 0)
        if stream.family != socket.AF_UNIX:
            # A code is a packet of its own: it must not wait until the message has been acknowledged.
            stream.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self._connection = Connection(stream.detach())

    @staticmethod
    def of_asker(stream: socket.socket, keys: SessionKeys | None, silence_s: float | None = None) -> Channel:
        """Make the asker's end; without keys messages have no codes."""
        sending, receiving = (None, None) if keys is None else (keys.asker, keys.listener)
        return Channel(stream, sending=sending, receiving=receiving, silence_s=silence_s)

    @staticmethod
    def of_listener(stream: socket.socket, keys: SessionKeys | None) -> Channel:
        """Make the listener's end."""
        sending, receiving = (None, None) if keys is None else (keys.listener, keys.asker)
        return Channel(stream, sending=sending, receiving=receiving)

    def send_bytes(self, message: bytes) -> None:
        """Send a message.

        Raises:
            OSError: If the other end is gone, or takes nothing for too long (`BlockingIOError`).
        """
        self._connection.send_bytes(message)
        if self._sent is not None:
            self._connection.send_bytes(self._sent.next(message))

    def recv_bytes(self, limit_bytes: int | None = None) -> bytes:
        """Wait for a message.

        Raises:
            TamperedError: If it is not what the other end sent.
            EOFError: If the other end is gone.
            OSError: If something is wrong with the connection, or it is silent for too long (`BlockingIOError`).
        """
        message = self._connection.recv_bytes(limit_bytes)
        if self._received is not None:
            code = self._connection.recv_bytes(_CODE_BYTES)
            if not hmac.compare_digest(code, self._received.next(message)):
                raise TamperedError("a message was changed on its way")
        return message

    def poll(self, timeout_s: float | None) -> bool:
        """Wait until something comes, or the other end is gone; return whether it did."""
        return self._connection.poll(timeout_s)

    def fileno(self) -> int:
        """Return the socket's number, to wait for several."""
        return self._connection.fileno()

    def shut_down(self) -> None:
        """Have who waits at either end, on any thread, learn that nothing comes any more; it is to be closed still."""
        with socket.socket(fileno=os.dup(self._connection.fileno())) as stream, suppress(OSError):
            stream.shutdown(socket.SHUT_RDWR)

    def close(self) -> None:
        """End it."""
        self._connection.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()
