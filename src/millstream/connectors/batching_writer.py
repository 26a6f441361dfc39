"""A writer for systems that take messages at once: some thousand at a time, and the rest at the end of each epoch.

::

    records ─► message(record) ─► waiting ── so many, or so many bytes ─► send(messages)
                                     └────── the epoch ends ────────────► send(messages)

Whatever an epoch wrote was acknowledged when its checkpoint begins: at least once.
"""

from __future__ import annotations

from abc import abstractmethod
from typing import Any, Generic, TypeVar

from millstream.operators.user_code import attach_element
from millstream.spi.batch import Rows
from millstream.spi.sink import SinkWriter

__all__ = ["BatchingWriter"]

M = TypeVar("M")


class BatchingWriter(SinkWriter, Generic[M]):
    """Makes a message of each record, and sends many of them together.

    Args:
        messages: How many at most are sent together.
        size: How many bytes they have at most together; one larger message goes by itself.
    """

    def __init__(self, messages: int = 1_000, size: int = 4 << 20) -> None:
        self._greatest_count = messages
        self._greatest_size = size
        self._messages: list[M] = []
        self._bytes = 0

    @abstractmethod
    def message(self, value: Any) -> M:
        """Return the message of a record; its errors are told with the record."""

    def size_of(self, message: M) -> int:
        """Return the bytes of a message; by default nothing, and only their number counts."""
        return 0

    @abstractmethod
    def send(self, messages: list[M]) -> None:
        """Send messages, at least one, and wait until all are acknowledged.

        Raises:
            SinkError: If the system refuses one, or is away for too long.
        """

    def write(self, batch: Rows, *, watermark_ms: int, now_ms: int) -> None:
        """Send what is together, keep the rest."""
        for value in batch.values:
            try:
                message = self.message(value)
            except BaseException as error:
                attach_element(error, value)
                raise
            size = self.size_of(message)
            if self._bytes + size > self._greatest_size:
                self._flush()
            self._messages.append(message)
            self._bytes += size
            if len(self._messages) >= self._greatest_count:
                self._flush()

    def prepare_commit(self, *, now_ms: int, checkpoint: bool, end_of_input: bool) -> list[Any]:
        """Send the rest."""
        self._flush()
        return []

    def _flush(self) -> None:
        if self._messages:
            self.send(self._messages)
            self._messages, self._bytes = [], 0
