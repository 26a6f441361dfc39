"""Reads shards of a table's stream."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from millstream.base.clock import Clock
from millstream.base.errors import SourceError
from millstream.connectors.aws_properties import AwsProperties
from millstream.connectors.dynamodb.connection import dynamodb_client
from millstream.connectors.dynamodb.records import DynamoDbStreamsRecord, StreamDecoder
from millstream.connectors.dynamodb.shards import WORDS
from millstream.connectors.patience import Patience
from millstream.connectors.shards.options import ReadOptions
from millstream.connectors.shards.positions import Place, ShardPosition, ShardSplit
from millstream.connectors.shards.reader import ShardAnswer, ShardReader
from millstream.spi.batch import Batch

__all__ = ["DynamoDbShardReader"]

_MINUTE_MS = 60_000


class DynamoDbShardReader(ShardReader[DynamoDbStreamsRecord]):
    """Reads ranges of shards.

    Args:
        properties: Where DynamoDB is.
        patience: How long it is waited for.
        options: How shards are read.
        decoder: Makes records.
        bounded: Whether a shard ends where answers stay empty.
        clock: What time it is.
    """

    def __init__(
        self,
        properties: AwsProperties,
        patience: Patience,
        options: ReadOptions,
        decoder: StreamDecoder,
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
        self._client = dynamodb_client(
            self._properties, self._patience, SourceError, service="dynamodbstreams"
        )
        self._decode = self._decoder.opened(self.context)

    def decode(self, stream: str, messages: Sequence[DynamoDbStreamsRecord]) -> Batch:
        """Return the records of changes.

        Raises:
            MalformedRecordError: If one does not parse, and that is to fail the job.
        """
        return self._decode(stream, messages)

    def get_records(
        self, what: str, split: ShardSplit, iterator: str, limit: int, refusals: frozenset[str]
    ) -> ShardAnswer[DynamoDbStreamsRecord]:
        """Ask for records.

        Raises:
            AwsRefusal: If DynamoDB answers with one of the codes.
        """
        answer = self._client.call(
            what, "get_records", refusals=refusals, ShardIterator=iterator, Limit=limit
        )
        records = [DynamoDbStreamsRecord.of(split.stream, split.shard_id, told) for told in answer["Records"]]
        return ShardAnswer(
            [(record.sequence_number, [record]) for record in records],
            answer.get("NextShardIterator"),
            None,
            sum(record.size_bytes for record in records),
        )

    def new_iterator(
        self, what: str, split: ShardSplit, position: ShardPosition, refusals: frozenset[str]
    ) -> tuple[str, int]:
        """Ask for an iterator at a position.

        DynamoDB has none for a time: a shard whose reading began with what was new is read from its beginning, without
        what is from before the minute in which that was: times of changes may be as coarse as that.

        Raises:
            AwsRefusal: If DynamoDB answers with one of the codes.
        """
        arguments: dict[str, Any] = {"ShardIteratorType": "TRIM_HORIZON"}
        if position.place is Place.BEHIND:
            arguments = {
                "ShardIteratorType": "AFTER_SEQUENCE_NUMBER",
                "SequenceNumber": position.sequence,
            }
        answer = self._client.call(
            what,
            "get_shard_iterator",
            refusals=refusals,
            StreamArn=split.stream,
            ShardId=split.shard_id,
            **arguments,
        )
        began_ms = position.timestamp_ms if position.place is Place.LATEST else 0
        return answer["ShardIterator"], began_ms - began_ms % _MINUTE_MS
