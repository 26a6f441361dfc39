"""Shards of Kinesis, and which subtask reads them."""

from __future__ import annotations

import zlib
from abc import ABC
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from millstream.base.errors import ConfigurationError, NotSupportedError
from millstream.connectors.aws_client import AwsClient, AwsRefusal, answered_ms
from millstream.connectors.shards.listing import StreamListing, StreamWords

__all__ = ["WORDS", "KinesisShard", "KinesisShardAssigner", "KinesisStreams", "stream_argument"]

WORDS = StreamWords(
    stream="Kinesis stream",
    shard="Kinesis shard",
    forgets="Kinesis forgets a closed shard when its records are older than the stream's retention.",
    prevent="Keep records longer than the job may stand still (RetentionPeriodHours).",
    missing="Check its name, the region and the account, or make it before the job starts.",
)
_NOT_FOUND = frozenset({"ResourceNotFoundException"})
_HASH_KEYS = 1 << 128


@dataclass(frozen=True, slots=True)
class KinesisShard:
    """A shard, as shard assigners see it.

    Attributes:
        stream: The stream's name or ARN.
        shard_id: Its name in the stream.
        parents: The shards that it was split from, or merged of.
        starting_hash_key: The first hash key whose records it takes.
        ending_hash_key: The last one.
        closed: Whether nothing will be put into it any more.

    Example:
        >>> from millstream.datastream.connectors.kinesis import KinesisShard
        >>> KinesisShard("orders", "shardId-000000000000").closed
        False
    """

    stream: str
    shard_id: str
    parents: tuple[str, ...] = ()
    starting_hash_key: int = 0
    ending_hash_key: int = _HASH_KEYS - 1
    closed: bool = False

    @property
    def split_id(self) -> str:
        """Its name in the source."""
        return f"{self.stream}/{self.shard_id}"

    @staticmethod
    def of(stream: str, told: dict[str, Any]) -> KinesisShard:
        """Return the shard that Kinesis tells of."""
        parents = (told.get("ParentShardId"), told.get("AdjacentParentShardId"))
        keys = told["HashKeyRange"]
        return KinesisShard(
            stream,
            told["ShardId"],
            tuple(parent for parent in parents if parent),
            int(keys["StartingHashKey"]),
            int(keys["EndingHashKey"]),
            told["SequenceNumberRange"].get("EndingSequenceNumber") is not None,
        )


class KinesisShardAssigner(ABC):
    """Says which subtask reads a shard; one of your own is derived from it, and implements `assign`.

    Example:
        >>> from millstream.datastream.connectors.kinesis import KinesisShard, KinesisShardAssigner
        >>> class ByNumber(KinesisShardAssigner):
        ...     def assign(self, shard, number_of_parallel_subtasks):
        ...         return int(shard.shard_id[-12:]) % number_of_parallel_subtasks
        >>> ByNumber().assign(KinesisShard("orders", "shardId-000000000005"), 4)
        1
    """

    def __init__(self, j_kinesis_shard_assigner: Any = None) -> None:
        if j_kinesis_shard_assigner is not None:
            raise NotSupportedError(
                "a KinesisShardAssigner was given an object of a JVM",
                hint="Derive a class, and implement assign.",
            )

    def assign(self, shard: KinesisShard, number_of_parallel_subtasks: int) -> int:
        """Return a number for a shard: the subtask is this number modulo the number of subtasks.

        Called on the driver, with every plan; the same shard has to get the same number.
        """
        raise NotImplementedError(
            f"{type(self).__name__} does not override assign(shard, number_of_parallel_subtasks)"
        )

    @staticmethod
    def default_shard_assigner() -> KinesisShardAssigner:
        """Shards of a stream in turn, by the numbers in their names."""
        return _InTurn()

    @staticmethod
    def uniform_shard_assigner() -> KinesisShardAssigner:
        """By hash keys: each subtask reads about as large a part of them, also behind splits and merges."""
        return _Uniform()


class _InTurn(KinesisShardAssigner):
    def assign(self, shard: KinesisShard, number_of_parallel_subtasks: int) -> int:
        digits = "".join(filter(str.isdigit, shard.shard_id))
        return zlib.crc32(shard.stream.encode()) + int(digits or "0")


class _Uniform(KinesisShardAssigner):
    def assign(self, shard: KinesisShard, number_of_parallel_subtasks: int) -> int:
        middle = (shard.starting_hash_key + shard.ending_hash_key) // 2
        return zlib.crc32(shard.stream.encode()) + middle * number_of_parallel_subtasks // _HASH_KEYS


class FunctionAssigner(KinesisShardAssigner):
    """A function as an assigner."""

    def __init__(self, function: Callable[[KinesisShard, int], int]) -> None:
        super().__init__()
        self._function = function

    def assign(self, shard: KinesisShard, number_of_parallel_subtasks: int) -> int:
        """Ask the function."""
        return self._function(shard, number_of_parallel_subtasks)


def assigner_of(assigner: Any) -> KinesisShardAssigner:
    """Return an assigner, of a function too.

    Raises:
        ConfigurationError: If it is neither.
    """
    if isinstance(assigner, KinesisShardAssigner):
        return assigner
    if callable(assigner):
        return FunctionAssigner(assigner)
    raise ConfigurationError(
        f"{type(assigner).__name__} is no KinesisShardAssigner, and no function of a shard and the number of subtasks"
    )


def stream_argument(stream: str) -> dict[str, Any]:
    """Return how a stream is named to boto3: by its name or its ARN."""
    return {"StreamARN" if stream.startswith("arn:") else "StreamName": stream}


class KinesisStreams:
    """Asks Kinesis for shards."""

    def __init__(self, client: AwsClient) -> None:
        self._client = client

    def list(self, stream: str) -> StreamListing[KinesisShard] | None:
        """Return what is known of a stream; None if there is no such stream.

        Raises:
            SourceError: If Kinesis refuses it, or stays away.
        """
        what = f'listing the shards of stream "{stream}"'
        try:
            described = self._client.call(
                what, "describe_stream_summary", refusals=_NOT_FOUND, **stream_argument(stream)
            )
            summary = described["StreamDescriptionSummary"]
            shards: list[KinesisShard] = []
            more = stream_argument(stream)
            while more:
                answer = self._client.call(what, "list_shards", refusals=_NOT_FOUND, **more)
                shards += [KinesisShard.of(stream, told) for told in answer["Shards"]]
                more = {"NextToken": answer["NextToken"]} if answer.get("NextToken") else {}
        except AwsRefusal:
            return None
        created = str(int(summary["StreamCreationTimestamp"].timestamp() * 1_000))
        return StreamListing(created, tuple(shards), answered_ms(described))

    def latest(self, shard: KinesisShard) -> str:
        """Return an iterator behind the last record of a shard; it lives for five minutes.

        Raises:
            SourceError: If Kinesis refuses it, or stays away.
        """
        answer = self._client.call(
            f'looking for the end of shard "{shard.split_id}"',
            "get_shard_iterator",
            ShardId=shard.shard_id,
            ShardIteratorType="LATEST",
            **stream_argument(shard.stream),
        )
        iterator: str = answer["ShardIterator"]
        return iterator

    def gone(self, stream: str, shard_id: str) -> KinesisShard:
        """Return what is left of a shard that Kinesis does not list any more."""
        return KinesisShard(stream, shard_id, closed=True)
