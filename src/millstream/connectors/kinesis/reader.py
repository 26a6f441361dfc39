"""Reads shards: one answer of Kinesis at a time, kept until all of it is handed out.

::

    answer of GetRecords   r1 r2 r3 … r10000         next iterator, for the next answer
    ranges                 │ 1000 │ 1000 │ …         a range that is cut short costs no second read
"""

from __future__ import annotations

import datetime
import logging
import random
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from millstream.base.clock import Clock, SystemClock
from millstream.base.errors import SourceError
from millstream.connectors.aws_client import THROTTLED, AwsClient, AwsRefusal
from millstream.connectors.aws_properties import AwsProperties
from millstream.connectors.kinesis.aggregated import unpack
from millstream.connectors.kinesis.options import ReadOptions
from millstream.connectors.kinesis.positions import Place, ReadEnd, ShardPosition, ShardSplit
from millstream.connectors.kinesis.records import KinesisMessage, RecordDecoder
from millstream.connectors.kinesis.shards import NOT_FOUND, stream_argument
from millstream.connectors.patience import Patience
from millstream.spi.source import EmitBatch, RangeEnd, SourceReader, SplitRange

__all__ = ["ShardReader"]

log = logging.getLogger(__name__)

WHAT = "Kinesis sources and sinks"
_EXPIRED = frozenset({"ExpiredIteratorException"})
_ALLOWED_BYTES = 2 << 20
_EMPTY_ANSWERS = 5


@dataclass
class _Cursor:
    """A place in a shard, and what was fetched behind it.

    Attributes:
        position: Behind what was handed out.
        iterator: For the next answer; None if there is none yet, or none any more.
        fetched: Records that were not handed out, the next one last: sequence number, and what is packed in it.
        ended: Whether Kinesis has no more than these.
        caught_up: Whether the last answer was empty, and nothing was there to follow.
        next_s: When the shard may be read again, by the monotonic clock.
        throttled: How often it was read once too many in a row.
        limit: How many records are asked for.
    """

    position: ShardPosition
    iterator: str | None = None
    fetched: list[tuple[str, list[KinesisMessage]]] = field(default_factory=list)
    ended: bool = False
    caught_up: bool = False
    next_s: float = 0.0
    throttled: int = 0
    limit: int = 10_000


class ShardReader(SourceReader):
    """Reads ranges of shards.

    Args:
        properties: Where Kinesis is.
        patience: How long it is waited for.
        options: How shards are read.
        decoder: Makes records.
        bounded: Whether a shard ends where there is nothing more in it.
        clock: What time it is.
    """

    gives_away = True

    def __init__(
        self,
        properties: AwsProperties,
        patience: Patience,
        options: ReadOptions,
        decoder: RecordDecoder,
        *,
        bounded: bool,
        clock: Clock | None = None,
    ) -> None:
        self._properties = properties
        self._patience = patience
        self._options = options
        self._decoder = decoder
        self._bounded = bounded
        self._clock = clock or SystemClock()
        self._cursors: dict[str, _Cursor] = {}

    def open(self) -> None:
        """Make the client; it connects with the first range."""
        self._client = AwsClient(
            "kinesis", self._properties, self._patience, SourceError, extra="kinesis", what=WHAT
        )
        self._decoding = self._decoder.opened(self.context, columns=self.wants_columns)

    def read(self, split_range: SplitRange, emit: EmitBatch) -> RangeEnd:
        """Emit what is at hand of a shard, or else what Kinesis answers now.

        Raises:
            SourceError: If records are gone, or Kinesis stays away.
        """
        split: ShardSplit = split_range.split
        cursor = self._cursor(split_range)
        count, handed_out = 0, 0
        while handed_out < split_range.max_records:
            if not cursor.fetched and not self._fetch(split_range.split_id, split, cursor):
                break
            messages = _take(cursor, split_range.max_records - handed_out)
            handed_out += len(messages)
            batch = self._decoding.decode(split.stream, messages)
            count += len(batch)
            if len(batch) and not emit(batch):
                break
        finished = not cursor.fetched and (cursor.ended or (self._bounded and cursor.caught_up))
        if finished:
            del self._cursors[split_range.split_id]
        end = ReadEnd(cursor.position, self._wait_ms(cursor))
        return RangeEnd(split_range.split_id, end, finished, count)

    def _cursor(self, split_range: SplitRange) -> _Cursor:
        cursor = self._cursors.get(split_range.split_id)
        if cursor is None or cursor.position != split_range.start:
            cursor = _Cursor(split_range.start, split_range.split.iterator, limit=self._options.most_records)
            self._cursors[split_range.split_id] = cursor
        return cursor

    def _wait_ms(self, cursor: _Cursor) -> int:
        if cursor.fetched:
            return 0
        return max(1, round((cursor.next_s - self._clock.monotonic()) * 1_000))

    def _fetch(self, split_id: str, split: ShardSplit, cursor: _Cursor) -> bool:
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

    def _ask(self, split_id: str, split: ShardSplit, cursor: _Cursor) -> None:
        what = f'reading shard "{split_id}"'
        try:
            if cursor.iterator is None:
                cursor.iterator = self._new_iterator(what, split, cursor.position)
            answer = self._client.call(
                what,
                "get_records",
                refusals=THROTTLED | _EXPIRED | NOT_FOUND,
                ShardIterator=cursor.iterator,
                Limit=cursor.limit,
                **({"StreamARN": split.stream} if split.stream.startswith("arn:") else {}),
            )
        except AwsRefusal as refusal:
            self._refused(what, refusal, cursor)
            return
        cursor.throttled = 0
        cursor.next_s = self._clock.monotonic() + self._options.interval_ms / 1_000
        cursor.iterator = answer.get("NextShardIterator")
        cursor.ended = cursor.iterator is None
        cursor.caught_up = not answer["Records"] and not answer.get("MillisBehindLatest", 0)
        cursor.fetched = [
            (record["SequenceNumber"], _messages(split, record)) for record in reversed(answer["Records"])
        ]
        if self._options.adaptive and answer["Records"]:
            self._adapt(cursor, answer["Records"])

    def _new_iterator(self, what: str, split: ShardSplit, position: ShardPosition) -> str:
        answer = self._client.call(
            what,
            "get_shard_iterator",
            refusals=THROTTLED | NOT_FOUND,
            ShardId=split.shard_id,
            **stream_argument(split.stream),
            **_iterator_arguments(position),
        )
        iterator: str = answer["ShardIterator"]
        return iterator

    def _refused(self, what: str, refusal: AwsRefusal, cursor: _Cursor) -> None:
        """Do what has to be done before the shard is asked again.

        Raises:
            SourceError: If there is no such shard any more.
        """
        if refusal.code in NOT_FOUND:
            raise self._client.explain(what, refusal.code, str(refusal)) from None
        if refusal.code in _EXPIRED:
            cursor.iterator = None
            return
        if not cursor.throttled:
            log.warning("Kinesis, %s: %s; it is read less often", what, refusal)
        options = self._options
        wait_ms = min(options.first_wait_ms * options.growth**cursor.throttled, options.longest_wait_ms)
        cursor.throttled += 1
        cursor.next_s = self._clock.monotonic() + random.uniform(wait_ms / 2, wait_ms) / 1_000

    def _adapt(self, cursor: _Cursor, records: list[dict[str, Any]]) -> None:
        """Ask for as many records as Kinesis gives in the time between two answers."""
        size = sum(len(record["Data"]) for record in records) / len(records)
        allowed = _ALLOWED_BYTES * max(self._options.interval_ms, 1) / 1_000
        cursor.limit = max(1, min(self._options.most_records, int(allowed / max(size, 1))))


def _take(cursor: _Cursor, most: int) -> list[KinesisMessage]:
    """Return messages of a cursor: about so many, as what was packed together stays together."""
    taken: list[KinesisMessage] = []
    sequence = ""
    while cursor.fetched and len(taken) < most:
        sequence, messages = cursor.fetched.pop()
        taken += messages
    cursor.position = ShardPosition(Place.BEHIND, sequence)
    return taken


def _messages(split: ShardSplit, record: Mapping[str, Any]) -> list[KinesisMessage]:
    arrival: datetime.datetime = record["ApproximateArrivalTimestamp"]
    arrival_ms = round(arrival.timestamp() * 1_000)
    return [
        KinesisMessage(data, key, record["SequenceNumber"], arrival_ms, split.stream, split.shard_id)
        for key, data in unpack(record["PartitionKey"], record["Data"])
    ]


def _iterator_arguments(position: ShardPosition) -> dict[str, Any]:
    if position.place is Place.BEHIND:
        return {"ShardIteratorType": "AFTER_SEQUENCE_NUMBER", "StartingSequenceNumber": position.sequence}
    if position.place is Place.TRIM_HORIZON:
        return {"ShardIteratorType": "TRIM_HORIZON"}
    time = datetime.datetime.fromtimestamp(position.timestamp_ms / 1_000, datetime.UTC)
    return {"ShardIteratorType": "AT_TIMESTAMP", "Timestamp": time}
