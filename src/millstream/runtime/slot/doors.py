"""Where a process can be asked: a Unix socket for its own user and place, and a TCP port if other hosts take part."""

from __future__ import annotations

import contextlib
import os
import secrets
import socket
from collections.abc import Callable
from pathlib import Path

from millstream.base.clock import Clock
from millstream.runtime.connect.channel import Channel
from millstream.runtime.connect.listener import Listener
from millstream.runtime.connect.sockets import listen_privately, remove_private

__all__ = ["Doors", "name_slot"]

_BACKLOG = 128


def name_slot(workspace: str, attempt: int, slot: int) -> str:
    """Return a name for this process that no other slot, of whatever attempt and host, has ever had."""
    return f"{workspace}, attempt {attempt}, slot {slot}, process {os.getpid()}, {secrets.token_hex(16)}"


class Doors:
    """Listens for one slot, or for the driver, from `open` to `close`.

    Args:
        name: Of the process, and of nothing else.
        secret: Of the attempt.
        converse: Talks to one who has proved to know it, on a thread of its own.
        clock: For the time that a proof may take.
    """

    def __init__(self, name: str, secret: bytes, converse: Callable[[Channel], None], clock: Clock) -> None:
        self._name = name
        self._secret = secret
        self._converse = converse
        self._clock = clock
        self._file: Path | None = None
        self._listeners: list[Listener] = []

    def open_unix(self, place: str) -> str:
        """Listen on a Unix socket; return its path."""
        stream, self._file = listen_privately(place)
        self._listen(stream)
        return str(self._file)

    def open_tcp(self, address: str) -> int:
        """Listen on a port of an address; return its number.

        Args:
            address: Where Spark's executor listens itself; all addresses if that one is not this host's.
        """
        stream = socket.socket()
        try:
            stream.bind((address, 0))
        except OSError:
            stream.bind(("", 0))
        stream.listen(_BACKLOG)
        self._listen(stream)
        return int(stream.getsockname()[1])

    def close(self) -> None:
        """Let nobody in any more, and remove the Unix socket; conversations go on."""
        for listener in self._listeners:
            listener.close()
        if self._file is not None:
            with contextlib.suppress(OSError):
                remove_private(self._file)

    def _listen(self, stream: socket.socket) -> None:
        listener = Listener(
            stream, secret=self._secret, name=self._name, converse=self._converse, clock=self._clock
        )
        self._listeners.append(listener)
        listener.start()
