"""The source of the changes of a table (Java Flink's `DynamoDbStreamsSource`)."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from millstream.base.errors import ConfigurationError, SourceError
from millstream.connectors.aws_properties import AwsProperties
from millstream.connectors.dynamodb.connection import dynamodb_client
from millstream.connectors.dynamodb.records import (
    ChangelogRows,
    DynamoDbStreamsDeserializationSchema,
    StreamDecoder,
    check_schema,
)
from millstream.connectors.dynamodb.shards import WORDS, AssignInTurn, DynamoDbStreams
from millstream.connectors.dynamodb.stream_options import check_names, read_options, starting_position
from millstream.connectors.dynamodb.stream_reader import DynamoDbShardReader
from millstream.connectors.messages import MalformedPolicy
from millstream.connectors.patience import Patience
from millstream.connectors.shards.enumerator import ShardEnumerator, StreamsSnapshot
from millstream.connectors.shards.options import ReadOptions
from millstream.connectors.shards.positions import StartingPosition
from millstream.spi.serialization import produced_type_of
from millstream.spi.source import Boundedness, Source, SourceReader, SplitEnumerator
from millstream.types.basic import TypeInformation

__all__ = ["DynamoDbStreamsSource", "DynamoDbStreamsSourceBuilder"]


@dataclass(frozen=True, slots=True)
class DynamoDbStreamsSource(Source):
    """The changes of a table, each exactly once: where each shard of its stream was left is in checkpoints.

    A shard is read by one subtask, in order, and after the one that it follows: changes of one item stay in order. A
    record's event time is when the change was made. Made by `DynamoDbStreamsSource.builder()`.

    Example:
        >>> from millstream.datastream.connectors.dynamodb import DynamoDbStreamsSource
        >>> arn = "arn:aws:dynamodb:eu-west-1:123456789012:table/orders/stream/2024-01-01T00:00:00.000"
        >>> builder = DynamoDbStreamsSource.builder().set_stream_arn(arn)
        >>> changes = builder.set_source_config({"aws.region": "eu-west-1"}).build()
    """

    _stream: str
    _properties: AwsProperties
    _decoder: StreamDecoder = field(repr=False)
    _start: StartingPosition
    _options: ReadOptions
    _boundedness: Boundedness
    _patience: Patience

    @staticmethod
    def builder() -> DynamoDbStreamsSourceBuilder:
        """Return a builder."""
        return DynamoDbStreamsSourceBuilder()

    def get_boundedness(self) -> Boundedness:
        """Return whether it was built to end."""
        return self._boundedness

    def get_produced_type(self) -> TypeInformation | None:
        """Return the type of the records, as far as the schema tells it."""
        return produced_type_of(self._decoder.schema)

    def build_enumerator(self, parallelism: int, restored: StreamsSnapshot | None) -> SplitEnumerator:
        """List the shards.

        Raises:
            SourceError: If DynamoDB does not answer, or has no such stream.
            ConfigurationError: If the stream does not hold what the schema needs.
        """
        client = dynamodb_client(self._properties, self._patience, SourceError, service="dynamodbstreams")
        return ShardEnumerator(
            DynamoDbStreams(client, needs_new_images=isinstance(self._decoder.schema, ChangelogRows)),
            (self._stream,),
            start=self._start,
            assigner=AssignInTurn(),
            options=self._options,
            bounded=self._is_bounded,
            address=self._properties.address,
            words=WORDS,
            restored=restored,
        )

    def build_reader(self, subtask_index: int, parallelism: int) -> SourceReader:
        """Make the reader of one subtask."""
        return DynamoDbShardReader(
            self._properties, self._patience, self._options, self._decoder, bounded=self._is_bounded
        )

    @property
    def _is_bounded(self) -> bool:
        return self._boundedness is Boundedness.BOUNDED


class DynamoDbStreamsSourceBuilder:
    """Builds a `DynamoDbStreamsSource`; each method returns the builder.

    Example:
        >>> from millstream.datastream.connectors.dynamodb import ChangelogRows, DynamoDbStreamsSource
        >>> arn = "arn:aws:dynamodb:eu-west-1:123456789012:table/orders/stream/2024-01-01T00:00:00.000"
        >>> builder = DynamoDbStreamsSource.builder().set_stream_arn(arn).set_bounded()
        >>> builder = builder.set_deserialization_schema(ChangelogRows("id", "cents"))
        >>> changes = builder.set_source_config({"aws.region": "eu-west-1"}).build()
    """

    def __init__(self) -> None:
        self._stream: str | None = None
        self._properties = AwsProperties()
        self._schema: DynamoDbStreamsDeserializationSchema = ChangelogRows()
        self._policy = MalformedPolicy.fail()
        self._boundedness = Boundedness.CONTINUOUS_UNBOUNDED
        self._patience = Patience()

    def set_stream_arn(self, stream_arn: str) -> DynamoDbStreamsSourceBuilder:
        """Name the stream by its ARN: the table's `LatestStreamArn`.

        Raises:
            ConfigurationError: If it is no ARN.
        """
        if not isinstance(stream_arn, str) or not stream_arn.startswith("arn:"):
            raise ConfigurationError(
                f"{stream_arn!r} is no ARN of a stream",
                hint="It is the LatestStreamArn of the table: arn:aws:dynamodb:REGION:ACCOUNT:table/NAME/stream/TIME.",
            )
        self._stream = stream_arn
        return self

    def set_source_config(self, properties: Mapping[str, Any]) -> DynamoDbStreamsSourceBuilder:
        """Set Flink's properties: region, credentials, where to begin, how shards are read."""
        self._properties = AwsProperties(properties)
        return self

    def set_deserialization_schema(
        self, schema: DynamoDbStreamsDeserializationSchema
    ) -> DynamoDbStreamsSourceBuilder:
        """Choose the schema that makes values of changes; by default Rows with their kinds, `ChangelogRows()`.

        Raises:
            ConfigurationError: If it is no schema.
        """
        self._schema = check_schema(schema)
        return self

    def set_malformed_policy(self, policy: MalformedPolicy) -> DynamoDbStreamsSourceBuilder:
        """Choose what becomes of changes that the schema cannot read; by default the job fails."""
        self._policy = policy
        return self

    def set_bounded(self) -> DynamoDbStreamsSourceBuilder:
        """Have each shard end where five answers in a row are empty; shards that come later are not read."""
        self._boundedness = Boundedness.BOUNDED
        return self

    def set_patience(self, patience: Patience) -> DynamoDbStreamsSourceBuilder:
        """Choose how long DynamoDB is waited for when it is away."""
        self._patience = patience
        return self

    def build(self) -> DynamoDbStreamsSource:
        """Return the source.

        Raises:
            ConfigurationError: If stream or region are missing, or a property does not fit.
        """
        if self._stream is None:
            raise ConfigurationError(
                "the DynamoDB source has no stream", hint="set_stream_arn(...): the table's LatestStreamArn."
            )
        self._properties.check()
        check_names(self._properties)
        return DynamoDbStreamsSource(
            self._stream,
            self._properties,
            StreamDecoder(self._schema, self._policy),
            starting_position(self._properties),
            read_options(self._properties),
            self._boundedness,
            self._patience,
        )
