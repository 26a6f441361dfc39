"""Shards of a table's stream.

DynamoDB closes a shard after some hours, and when the table is spread over more partitions; its children go on.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from millstream.base.errors import ConfigurationError
from millstream.connectors.aws_client import AwsClient, AwsRefusal, answered_ms
from millstream.connectors.shards.listing import StreamListing, StreamWords

__all__ = ["WORDS", "AssignInTurn", "DynamoDbShard", "DynamoDbStreams"]

WORDS = StreamWords(
    stream="DynamoDB stream",
    shard="DynamoDB shard",
    forgets="DynamoDB forgets the records of streams after 24 hours.",
    prevent="A job must not stand still for so long.",
    missing="Check the ARN, the region and the account; the table's newest stream is its LatestStreamArn.",
)
_NOT_FOUND = frozenset({"ResourceNotFoundException"})
_WITH_NEW_IMAGES = ("NEW_IMAGE", "NEW_AND_OLD_IMAGES")


@dataclass(frozen=True, slots=True)
class DynamoDbShard:
    """A shard.

    Attributes:
        stream: The stream's ARN.
        shard_id: Its name in the stream.
        parents: The shard that it follows, if any.
        closed: Whether nothing will be put into it any more.
    """

    stream: str
    shard_id: str
    parents: tuple[str, ...] = ()
    closed: bool = False

    @property
    def split_id(self) -> str:
        """Its name in the source."""
        return f"{self.stream}/{self.shard_id}"

    @staticmethod
    def of(stream: str, told: dict[str, Any]) -> DynamoDbShard:
        """Return the shard that DynamoDB tells of."""
        parent = told.get("ParentShardId")
        return DynamoDbShard(
            stream,
            told["ShardId"],
            (parent,) if parent else (),
            told["SequenceNumberRange"].get("EndingSequenceNumber") is not None,
        )


class AssignInTurn:
    """Gives shards to subtasks in turn, as they come; remembers which it gave. Lives on the driver."""

    def __init__(self) -> None:
        self._numbers: dict[str, int] = {}

    def __call__(self, shard: DynamoDbShard, subtasks: int) -> int:
        """Return the shard's number."""
        return self._numbers.setdefault(shard.split_id, len(self._numbers))


class DynamoDbStreams:
    """Asks DynamoDB for shards.

    Args:
        client: Of the service `dynamodbstreams`.
        needs_new_images: Whether the stream has to hold new images.
    """

    def __init__(self, client: AwsClient, *, needs_new_images: bool) -> None:
        self._client = client
        self._needs_new_images = needs_new_images

    def list(self, stream: str) -> StreamListing[DynamoDbShard] | None:
        """Return what is known of a stream; None if there is no such stream.

        Raises:
            SourceError: If DynamoDB refuses it, or stays away.
            ConfigurationError: If it does not hold what is needed of it.
        """
        what = f'listing the shards of stream "{stream}"'
        shards: list[DynamoDbShard] = []
        first: dict[str, Any] = {}
        more: dict[str, str] | None = {}
        try:
            while more is not None:
                answer = self._client.call(
                    what, "describe_stream", refusals=_NOT_FOUND, StreamArn=stream, **more
                )
                described = answer["StreamDescription"]
                first = first or answer
                shards += [DynamoDbShard.of(stream, told) for told in described["Shards"]]
                last = described.get("LastEvaluatedShardId")
                more = {"ExclusiveStartShardId": last} if last else None
        except AwsRefusal:
            return None
        self._check_view(stream, first["StreamDescription"].get("StreamViewType", ""))
        return StreamListing(first["StreamDescription"]["StreamLabel"], tuple(shards), answered_ms(first))

    def latest(self, shard: DynamoDbShard) -> str:
        """Return an iterator behind the last record of a shard; it lives for 15 minutes.

        Raises:
            SourceError: If DynamoDB refuses it, or stays away.
        """
        answer = self._client.call(
            f'looking for the end of shard "{shard.shard_id}"',
            "get_shard_iterator",
            StreamArn=shard.stream,
            ShardId=shard.shard_id,
            ShardIteratorType="LATEST",
        )
        iterator: str = answer["ShardIterator"]
        return iterator

    def gone(self, stream: str, shard_id: str) -> DynamoDbShard:
        """Return what is left of a shard that DynamoDB does not list any more."""
        return DynamoDbShard(stream, shard_id, closed=True)

    def _check_view(self, stream: str, view: str) -> None:
        if self._needs_new_images and view not in _WITH_NEW_IMAGES:
            raise ConfigurationError(
                f'the DynamoDB stream "{stream}" holds {view or "nothing"}: no rows can be made of it',
                detail=f"Rows are made of {' or '.join(_WITH_NEW_IMAGES)}.",
                hint="Set the table's StreamViewType, or set_deserialization_schema(...) with a schema of your own.",
            )
