"""The source of Kinesis' streams."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from millstream.base.errors import ConfigurationError, SourceError
from millstream.connectors.aws_client import AwsClient
from millstream.connectors.aws_properties import AwsProperties
from millstream.connectors.kinesis.options import check_names, read_options
from millstream.connectors.kinesis.positions import starting_position
from millstream.connectors.kinesis.reader import WHAT, KinesisShardReader
from millstream.connectors.kinesis.records import KinesisDeserializationSchema, RecordDecoder, schema_of
from millstream.connectors.kinesis.shards import (
    WORDS,
    KinesisShard,
    KinesisShardAssigner,
    KinesisStreams,
    assigner_of,
)
from millstream.connectors.messages import MalformedPolicy
from millstream.connectors.patience import Patience
from millstream.connectors.shards.enumerator import ShardEnumerator, StreamsSnapshot
from millstream.connectors.shards.options import ReadOptions
from millstream.connectors.shards.positions import StartingPosition
from millstream.spi.serialization import DeserializationSchema, produced_type_of
from millstream.spi.source import Boundedness, Source, SourceReader, SplitEnumerator
from millstream.types.basic import TypeInformation

__all__ = ["KinesisStreamsSource", "KinesisStreamsSourceBuilder"]


@dataclass(frozen=True, slots=True)
class KinesisStreamsSource(Source):
    """The records of streams, each exactly once: where each shard was left is in checkpoints.

    A shard is read by one subtask, in order, and after the shards that it was split from or merged of. A record's event
    time is when Kinesis stored it. Made by `KinesisStreamsSource.builder()`.

    Example:
        >>> from millstream.common import SimpleStringSchema
        >>> from millstream.datastream.connectors.kinesis import KinesisStreamsSource
        >>> builder = KinesisStreamsSource.builder().set_stream_names("orders")
        >>> builder = builder.set_source_config({"aws.region": "eu-west-1", "flink.stream.initpos": "TRIM_HORIZON"})
        >>> source = builder.set_deserialization_schema(SimpleStringSchema()).build()
    """

    _streams: tuple[str, ...]
    _properties: AwsProperties
    _decoder: RecordDecoder = field(repr=False)
    _start: StartingPosition
    _options: ReadOptions
    _assigner: KinesisShardAssigner
    _boundedness: Boundedness
    _patience: Patience

    @staticmethod
    def builder() -> KinesisStreamsSourceBuilder:
        """Return a builder."""
        return KinesisStreamsSourceBuilder()

    def get_boundedness(self) -> Boundedness:
        """Return whether it was built to end."""
        return self._boundedness

    def get_produced_type(self) -> TypeInformation | None:
        """Return the type that of the records, as far as the schema tells it."""
        return produced_type_of(self._decoder.schema)

    def build_enumerator(self, parallelism: int, restored: StreamsSnapshot | None) -> SplitEnumerator:
        """List the shards.

        Raises:
            SourceError: If Kinesis does not answer, or has no such stream.
        """
        client = AwsClient(
            "kinesis", self._properties, self._patience, SourceError, extra="kinesis", what=WHAT
        )
        return ShardEnumerator(
            KinesisStreams(client),
            self._streams,
            start=self._start,
            assigner=self._assigner.assign,
            options=self._options,
            bounded=self._is_bounded,
            address=self._properties.address,
            words=WORDS,
            restored=restored,
        )

    def build_reader(self, subtask_index: int, parallelism: int) -> SourceReader:
        """Make the reader of one subtask."""
        return KinesisShardReader(
            self._properties, self._patience, self._options, self._decoder, bounded=self._is_bounded
        )

    @property
    def _is_bounded(self) -> bool:
        return self._boundedness is Boundedness.BOUNDED


class KinesisStreamsSourceBuilder:
    """Builds a `KinesisStreamsSource`; each method returns the builder.

    Example:
        >>> from millstream.common import SimpleStringSchema
        >>> from millstream.datastream.connectors.kinesis import KinesisShardAssigner, KinesisStreamsSource
        >>> arn = "arn:aws:kinesis:eu-west-1:123456789012:stream/orders"
        >>> builder = KinesisStreamsSource.builder().set_stream_arn(arn)
        >>> builder = builder.set_kinesis_shard_assigner(KinesisShardAssigner.uniform_shard_assigner()).set_bounded()
        >>> builder = builder.set_source_config({"aws.region": "eu-west-1"})
        >>> source = builder.set_deserialization_schema(SimpleStringSchema()).build()
    """

    def __init__(self) -> None:
        self._streams: tuple[str, ...] = ()
        self._properties = AwsProperties()
        self._schema: DeserializationSchema | None = None
        self._policy = MalformedPolicy.fail()
        self._assigner = KinesisShardAssigner.uniform_shard_assigner()
        self._boundedness = Boundedness.CONTINUOUS_UNBOUNDED
        self._patience = Patience()

    def set_stream_arn(self, stream_arn: str) -> KinesisStreamsSourceBuilder:
        """Name the stream by its ARN."""
        return self.set_stream_names(stream_arn)

    def set_stream_names(self, *stream_names: str) -> KinesisStreamsSourceBuilder:
        """Name the stream, or several.

        Raises:
            ConfigurationError: If one is no name.
        """
        for name in stream_names:
            if not isinstance(name, str) or not name:
                raise ConfigurationError(f"{name!r} is no name of a Kinesis stream")
        self._streams = tuple(dict.fromkeys(stream_names))
        return self

    def set_source_config(self, properties: Mapping[str, Any]) -> KinesisStreamsSourceBuilder:
        """Set Flink's properties: region, credentials, where to begin, how shards are read."""
        self._properties = AwsProperties(properties)
        return self

    def set_deserialization_schema(
        self, schema: DeserializationSchema | KinesisDeserializationSchema
    ) -> KinesisStreamsSourceBuilder:
        """Choose the schema that makes values of records.

        Raises:
            ConfigurationError: If it is no schema.
        """
        self._schema = schema_of(schema)
        return self

    def set_kinesis_shard_assigner(
        self, assigner: KinesisShardAssigner | Callable[[KinesisShard, int], int]
    ) -> KinesisStreamsSourceBuilder:
        """Choose which subtask reads a shard; by default each reads as large a part of the hash keys.

        Raises:
            ConfigurationError: If it is no assigner, and no function.
        """
        self._assigner = assigner_of(assigner)
        return self

    def set_malformed_policy(self, policy: MalformedPolicy) -> KinesisStreamsSourceBuilder:
        """Choose what becomes of records that the schema cannot read; by default the job fails."""
        self._policy = policy
        return self

    def set_bounded(self) -> KinesisStreamsSourceBuilder:
        """Have each shard end where there is nothing more in it; shards that come later are not read."""
        self._boundedness = Boundedness.BOUNDED
        return self

    def set_patience(self, patience: Patience) -> KinesisStreamsSourceBuilder:
        """Choose how long Kinesis is waited for when it is away."""
        self._patience = patience
        return self

    def build(self) -> KinesisStreamsSource:
        """Return the source.

        Raises:
            ConfigurationError: If stream, schema or region are missing, or a property does not fit.
            NotSupportedError: If a property asks for what is not there.
        """
        if not self._streams:
            raise ConfigurationError("the Kinesis source has no stream", hint='set_stream_names("clicks").')
        if self._schema is None:
            raise ConfigurationError(
                "the Kinesis source has no schema", hint="set_deserialization_schema(SimpleStringSchema())."
            )
        self._properties.check()
        check_names(self._properties)
        return KinesisStreamsSource(
            self._streams,
            self._properties,
            RecordDecoder(self._schema, self._policy),
            starting_position(self._properties),
            read_options(self._properties),
            self._assigner,
            self._boundedness,
            self._patience,
        )
