"""Reads ranges of a stream."""

from __future__ import annotations

from collections.abc import Sequence

from millstream.base.errors import SourceError
from millstream.connectors.nats.connection import NatsClient, NatsConnection
from millstream.connectors.nats.cursor import Message, StreamCursor
from millstream.connectors.nats.records import RecordDecoder
from millstream.connectors.nats.streams import StreamOfClient
from millstream.spi.source import EmitBatch, RangeEnd, SourceReader, SplitRange

__all__ = ["StreamReader"]

_FIRST_MESSAGES = 64
_MOST_MESSAGES = 5_000
_BATCH_BYTES = 4 << 20


class StreamReader(SourceReader):
    """Reads messages behind a sequence, some thousand at a time."""

    gives_away = True

    def __init__(
        self,
        connection: NatsConnection,
        stream: str,
        subject: str | None,
        decoder: RecordDecoder,
        *,
        fail_on_data_loss: bool,
    ) -> None:
        self._connection = connection
        self._stream = stream
        self._subject = subject
        self._decoder = decoder
        self._fails = fail_on_data_loss
        self._client: NatsClient | None = None
        self._messages = _FIRST_MESSAGES

    def open(self) -> None:
        """Make the client; it connects with the first range."""
        self._client = NatsClient(self._connection, SourceError)
        stream = StreamOfClient(self._client, self._stream, self._subject)
        self._cursor = StreamCursor(stream, fail_on_data_loss=self._fails)
        self._decoding = self._decoder.opened(self.context, self._stream)

    def read(self, split_range: SplitRange, emit: EmitBatch) -> RangeEnd:
        """Emit the messages of a range, or as many as are wanted.

        Raises:
            SourceError: If messages are missing, or the server stays away.
        """
        position: int = split_range.start
        end: int = split_range.stop
        count, messages_read, wanted = 0, 0, True
        while wanted and position < end and messages_read < split_range.max_records:
            most = min(self._messages, split_range.max_records - messages_read)
            messages = self._cursor.take(position, end, most)
            if not messages:
                position = end
                break
            messages_read += len(messages)
            position = messages[-1].sequence
            batch = self._decoding.decode(messages)
            count += len(batch)
            self._size_batches(messages)
            if len(batch):
                wanted = emit(batch)
        finished = split_range.split is not None and position >= split_range.split
        return RangeEnd(split_range.split_id, position, finished, count)

    def close(self) -> None:
        """End the connection."""
        if self._client is not None:
            self._client.close()
            self._client = None

    def _size_batches(self, messages: Sequence[Message]) -> None:
        """Have batches of some megabytes at most: messages may be of any size."""
        size = sum(len(message.data) for message in messages)
        fitting = len(messages) * _BATCH_BYTES // max(size, 1)
        self._messages = max(1, min(fitting, self._messages * 8, _MOST_MESSAGES))
