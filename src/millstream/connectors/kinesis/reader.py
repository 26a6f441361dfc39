"""Reads shards of Kinesis."""

from __future__ import annotations

import datetime
from collections.abc import Mapping, Sequence
from typing import Any

from millstream.base.clock import Clock
from millstream.base.errors import SourceError
from millstream.connectors.aws_client import AwsClient
from millstream.connectors.aws_properties import AwsProperties
from millstream.connectors.kinesis.aggregated import unpack
from millstream.connectors.kinesis.records import KinesisMessage, RecordDecoder
from millstream.connectors.kinesis.shards import WORDS, stream_argument
from millstream.connectors.patience import Patience
from millstream.connectors.shards.options import ReadOptions
from millstream.connectors.shards.positions import Place, ShardPosition, ShardSplit
from millstream.connectors.shards.reader import ShardAnswer, ShardReader
from millstream.spi.batch import Batch

__all__ = ["KinesisShardReader"]

WHAT = "Kinesis sources and sinks"


class KinesisShardReader(ShardReader[KinesisMessage]):
    """Reads ranges of shards.

    Args:
        properties: Where Kinesis is.
        patience: How long it is waited for.
        options: How shards are read.
        decoder: Makes records.
        bounded: Whether a shard ends where there is nothing more in it.
        clock: What time it is.
    """

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
        super().__init__(options, WORDS, bounded=bounded, clock=clock)
        self._properties = properties
        self._patience = patience
        self._decoder = decoder

    def open(self) -> None:
        """Make the client; it connects with the first range."""
        self._client = AwsClient(
            "kinesis", self._properties, self._patience, SourceError, extra="kinesis", what=WHAT
        )
        self._decoding = self._decoder.opened(self.context, columns=self.wants_columns)

    def decode(self, stream: str, messages: Sequence[KinesisMessage]) -> Batch:
        """Return the records of messages.

        Raises:
            MalformedRecordError: If one does not parse, and that is to fail the job.
        """
        return self._decoding.decode(stream, messages)

    def get_records(
        self, what: str, split: ShardSplit, iterator: str, limit: int, refusals: frozenset[str]
    ) -> ShardAnswer[KinesisMessage]:
        """Ask for records.

        Raises:
            AwsRefusal: If Kinesis answers with one of the codes.
        """
        answer = self._client.call(
            what,
            "get_records",
            refusals=refusals,
            ShardIterator=iterator,
            Limit=limit,
            **({"StreamARN": split.stream} if split.stream.startswith("arn:") else {}),
        )
        return ShardAnswer(
            [(record["SequenceNumber"], _messages(split, record)) for record in answer["Records"]],
            answer.get("NextShardIterator"),
            not answer.get("MillisBehindLatest", 0),
            sum(len(record["Data"]) for record in answer["Records"]),
        )

    def new_iterator(
        self, what: str, split: ShardSplit, position: ShardPosition, refusals: frozenset[str]
    ) -> tuple[str, int]:
        """Ask for an iterator at a position.

        Raises:
            AwsRefusal: If Kinesis answers with one of the codes.
        """
        answer = self._client.call(
            what,
            "get_shard_iterator",
            refusals=refusals,
            ShardId=split.shard_id,
            **stream_argument(split.stream),
            **_iterator_arguments(position),
        )
        return answer["ShardIterator"], 0


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
