"""Reads shards: one answer of the service at a time, kept until all of it is handed out.

::

    answer of GetRecords   r1 r2 r3 … r10000         next iterator, for the next answer
    ranges                 │ 1000 │ 1000 │ …         a range that is cut short costs no second read
"""

from __future__ import annotations

import logging
import random
from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Generic, Protocol, TypeVar

from millstream.base.clock import Clock, SystemClock
from millstream.connectors.aws_client import THROTTLED, AwsClient, AwsRefusal
from millstream.connectors.shards.listing import StreamWords
from millstream.connectors.shards.options import ReadOptions
from millstream.connectors.shards.positions import Place, ReadEnd, ShardPosition, ShardSplit
from millstream.spi.batch import Batch
from millstream.spi.source import EmitBatch, RangeEnd, SourceReader, SplitRange

__all__ = ["ShardAnswer", "ShardReader"]

log = logging.getLogger(__name__)

_GONE = frozenset({"ResourceNotFoundException"})
_EXPIRED = frozenset({"ExpiredIteratorException"})
_TRIMMED = frozenset({"TrimmedDataAccessException"})
_ALLOWED_BYTES = 2 << 20
_EMPTY_ANSWERS = 5


class ShardMessage(Protocol):
    """A message of a record."""

    @property
    def arrival_ms(self) -> int:
        """When the service stored it, about, in epoch milliseconds."""


M = TypeVar("M", bound=ShardMessage)


@dataclass(frozen=True, slots=True)
class ShardAnswer(Generic[M]):
    """An answer of the service.

    Attributes:
        records: In order: the sequence number of each, and the messages that are in it.
        iterator: For the next answer; None if the shard has no more than these.
        at_end: Whether nothing was there to follow; None if the service does not tell.
        size: How many bytes the records have; 0 if that is not known.
    """

    records: Sequence[tuple[str, list[M]]]
    iterator: str | None
    at_end: bool | None
    size: int


@dataclass
class _Cursor(Generic[M]):
    """A place in a shard, and what was fetched behind it.

    Attributes:
        position: Behind what was handed out.
        iterator: For the next answer; None if there is none yet, or none any more.
        limit: How many records are asked for.
        fetched: Records that were not handed out, the next one last: sequence number, and what is in it.
        ended: Whether the service has no more than these.
        empty_answers: How many answers in a row were empty.
        caught_up: Whether the last answer was empty, and nothing was there to follow.
        not_before_ms: Records from before this time are left out.
        next_s: When the shard may be read again, by the monotonic clock.
        throttled: How often it was read once too many in a row.
        trimmed: Whether records were gone behind an iterator that was made for them.
    """

    position: ShardPosition
    iterator: str | None
    limit: int
    fetched: list[tuple[str, list[M]]] = field(default_factory=list)
    ended: bool = False
    empty_answers: int = 0
    caught_up: bool = False
    not_before_ms: int = 0
    next_s: float = 0.0
    throttled: int = 0
    trimmed: bool = False


class ShardReader(SourceReader, ABC, Generic[M]):
    """Reads ranges of shards; a service's own says how it is asked, and makes records.

    Args:
        options: How shards are read.
        words: How errors name shards.
        bounded: Whether a shard ends where there is nothing more in it.
        clock: What time it is.
    """

    gives_away = True
    _client: AwsClient

    def __init__(
        self, options: ReadOptions, words: StreamWords, *, bounded: bool, clock: Clock | None = None
    ) -> None:
        self._options = options
        self._words = words
        self._bounded = bounded
        self._clock = clock or SystemClock()
        self._cursors: dict[str, _Cursor[M]] = {}

    @abstractmethod
    def new_iterator(
        self, what: str, split: ShardSplit, position: ShardPosition, refusals: frozenset[str]
    ) -> tuple[str, int]:
        """Ask for an iterator at a position.

        Returns:
            The iterator, and the time before which records are to be left out: epoch milliseconds, 0 for none.

        Raises:
            AwsRefusal: If the service answers with one of the codes.
        """

    @abstractmethod
    def get_records(
        self, what: str, split: ShardSplit, iterator: str, limit: int, refusals: frozenset[str]
    ) -> ShardAnswer[M]:
        """Ask for records.

        Raises:
            AwsRefusal: If the service answers with one of the codes.
        """

    @abstractmethod
    def decode(self, stream: str, messages: Sequence[M]) -> Batch:
        """Return the records of messages of one stream, with the times of these.

        Raises:
            MalformedRecordError: If one does not parse, and that is to fail the job.
        """

    def read(self, split_range: SplitRange, emit: EmitBatch) -> RangeEnd:
        """Emit what is at hand of a shard, or else what the service answers now.

        Raises:
            SourceError: If records are gone, or the service stays away.
        """
        split: ShardSplit = split_range.split
        cursor = self._cursor(split_range)
        count, handed_out = 0, 0
        while handed_out < split_range.max_records:
            if not cursor.fetched and not self._fetch(split_range.split_id, split, cursor):
                break
            messages = _take(cursor, split_range.max_records - handed_out)
            handed_out += len(messages)
            batch = self.decode(split.stream, messages)
            count += len(batch)
            if len(batch) and not emit(batch):
                break
        finished = not cursor.fetched and (cursor.ended or (self._bounded and cursor.caught_up))
        if finished:
            del self._cursors[split_range.split_id]
        end = ReadEnd(cursor.position, self._wait_ms(cursor))
        return RangeEnd(split_range.split_id, end, finished, count)

    def _cursor(self, split_range: SplitRange) -> _Cursor[M]:
        cursor = self._cursors.get(split_range.split_id)
        if cursor is None or cursor.position != split_range.start:
            cursor = _Cursor(split_range.start, split_range.split.iterator, self._options.most_records)
            self._cursors[split_range.split_id] = cursor
        return cursor

    def _wait_ms(self, cursor: _Cursor[M]) -> int:
        if cursor.fetched:
            return 0
        return max(1, round((cursor.next_s - self._clock.monotonic()) * 1_000))

    def _fetch(self, split_id: str, split: ShardSplit, cursor: _Cursor[M]) -> bool:
        """Ask for more, if it is time to; return whether something came.

        A closed shard whose answer is empty is asked again: there are answers without records before its end.
        """
        for _ in range(_EMPTY_ANSWERS if split.closed else 1):
            if cursor.ended or self._clock.monotonic() < cursor.next_s:
                return False
            self._ask(split_id, split, cursor)
            if cursor.fetched:
                return True
        return False

    def _ask(self, split_id: str, split: ShardSplit, cursor: _Cursor[M]) -> None:
        what = f'reading shard "{split_id}"'
        refusals = THROTTLED | _EXPIRED | _GONE | _TRIMMED
        try:
            if cursor.iterator is None:
                cursor.iterator, cursor.not_before_ms = self.new_iterator(
                    what, split, cursor.position, refusals - _EXPIRED
                )
            answer = self.get_records(what, split, cursor.iterator, cursor.limit, refusals)
        except AwsRefusal as refusal:
            self._refused(what, split_id, refusal, cursor)
            return
        cursor.throttled, cursor.trimmed = 0, False
        cursor.empty_answers = 0 if answer.records else cursor.empty_answers + 1
        interval_ms = self._options.interval_ms if answer.records else self._options.empty_interval_ms
        cursor.next_s = self._clock.monotonic() + interval_ms / 1_000
        cursor.iterator = answer.iterator
        cursor.ended = answer.iterator is None
        is_end = cursor.empty_answers >= _EMPTY_ANSWERS if answer.at_end is None else answer.at_end
        cursor.caught_up = is_end and not answer.records
        cursor.fetched = _wanted(answer.records, cursor.not_before_ms)
        if self._options.adaptive and answer.records:
            self._adapt(cursor, answer)

    def _refused(self, what: str, split_id: str, refusal: AwsRefusal, cursor: _Cursor[M]) -> None:
        """Do what has to be done before the shard is asked again.

        Raises:
            SourceError: If there is no such shard any more, or records are gone.
        """
        if refusal.code in _GONE:
            raise self._client.explain(what, refusal.code, str(refusal)) from None
        if refusal.code in _TRIMMED:
            if cursor.trimmed or cursor.position.place is Place.BEHIND:
                raise self._words.lost(split_id, cursor.position, str(refusal)) from None
            cursor.trimmed = True
        if refusal.code in _EXPIRED | _TRIMMED:
            cursor.iterator = None
            return
        if not cursor.throttled:
            log.warning("%s, %s: %s; it is read less often", self._words.stream, what, refusal)
        options = self._options
        wait_ms = min(options.first_wait_ms * options.growth**cursor.throttled, options.longest_wait_ms)
        cursor.throttled += 1
        cursor.next_s = self._clock.monotonic() + random.uniform(wait_ms / 2, wait_ms) / 1_000

    def _adapt(self, cursor: _Cursor[M], answer: ShardAnswer[M]) -> None:
        """Ask for as many records as the service gives in the time between two answers."""
        size = answer.size / len(answer.records)
        allowed = _ALLOWED_BYTES * max(self._options.interval_ms, 1) / 1_000
        cursor.limit = max(1, min(self._options.most_records, int(allowed / max(size, 1))))


def _wanted(records: Sequence[tuple[str, list[M]]], not_before_ms: int) -> list[tuple[str, list[M]]]:
    """Return records that are not from before a time, the last one first."""
    return [
        (sequence, messages)
        for sequence, messages in reversed(records)
        if not not_before_ms or not messages or messages[0].arrival_ms >= not_before_ms
    ]


def _take(cursor: _Cursor[M], most: int) -> list[M]:
    """Return messages of a cursor: about so many, as what was packed together stays together."""
    taken: list[M] = []
    sequence = ""
    while cursor.fetched and len(taken) < most:
        sequence, messages = cursor.fetched.pop()
        taken += messages
    cursor.position = ShardPosition(Place.BEHIND, sequence)
    return taken
