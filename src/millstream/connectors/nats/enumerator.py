"""Which part of a stream is read in an epoch, and whether messages are missing.

A stream is one split, read in order by one subtask. A position is the sequence of the last message that was read; a
plan asks for the stream's last sequence and reads up to it, so the same range is the same messages when it is read
again.
"""

from __future__ import annotations

import logging
from collections.abc import Sequence

from millstream.base.errors import SourceError
from millstream.connectors.nats.offsets import NatsOffsetsInitializer
from millstream.connectors.nats.streams import StreamInfo, StreamOfClient, lost_messages
from millstream.spi.source import PlanRequest, RangeEnd, SourcePlan, SplitEnumerator, SplitRange

__all__ = ["StreamEnumerator", "StreamSnapshot"]

log = logging.getLogger(__name__)

StreamSnapshot = tuple[int, "int | None", str]
"""Position, where reading ends, when the stream was made: plain, as it outlives this version."""


class StreamEnumerator(SplitEnumerator):
    """Plans the stream of a `NatsStreamSource`."""

    def __init__(
        self,
        stream: StreamOfClient,
        parallelism: int,
        *,
        start: NatsOffsetsInitializer,
        stop: NatsOffsetsInitializer | None,
        poll_ms: int,
        fail_on_data_loss: bool,
        restored: StreamSnapshot | None,
    ) -> None:
        """Look at the stream, and go on from a snapshot if there is one.

        Raises:
            SourceError: If the server does not answer, or has no such stream.
        """
        self._stream = stream
        self._parallelism = parallelism
        self._poll_ms = poll_ms
        self._fails = fail_on_data_loss
        self._stop: int | None
        if restored is not None:
            self._position, self._stop, self._created = restored
            return
        info = stream.info()
        if info is None:
            raise SourceError(
                f'there is no stream "{stream.name}" on the NATS server',
                hint="Check its name and the account, or make it before the job starts: nats stream add.",
            )
        self._created = info.created
        self._position = self._place(start, info)
        self._stop = None if stop is None else self._place(stop, info)
        if self._position > info.last:
            raise SourceError(
                f'reading of the NATS stream "{stream.name}" is to start with message {self._position + 1}',
                detail=f"Its last one is {info.last}.",
                hint="Start at latest() for messages that are still to come.",
            )

    def plan(self, request: PlanRequest) -> SourcePlan:
        """Plan the stream from where it was left to its present end.

        Raises:
            SourceError: If messages were removed before they were read, or the server stays away.
        """
        if self._has_ended():
            return SourcePlan({}, frozenset(range(self._parallelism)), False, next_ms=request.now_ms)
        others = frozenset(range(1, self._parallelism))
        next_ms = request.now_ms + self._poll_ms
        last = self._check(self._stream.info())
        end = last if self._stop is None else min(last, self._stop)
        if end <= self._position or self._stream.name in request.paused:
            return SourcePlan({}, others, False, next_ms=next_ms)
        most = max(1, request.max_records)
        planned = SplitRange(self._stream.name, self._stop, self._position, end, most)
        backlog = self._stop is not None or end - self._position > most
        return SourcePlan({0: [planned]}, others, backlog, next_ms=next_ms)

    def advance(self, ends: Sequence[RangeEnd]) -> None:
        """Take note of the position."""
        for end in ends:
            self._position = end.position

    def snapshot(self) -> StreamSnapshot:
        """Return the position."""
        return self._position, self._stop, self._created

    def close(self) -> None:
        """End the connection."""
        self._stream.client.close()

    def _has_ended(self) -> bool:
        return self._stop is not None and self._position >= self._stop

    def _place(self, offsets: NatsOffsetsInitializer, info: StreamInfo) -> int:
        if offsets.time_ms is not None:
            return self._stream.position_at(offsets.time_ms)
        return offsets.behind(info.first, info.last)

    def _check(self, info: StreamInfo | None) -> int:
        """Return the last sequence of the stream, if it is the one that was read, and has what was not read."""
        name, position = self._stream.name, self._position
        if info is None:
            raise lost_messages(name, position, "the stream is not there any more")
        if info.created != self._created:
            raise lost_messages(
                name, position, f"it was made anew: at {info.created}, before at {self._created}"
            )
        if info.last < position:
            raise lost_messages(name, position, f"its last message is {info.last}")
        missing = info.first - 1 - position
        if missing > 0:
            error = lost_messages(
                name, position, f"up to {missing} messages were removed before they were read"
            )
            if self._fails:
                raise error
            log.warning("%s", error.summary())
            self._position = info.first - 1
        return info.last
