"""Reads ranges of Redis streams."""

from __future__ import annotations

import logging
from collections.abc import Sequence
from typing import Any

from millstream.base.errors import SourceError
from millstream.connectors.redis.connection import RedisClient, RedisConnection
from millstream.connectors.redis.entries import Entries, EntryDecoder
from millstream.connectors.redis.offsets import format_id, parse_id
from millstream.connectors.redis.stream_splits import StreamPosition, StreamSplit, lost_entries
from millstream.operators.weight import estimate_bytes
from millstream.spi.source import EmitBatch, RangeEnd, SourceReader, SplitRange

__all__ = ["StreamReader"]

log = logging.getLogger(__name__)

_FIRST_ENTRIES = 64
_MOST_ENTRIES = 5_000
_BATCH_BYTES = 4 << 20


class StreamReader(SourceReader):
    """Reads entries behind an id, some thousand at a time."""

    gives_away = True

    def __init__(
        self, connection: RedisConnection, decoder: EntryDecoder, *, fail_on_data_loss: bool
    ) -> None:
        self._connection = connection
        self._decoder = decoder
        self._fails = fail_on_data_loss
        self._client: RedisClient | None = None
        self._entries = _FIRST_ENTRIES

    def open(self) -> None:
        """Make the client; it connects with the first range."""
        self._client = RedisClient(self._connection, SourceError)
        self._decode = self._decoder.opened(self.context)

    def read(self, split_range: SplitRange, emit: EmitBatch) -> RangeEnd:
        """Emit the entries of a range, or as many as are wanted.

        Raises:
            SourceError: If entries are missing, or the server stays away.
        """
        split: StreamSplit = split_range.split
        position: StreamPosition = split_range.start
        end: StreamPosition = split_range.stop
        count, entries_read, wanted, at_end = 0, 0, True, False
        while wanted and not at_end and entries_read < split_range.max_records:
            size = min(self._entries, split_range.max_records - entries_read)
            entries = self._fetch(split.stream, position, end, size)
            at_end = len(entries) < size
            if not entries:
                break
            entries_read += len(entries)
            last = parse_id(entries[-1][0])
            at_end = at_end or last == end.entry_id
            added = None if position.added is None else position.added + len(entries)
            position = StreamPosition(last, added)
            batch = self._decode(split.stream, entries)
            count += len(batch)
            self._size_batches(entries)
            if len(batch):
                wanted = emit(batch)
        if at_end:
            self._check_complete(split.stream, position, end)
            position = end
        finished = split.stop is not None and position.entry_id >= split.stop
        return RangeEnd(split_range.split_id, position, finished, count)

    def close(self) -> None:
        """End the connection."""
        if self._client is not None:
            self._client.close()
            self._client = None

    def _fetch(self, stream: str, position: StreamPosition, end: StreamPosition, size: int) -> Entries:
        assert self._client is not None
        first = "-" if position.entry_id == (0, 0) else f"({format_id(position.entry_id)}"
        entries: Entries = self._client.call(
            f'reading stream "{stream}" behind {format_id(position.entry_id)}',
            lambda client: client.xrange(stream, first, format_id(end.entry_id), count=size),
        )
        return entries

    def _check_complete(self, stream: str, position: StreamPosition, end: StreamPosition) -> None:
        """See whether as many entries were found as had been added."""
        if position.added is None or end.added is None or position.added == end.added:
            return
        missing = end.added - position.added
        seen = f"{missing} entries were removed before they were read"
        if missing < 0:
            seen = f"it has {-missing} entries more than were added to it, so it was made anew"
        error = lost_entries(stream, position, seen)
        if self._fails:
            raise error
        log.warning("%s", error.summary())

    def _size_batches(self, entries: Sequence[Any]) -> None:
        """Have batches of some megabytes at most: entries may be of any size."""
        fitting = len(entries) * _BATCH_BYTES // max(estimate_bytes(entries), 1)
        self._entries = max(1, min(fitting, self._entries * 8, _MOST_ENTRIES))
