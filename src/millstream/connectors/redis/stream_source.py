"""The source of Redis streams."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from millstream.base.errors import ConfigurationError, SourceError
from millstream.connectors.redis.connection import RedisClient, RedisConnection
from millstream.connectors.redis.entries import EntryDecoder, FieldDecoder, MapDecoder, RowDecoder
from millstream.connectors.redis.offsets import RedisOffsetsInitializer
from millstream.connectors.redis.stream_reader import StreamReader
from millstream.connectors.redis.stream_splits import StreamEnumerator
from millstream.connectors.stream_builder import StreamSourceBuilder
from millstream.spi.serialization import DeserializationSchema
from millstream.spi.source import Boundedness, Source, SourceReader, SplitEnumerator
from millstream.types.basic import TypeInformation

__all__ = ["RedisStreamSource", "RedisStreamSourceBuilder"]


@dataclass(frozen=True, slots=True)
class RedisStreamSource(Source):
    """The entries of Redis streams, each exactly once: where reading stands is an id, kept in checkpoints.

    Each stream is a split, read in order by one subtask; consumer groups are not used. An entry's event time is that of
    its id. Made by `RedisStreamSource.builder()`.

    Example:
        >>> from millstream.common import Types
        >>> from millstream.datastream.connectors.redis import RedisOffsetsInitializer, RedisStreamSource
        >>> source = (
        ...     RedisStreamSource.builder()
        ...     .set_url("redis://localhost:6379/0")
        ...     .set_streams("orders-north", "orders-south")
        ...     .set_row_type(Types.ROW_NAMED(["shop", "cents"], [Types.STRING(), Types.LONG()]))
        ...     .set_bounded(RedisOffsetsInitializer.latest())
        ...     .build()
        ... )  # env.from_source(source, WatermarkStrategy.for_monotonous_timestamps(), "orders")
    """

    _connection: RedisConnection
    _streams: tuple[str, ...]
    _decoder: EntryDecoder = field(repr=False)
    _start: RedisOffsetsInitializer
    _stop: RedisOffsetsInitializer | None
    _boundedness: Boundedness
    _poll_ms: int
    _fail_on_data_loss: bool

    @staticmethod
    def builder() -> RedisStreamSourceBuilder:
        """Return a builder."""
        return RedisStreamSourceBuilder()

    def get_boundedness(self) -> Boundedness:
        """Return whether it was built to end."""
        return self._boundedness

    def get_produced_type(self) -> TypeInformation | None:
        """Return the type that of the records, as far as the schema tells it."""
        return self._decoder.produced_type()

    def build_enumerator(self, parallelism: int, restored: Any | None) -> SplitEnumerator:
        """Look at the streams.

        Raises:
            SourceError: If the server does not answer, or a stream of a bounded source is not there.
        """
        return StreamEnumerator(
            RedisClient(self._connection, SourceError),
            self._streams,
            parallelism,
            start=self._start,
            stop=self._stop,
            bounded=self._boundedness is Boundedness.BOUNDED,
            poll_ms=self._poll_ms,
            fail_on_data_loss=self._fail_on_data_loss,
            restored=restored,
        )

    def build_reader(self, subtask_index: int, parallelism: int) -> SourceReader:
        """Make the reader of one subtask."""
        return StreamReader(self._connection, self._decoder, fail_on_data_loss=self._fail_on_data_loss)


class RedisStreamSourceBuilder(StreamSourceBuilder[RedisOffsetsInitializer]):
    """Builds a `RedisStreamSource`; each method returns the builder.

    Example:
        >>> from millstream.common import SimpleStringSchema
        >>> from millstream.datastream.connectors.redis import RedisStreamSource
        >>> builder = RedisStreamSource.builder().set_url("redis://localhost:6379/0").set_streams("orders")
        >>> source = builder.set_value_only_deserializer(SimpleStringSchema(), "json").build()
    """

    def __init__(self) -> None:
        super().__init__(RedisOffsetsInitializer.earliest())
        self._url: str | None = None
        self._streams: tuple[str, ...] = ()
        self._decoder: EntryDecoder = MapDecoder()
        self._field: tuple[DeserializationSchema, str] | None = None

    def set_url(self, url: str) -> RedisStreamSourceBuilder:
        """Name the server: `redis://user:password@host:port/database`, or `rediss://` with TLS.

        Raises:
            ConfigurationError: If it is no such URL.
        """
        RedisConnection(url)
        self._url = url
        return self

    def set_streams(self, *streams: str) -> RedisStreamSourceBuilder:
        """Name the streams."""
        self._streams = streams
        return self

    def set_value_only_deserializer(
        self, schema: DeserializationSchema, field_name: str = "value"
    ) -> RedisStreamSourceBuilder:
        """Have records made of one field by a schema; without it a record is a dict of texts, all fields.

        Raises:
            ConfigurationError: If it is no schema.
        """
        FieldDecoder(schema, field_name, self._policy)
        self._field = (schema, field_name)
        return self

    def set_row_type(self, row_type: TypeInformation) -> RedisStreamSourceBuilder:
        """Have records be Rows with the fields of a `Types.ROW_NAMED`; one that an entry has not got is None.

        Raises:
            ConfigurationError: If a field's type is not read from text.
        """
        self._decoder, self._field = RowDecoder(row_type), None
        return self

    def build(self) -> RedisStreamSource:
        """Return the source.

        Raises:
            ConfigurationError: If the URL or the streams are missing, a stream is named twice, or one has no offset.
        """
        if self._url is None:
            raise ConfigurationError("the Redis source has no server", hint="set_url('redis://host:6379/0').")
        if not self._streams or not all(isinstance(stream, str) and stream for stream in self._streams):
            raise ConfigurationError(
                f"the Redis source has the streams {self._streams}", hint="set_streams('name', …)."
            )
        if len(set(self._streams)) < len(self._streams):
            raise ConfigurationError(f"a stream is named twice: {', '.join(self._streams)}")
        for offsets in filter(None, (self._start, self._stop)):
            names = offsets.names()
            missing = [] if names is None else [each for each in self._streams if each not in names]
            if missing:
                raise ConfigurationError(f"no id was given for the streams {', '.join(missing)}")
        return RedisStreamSource(
            RedisConnection(self._url, self._patience),
            self._streams,
            self._decoder if self._field is None else FieldDecoder(*self._field, self._policy),
            self._start,
            self._stop,
            self._boundedness,
            self._poll_ms,
            self._fail_on_data_loss,
        )
