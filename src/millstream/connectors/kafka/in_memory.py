"""Messages that are staged in a file and still in memory, where they are staged and committed in one process.

A file is what a commit can rely on. But where slots run in the driver's process, as those of the local executor do,
what the file holds need not be read and unpacked for the commit: the messages that were written to it are kept for as
long, up to a limit. Of a file the first so many blocks are kept; what comes behind them is read.
"""

from __future__ import annotations

import os
import threading
from dataclasses import dataclass, field
from typing import Final
from weakref import WeakSet

from millstream.connectors.kafka.serialization import Messages

__all__ = ["MOST_BYTES", "MessagesInMemory", "in_memory"]

MOST_BYTES: Final = 128 << 20
_OBJECT_BYTES: Final = 48  # of a bytes object beside its content, and its place in a list


@dataclass(slots=True)
class _Held:
    owner: object
    messages: list[Messages] = field(default_factory=list)
    end: int = 0
    size: int = 0


class MessagesInMemory:
    """What is kept in this process, by the file it is staged in.

    Attributes:
        most_bytes: How much memory is taken at most, as it is estimated.
    """

    def __init__(self, most_bytes: int = MOST_BYTES) -> None:
        self.most_bytes = most_bytes
        self._bytes = 0
        self._held: dict[str, _Held] = {}
        self._committers: WeakSet[object] = WeakSet()
        self._process = 0
        self._lock = threading.Lock()

    @property
    def held_bytes(self) -> int:
        """How much memory is taken, as it is estimated."""
        return self._bytes

    def expect(self, committer: object) -> None:
        """Learn that what is staged in this process may be committed in it."""
        with self._lock:
            self._committers.add(committer)
            self._process = os.getpid()

    def leave(self, committer: object) -> None:
        """Learn that a committer has ended."""
        with self._lock:
            self._committers.discard(committer)

    def add(self, owner: object, path: str, start: int, length: int, messages: Messages) -> None:
        """Keep messages, if they are to be committed here and there is room.

        Args:
            owner: The writer.
            path: Its file.
            start: Where they begin in the file, bytes.
            length: How many bytes of the file they take.
            messages: The messages. Those with headers are not kept: headers are the program's own objects.
        """
        if not self._committers or messages.headers is not None:
            return
        objects = len(messages.values) * (1 if messages.keys is None else 2)
        size = length + _OBJECT_BYTES * objects
        with self._lock:
            held = self._held.get(path)
            if start != (0 if held is None else held.end):
                return  # something before them is not kept
            if self._bytes + size > self.most_bytes or self._process != os.getpid():
                return
            if held is None:
                held = self._held[path] = _Held(owner)
            held.messages.append(messages)
            held.end += length
            held.size += size
            self._bytes += size

    def of(self, path: str) -> tuple[list[Messages], int]:
        """Return what is kept of a file, and where in the file goes on what is not."""
        with self._lock:
            held = self._held.get(path)
            return ([], 0) if held is None else (list(held.messages), held.end)

    def forget(self, path: str) -> None:
        """Let go of what is kept of a file."""
        with self._lock:
            self._forget(path)

    def forget_all(self, owner: object) -> None:
        """Let go of what is kept for a writer."""
        with self._lock:
            for path in [path for path, held in self._held.items() if held.owner is owner]:
                self._forget(path)

    def _forget(self, path: str) -> None:
        held = self._held.pop(path, None)
        if held is not None:
            self._bytes -= held.size


in_memory: Final = MessagesInMemory()
