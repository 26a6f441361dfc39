"""The slot's side of a source: reads ranges of partitions."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from millstream.base.errors import SourceError
from millstream.connectors.pulsar.connection import PulsarClient, PulsarConnection
from millstream.connectors.pulsar.enumerator import Reading, SourceSettings
from millstream.connectors.pulsar.keys import RangeGenerator
from millstream.connectors.pulsar.partition_cursor import PartitionCursor
from millstream.connectors.pulsar.positions import Position, behind
from millstream.connectors.pulsar.records import OpenDecoder, RecordDecoder
from millstream.spi.source import EmitBatch, RangeEnd, SourceReader, SplitRange

__all__ = ["PulsarReader"]

_FIRST_MESSAGES = 64
_MOST_MESSAGES = 5_000
_BATCH_BYTES = 4 << 20


class PulsarReader(SourceReader):
    """Reads the partitions of one subtask.

    Args:
        connection: Where Pulsar is.
        settings: What is read.
        keys: Which messages of it.
        decoder: What they become.
    """

    gives_away = True

    def __init__(
        self,
        connection: PulsarConnection,
        settings: SourceSettings,
        keys: RangeGenerator,
        decoder: RecordDecoder,
    ) -> None:
        self._connection = connection
        self._settings = settings
        self._keys = keys
        self._decoder = decoder
        self._client: PulsarClient | None = None
        self._cursors: dict[str, tuple[PartitionCursor, OpenDecoder]] = {}
        self._messages = _FIRST_MESSAGES

    def open(self) -> None:
        """Make the client; it connects with the first range."""
        self._client = PulsarClient(self._connection, SourceError)

    def read(self, split_range: SplitRange, emit: EmitBatch) -> RangeEnd:
        """Emit the messages of a range, or as many as are wanted.

        Raises:
            SourceError: If messages are missing, or the cluster stays away.
        """
        name, position = split_range.split_id, split_range.start
        reading: Reading = split_range.split
        stop: Position = split_range.stop
        count, messages_read, wanted, finished = 0, 0, True, False
        while (
            wanted
            and not finished
            and position.place < stop.place
            and messages_read < split_range.max_records
        ):
            cursor, decoder = self._cursor(name)
            most = min(self._messages, split_range.max_records - messages_read)
            messages = cursor.take(position, stop, most)
            if not messages:
                position = stop._replace(is_known=False)
                break
            messages, finished = _until(messages, reading)
            messages_read += len(messages)
            if messages:
                position = behind(messages[-1].message_id())
                self._size_batches(messages)
            batch = decoder.decode([each for each in messages if self._keys.wants(each)])
            count += len(batch)
            if len(batch):
                wanted = emit(batch)
        has_ended = finished or (reading.stop is not None and position.place >= reading.stop.place)
        if has_ended and name in self._cursors:
            self._cursors.pop(name)[0].close()
        return RangeEnd(name, position, has_ended, count)

    def close(self) -> None:
        """End the connections."""
        for cursor, _ in self._cursors.values():
            cursor.close()
        self._cursors = {}
        if self._client is not None:
            self._client.close()
            self._client = None

    def _cursor(self, name: str) -> tuple[PartitionCursor, OpenDecoder]:
        if name not in self._cursors:
            assert self._client is not None
            settings = self._settings
            cursor = PartitionCursor(
                self._client,
                name,
                receiver_queue=settings.receiver_queue,
                fails_on_mismatch=settings.fails_on_mismatch,
            )
            self._cursors[name] = cursor, self._decoder.opened(self.context, name)
        return self._cursors[name]

    def _size_batches(self, messages: Sequence[Any]) -> None:
        """Have batches of some megabytes at most: messages may be of any size."""
        size = sum(len(message.data()) for message in messages)
        fitting = len(messages) * _BATCH_BYTES // max(size, 1)
        self._messages = max(1, min(fitting, self._messages * 8, _MOST_MESSAGES))


def _until(messages: list[Any], reading: Reading) -> tuple[list[Any], bool]:
    """Return the messages before the first one that ends the partition, and whether there is one."""
    condition = reading.condition
    if condition is not None:
        for index, message in enumerate(messages):
            if condition.holds(message):
                return messages[:index], True
    return messages, False
