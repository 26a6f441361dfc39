"""The sink of a Kinesis stream (PyFlink's `KinesisStreamsSink`)."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from millstream.base.errors import ConfigurationError, SinkError
from millstream.connectors.aws_client import AwsClient
from millstream.connectors.aws_properties import AwsProperties
from millstream.connectors.aws_sinks import SendingWriter, check_target
from millstream.connectors.batches import BatchLimits, BatchSender, Refused
from millstream.connectors.kinesis.partition_keys import PartitionKeyGenerator, check_key, generator_of
from millstream.connectors.kinesis.reader import WHAT
from millstream.connectors.kinesis.sending import SinkBuilder, too_large
from millstream.connectors.kinesis.shards import stream_argument
from millstream.connectors.patience import Patience
from millstream.spi.serialization import SerializationSchema
from millstream.spi.sink import Sink, SinkWriter, WriterContext

__all__ = ["KinesisStreamsSink", "KinesisStreamsSinkBuilder"]

_MOST_RECORDS = 500
_MOST_BYTES = 5 << 20
_MOST_RECORD_BYTES = 1 << 20
_Record = dict[str, Any]


@dataclass(frozen=True, slots=True)
class KinesisStreamsSink(Sink):
    """Puts a record into a stream for each record, at least once; made by `KinesisStreamsSink.builder()`.

    Kinesis has taken all records of an epoch before the epoch's checkpoint.

    Example:
        >>> from millstream.common import SimpleStringSchema
        >>> from millstream.datastream.connectors.kinesis import KinesisStreamsSink
        >>> builder = KinesisStreamsSink.builder().set_stream_name("totals")
        >>> builder = builder.set_partition_key_generator(lambda total: total.split()[0])
        >>> builder = builder.set_kinesis_client_properties({"aws.region": "eu-west-1"})
        >>> sink = builder.set_serialization_schema(SimpleStringSchema()).build()  # stream.sink_to(sink)
    """

    _stream: str
    _schema: SerializationSchema = field(repr=False)
    _keys: PartitionKeyGenerator = field(repr=False)
    _properties: AwsProperties
    _limits: BatchLimits
    _fail_on_error: bool
    _patience: Patience

    @staticmethod
    def builder() -> KinesisStreamsSinkBuilder:
        """Return a builder."""
        return KinesisStreamsSinkBuilder()

    def check(self) -> None:
        """See whether the stream is there; passed over where nobody may ask for that.

        Raises:
            SinkError: If Kinesis does not answer, or has no such stream.
        """
        what = f'looking for stream "{self._stream}"'
        check_target(self._client(1), what, "describe_stream_summary", **stream_argument(self._stream))

    def build_writer(self, context: WriterContext) -> SinkWriter:
        """Make the writer of one subtask."""
        return _Writer(self, context.subtask_index)

    def _client(self, connections: int) -> AwsClient:
        return AwsClient(
            "kinesis",
            self._properties,
            self._patience,
            SinkError,
            extra="kinesis",
            what=WHAT,
            connections=connections,
        )


class KinesisStreamsSinkBuilder(SinkBuilder):
    """Builds a `KinesisStreamsSink`; each method returns the builder.

    Example:
        >>> from millstream.common import SimpleStringSchema
        >>> from millstream.datastream.connectors.kinesis import KinesisStreamsSink, PartitionKeyGenerator
        >>> builder = KinesisStreamsSink.builder().set_stream_name("totals").set_max_batch_size(200)
        >>> builder = builder.set_partition_key_generator(PartitionKeyGenerator.random())
        >>> builder = builder.set_kinesis_client_properties({"aws.region": "eu-west-1"})
        >>> sink = builder.set_serialization_schema(SimpleStringSchema()).build()
    """

    def __init__(self) -> None:
        super().__init__(BatchLimits(_MOST_RECORDS, 50, 10_000, _MOST_BYTES, 5_000, _MOST_RECORD_BYTES))
        self._stream: str | None = None
        self._keys: PartitionKeyGenerator | None = None

    def set_stream_name(self, stream_name: str) -> KinesisStreamsSinkBuilder:
        """Name the stream, or give its ARN."""
        self._stream = stream_name
        return self

    def set_partition_key_generator(
        self, partition_key_generator: PartitionKeyGenerator | Callable[[Any], str]
    ) -> KinesisStreamsSinkBuilder:
        """Choose how a record gets its partition key: a generator, or a function of the record.

        Raises:
            ConfigurationError: If it is neither.
        """
        self._keys = generator_of(partition_key_generator)
        return self

    def set_kinesis_client_properties(
        self, kinesis_client_properties: Mapping[str, Any]
    ) -> KinesisStreamsSinkBuilder:
        """Set Flink's properties: region, endpoint, credentials."""
        self._properties = AwsProperties(kinesis_client_properties)
        return self

    def build(self) -> KinesisStreamsSink:
        """Return the sink.

        Raises:
            ConfigurationError: If stream, schema, partition keys or region are missing, or a limit does not fit.
        """
        if not self._stream:
            raise ConfigurationError("the Kinesis sink has no stream", hint='set_stream_name("clicks").')
        if self._keys is None:
            raise ConfigurationError(
                "the Kinesis sink has no partition keys",
                hint="set_partition_key_generator(PartitionKeyGenerator.random()), or a function of the record.",
            )
        schema, limits = self._checked(
            "Kinesis", batch_size=_MOST_RECORDS, batch_bytes=_MOST_BYTES, record_bytes=_MOST_RECORD_BYTES
        )
        return KinesisStreamsSink(
            self._stream, schema, self._keys, self._properties, limits, self._fail_on_error, self._patience
        )


class _Writer(SendingWriter[_Record]):
    def __init__(self, sink: KinesisStreamsSink, subtask_index: int) -> None:
        self._sink = sink
        self._subtask_index = subtask_index

    def open(self) -> None:
        sink = self._sink
        sink._keys.open(self._subtask_index)
        self._client = sink._client(sink._limits.max_in_flight_requests)
        self._what = f'putting records into stream "{sink._stream}"'
        self._sender = BatchSender(
            sink._limits,
            self._send,
            patience=sink._patience,
            give_up=lambda reason: self._client.explain(self._what, reason.partition(":")[0], reason),
            fail_on_error=sink._fail_on_error,
        )

    def entry(self, value: Any) -> tuple[_Record, int, None]:
        data = self._sink._schema.serialize(value)
        key = check_key(self._sink._keys.apply(value))
        size = len(data) + len(key.encode())
        most = self._sink._limits.max_record_size_in_bytes
        if size > most:
            raise too_large("Kinesis", size, most)
        return {"Data": data, "PartitionKey": key}, size, None

    def _send(self, batch: Sequence[_Record]) -> Refused[_Record] | None:
        answer = self._client.call(
            self._what, "put_records", Records=list(batch), **stream_argument(self._sink._stream)
        )
        if not answer.get("FailedRecordCount"):
            return None
        refused = [
            (record, f"{told['ErrorCode']}: {told.get('ErrorMessage', '')}")
            for record, told in zip(batch, answer["Records"], strict=True)
            if told.get("ErrorCode")
        ]
        return Refused([record for record, _ in refused], refused[0][1])
