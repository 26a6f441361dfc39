"""Which part of which stream is read in an epoch, and whether entries are missing.

A stream is a split, and belongs to one subtask. A plan asks Redis for the last id of each stream and reads up to it, so
the same range is the same entries when it is read again::

    entries added     1 … 400 │ 401 … 900 │ 901 … 1000
                      trimmed │   read    │ ◄─ range ─►
                                 position             last id now, with the number of entries added until then

Redis (7 and newer) counts the entries that were ever added. So a position is an id and the number of entries that were
added up to it: whoever reads from there to the last id and finds less than that number grew by has lost some.
"""

from __future__ import annotations

import logging
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from millstream.base.errors import SourceError
from millstream.connectors.redis.connection import RedisClient
from millstream.connectors.redis.offsets import (
    EntryId,
    RedisOffsetsInitializer,
    format_id,
    parse_id,
)
from millstream.spi.source import PlanRequest, RangeEnd, SourcePlan, SplitEnumerator, SplitRange

__all__ = ["StreamEnumerator", "StreamPosition", "StreamSplit", "lost_entries"]

log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class StreamPosition:
    """A place in a stream.

    Attributes:
        entry_id: It is behind this entry.
        added: How many entries were added to the stream up to it; None if that is not known.
    """

    entry_id: EntryId
    added: int | None


@dataclass(frozen=True, slots=True)
class StreamSplit:
    """What a reader needs.

    Attributes:
        stream: The stream's key.
        stop: Reading ends behind this id; None if it does not.
    """

    stream: str
    stop: EntryId | None


StreamsSnapshot = dict[str, tuple[EntryId, int | None, EntryId | None]]
"""Of each stream its position, id and number, and where reading ends: plain, as it outlives this version."""


@dataclass(frozen=True, slots=True)
class _Head:
    """What Redis says of a stream: its last id, entries ever added (None before Redis 7), entries that are there."""

    last: EntryId
    added: int | None
    length: int


_NO_STREAM = _Head((0, 0), 0, 0)


class StreamEnumerator(SplitEnumerator):
    """Plans the streams of a `RedisStreamSource`."""

    def __init__(
        self,
        client: RedisClient,
        streams: Sequence[str],
        parallelism: int,
        *,
        start: RedisOffsetsInitializer,
        stop: RedisOffsetsInitializer | None,
        bounded: bool,
        poll_ms: int,
        fail_on_data_loss: bool,
        restored: StreamsSnapshot | None,
    ) -> None:
        """Look at the streams, and go on from a snapshot if there is one.

        Raises:
            SourceError: If the server does not answer, or a stream that is to be read to its end is not there.
        """
        self._client = client
        self._streams = tuple(streams)
        self._parallelism = parallelism
        self._poll_ms = poll_ms
        self._fails = fail_on_data_loss
        self._positions: dict[str, StreamPosition] = {}
        self._stops: dict[str, EntryId | None] = {}
        client.refuse_cluster()
        heads = self._ask(self._streams)
        for stream in self._streams:
            if restored is not None and stream in restored:
                entry_id, added, self._stops[stream] = restored[stream]
                self._positions[stream] = StreamPosition(entry_id, added)
                continue
            head = self._there(stream, heads[stream], bounded=bounded)
            self._positions[stream] = _first_position(start.place(stream, head.last), head)
            self._stops[stream] = None if stop is None else stop.place(stream, head.last)

    def plan(self, request: PlanRequest) -> SourcePlan:
        """Plan each stream from where it was left to its present end.

        Raises:
            SourceError: If entries were removed before they were read, or the server stays away.
        """
        owned: list[list[str]] = [[] for _ in range(self._parallelism)]
        for index, stream in enumerate(self._streams):
            if not self._has_ended(stream):
                owned[index % self._parallelism].append(stream)
        finished = frozenset(subtask for subtask, streams in enumerate(owned) if not streams)
        heads = self._ask([stream for streams in owned for stream in streams])
        ranges: dict[int, list[SplitRange]] = {}
        backlog = False
        for subtask, streams in enumerate(owned):
            ready = [
                stream
                for stream in streams
                if stream not in request.paused and self._has_news(stream, heads[stream])
            ]
            for stream in ready:
                planned = self._range(stream, heads[stream], max(1, request.max_records // len(ready)))
                ranges.setdefault(subtask, []).append(planned)
                backlog = backlog or self._stops[stream] is not None or self._has_more(planned)
        return SourcePlan(ranges, finished, backlog, next_ms=request.now_ms + self._poll_ms)

    def advance(self, ends: Sequence[RangeEnd]) -> None:
        """Take note of positions."""
        for end in ends:
            self._positions[end.split_id] = end.position

    def snapshot(self) -> StreamsSnapshot:
        """Return the positions."""
        return {
            stream: (position.entry_id, position.added, self._stops[stream])
            for stream, position in self._positions.items()
        }

    def close(self) -> None:
        """End the connection."""
        self._client.close()

    def _ask(self, streams: Sequence[str]) -> dict[str, _Head | None]:
        """Return what Redis says of streams, in one request; None for those that are not there."""
        if not streams:
            return {}

        def ask(client: Any) -> list[Any]:
            with client.pipeline(transaction=False) as pipeline:
                for stream in streams:
                    pipeline.xinfo_stream(stream)
                replies: list[Any] = pipeline.execute(raise_on_error=False)
            return replies

        heads: dict[str, _Head | None] = {}
        for stream, reply in zip(
            streams, self._client.call("asking for the ends of streams", ask), strict=True
        ):
            if not isinstance(reply, Exception):
                heads[stream] = _Head(
                    parse_id(reply["last-generated-id"]), reply.get("entries-added"), reply["length"]
                )
            elif "no such key" in str(reply):
                heads[stream] = None
            else:

                def fail(_: Any, reply: Exception = reply) -> None:
                    raise reply

                self._client.call(f'looking at stream "{stream}"', fail)
        return heads

    def _there(self, stream: str, head: _Head | None, *, bounded: bool) -> _Head:
        if head is not None:
            return head
        if bounded:
            raise SourceError(
                f'there is no stream "{stream}" in Redis',
                hint="Check its name and the number of the database in the URL (redis://host:port/0).",
            )
        log.warning('there is no stream "%s" in Redis yet; waiting for it', stream)
        return _NO_STREAM

    def _has_ended(self, stream: str) -> bool:
        stop = self._stops[stream]
        return stop is not None and self._positions[stream].entry_id >= stop

    def _has_news(self, stream: str, head: _Head | None) -> bool:
        """Return whether there are entries behind the position, which Redis has to know.

        Raises:
            SourceError: If it does not, so this is not the stream that was read.
        """
        position = self._positions[stream]
        if head is None:
            if position.added or (position.added is None and position.entry_id != (0, 0)):
                raise lost_entries(stream, position, "the stream is not there any more")
            return False
        counted = position.added is not None and head.added is not None
        if counted and head.added < position.added:  # type: ignore[operator]
            raise lost_entries(
                stream, position, f"{position.added} entries had been added to it, it says {head.added}"
            )
        if position.added and head.last < position.entry_id:
            raise lost_entries(stream, position, f"its last id is {format_id(head.last)}")
        return head.last > position.entry_id

    def _range(self, stream: str, head: _Head | None, most: int) -> SplitRange:
        assert head is not None
        position, stop = self._positions[stream], self._stops[stream]
        if position.added is not None and head.added is not None:
            missing = head.added - position.added - head.length
            if missing > 0:  # known before anything is read; the reader finds the rest
                position = self._note_loss(stream, position, missing)
        end = StreamPosition(head.last, head.added)
        if stop is not None and stop < head.last:
            end = StreamPosition(stop, None)
        return SplitRange(stream, StreamSplit(stream, stop), position, end, most)

    def _note_loss(self, stream: str, position: StreamPosition, missing: int) -> StreamPosition:
        error = lost_entries(stream, position, f"{missing} entries were removed before they were read")
        if self._fails:
            raise error
        log.warning("%s", error.summary())
        assert position.added is not None
        return StreamPosition(position.entry_id, position.added + missing)

    @staticmethod
    def _has_more(planned: SplitRange) -> bool:
        if planned.start.added is None or planned.stop.added is None:
            return True
        return bool(planned.stop.added - planned.start.added > planned.max_records)


def _first_position(entry_id: EntryId, head: _Head) -> StreamPosition:
    """Return a position with its number, where Redis's counters tell it: before all entries, and behind all."""
    added = None
    if head.added is not None:
        if entry_id == (0, 0):
            added = head.added - head.length
        elif entry_id == head.last:
            added = head.added
    return StreamPosition(entry_id, added)


def lost_entries(stream: str, position: StreamPosition, seen: str) -> SourceError:
    """Return the error that says that entries were lost.

    Args:
        stream: The stream.
        position: How far it was read.
        seen: What tells it.
    """
    return SourceError(
        f'entries of the Redis stream "{stream}" were lost: {seen}',
        detail=f"It was read up to {format_id(position.entry_id)}. Entries go by XTRIM, MAXLEN, MINID and XDEL, and "
        "with a server that was restarted without its data.",
        hint="Keep entries longer than the job may stand still. To go on without those that are lost, "
        "set_fail_on_data_loss(False); a stream that was made anew needs a job without the old checkpoint.",
    )
