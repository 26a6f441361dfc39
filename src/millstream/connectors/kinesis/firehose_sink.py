"""The sink of a delivery stream of Firehose (PyFlink's `KinesisFirehoseSink`)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from millstream.base.errors import ConfigurationError, SinkError
from millstream.connectors.aws_client import AwsClient
from millstream.connectors.aws_properties import AwsProperties
from millstream.connectors.aws_sinks import SendingWriter, check_target
from millstream.connectors.batches import BatchLimits, BatchSender, Refused
from millstream.connectors.kinesis.reader import WHAT
from millstream.connectors.kinesis.sending import SinkBuilder, too_large
from millstream.connectors.patience import Patience
from millstream.spi.serialization import SerializationSchema
from millstream.spi.sink import Sink, SinkWriter, WriterContext

__all__ = ["KinesisFirehoseSink", "KinesisFirehoseSinkBuilder"]

_MOST_RECORDS = 500
_MOST_BYTES = 4 << 20
_MOST_RECORD_BYTES = 1000 << 10


@dataclass(frozen=True, slots=True)
class KinesisFirehoseSink(Sink):
    """Puts a record into a delivery stream for each record, at least once; made by `KinesisFirehoseSink.builder()`.

    Firehose has taken all records of an epoch before the epoch's checkpoint. It puts no separators between records.

    Example:
        >>> from millstream.common import SimpleStringSchema
        >>> from millstream.datastream.connectors.kinesis import KinesisFirehoseSink
        >>> builder = KinesisFirehoseSink.builder().set_delivery_stream_name("archive")
        >>> builder = builder.set_firehose_client_properties({"aws.region": "eu-west-1"})
        >>> sink = builder.set_serialization_schema(SimpleStringSchema()).build()  # stream.sink_to(sink)
    """

    _stream: str
    _schema: SerializationSchema = field(repr=False)
    _properties: AwsProperties
    _limits: BatchLimits
    _fail_on_error: bool
    _patience: Patience

    @staticmethod
    def builder() -> KinesisFirehoseSinkBuilder:
        """Return a builder."""
        return KinesisFirehoseSinkBuilder()

    def check(self) -> None:
        """See whether the delivery stream is there; passed over where nobody may ask for that.

        Raises:
            SinkError: If Firehose does not answer, or has no such delivery stream.
        """
        what = f'looking for delivery stream "{self._stream}"'
        check_target(self._client(1), what, "describe_delivery_stream", DeliveryStreamName=self._stream)

    def build_writer(self, context: WriterContext) -> SinkWriter:
        """Make the writer of one subtask."""
        return _Writer(self)

    def _client(self, connections: int) -> AwsClient:
        return AwsClient(
            "firehose",
            self._properties,
            self._patience,
            SinkError,
            extra="kinesis",
            what=WHAT,
            connections=connections,
        )


class KinesisFirehoseSinkBuilder(SinkBuilder):
    """Builds a `KinesisFirehoseSink`; each method returns the builder.

    Example:
        >>> from millstream.common import SimpleStringSchema
        >>> from millstream.datastream.connectors.kinesis import KinesisFirehoseSink
        >>> builder = KinesisFirehoseSink.builder().set_delivery_stream_name("archive").set_max_batch_size(200)
        >>> builder = builder.set_firehose_client_properties({"aws.region": "eu-west-1"})
        >>> sink = builder.set_serialization_schema(SimpleStringSchema()).build()
    """

    def __init__(self) -> None:
        super().__init__(BatchLimits(_MOST_RECORDS, 50, 10_000, _MOST_BYTES, 5_000, _MOST_RECORD_BYTES))
        self._stream: str | None = None

    def set_delivery_stream_name(self, delivery_stream_name: str) -> KinesisFirehoseSinkBuilder:
        """Name the delivery stream."""
        self._stream = delivery_stream_name
        return self

    def set_firehose_client_properties(
        self, firehose_client_properties: Mapping[str, Any]
    ) -> KinesisFirehoseSinkBuilder:
        """Set Flink's properties: region, endpoint, credentials."""
        self._properties = AwsProperties(firehose_client_properties)
        return self

    def build(self) -> KinesisFirehoseSink:
        """Return the sink.

        Raises:
            ConfigurationError: If delivery stream, schema or region are missing, or a limit does not fit.
        """
        if not self._stream:
            raise ConfigurationError(
                "the Firehose sink has no delivery stream", hint='set_delivery_stream_name("clicks").'
            )
        schema, limits = self._checked(
            "Firehose", batch_size=_MOST_RECORDS, batch_bytes=_MOST_BYTES, record_bytes=_MOST_RECORD_BYTES
        )
        return KinesisFirehoseSink(
            self._stream, schema, self._properties, limits, self._fail_on_error, self._patience
        )


class _Writer(SendingWriter[bytes]):
    def __init__(self, sink: KinesisFirehoseSink) -> None:
        self._sink = sink

    def open(self) -> None:
        sink = self._sink
        self._client = sink._client(sink._limits.max_in_flight_requests)
        self._what = f'putting records into delivery stream "{sink._stream}"'
        self._sender = BatchSender(
            sink._limits,
            self._send,
            patience=sink._patience,
            give_up=lambda reason: self._client.explain(self._what, reason.partition(":")[0], reason),
            fail_on_error=sink._fail_on_error,
        )

    def entry(self, value: Any) -> tuple[bytes, int, None]:
        data = self._sink._schema.serialize(value)
        most = self._sink._limits.max_record_size_in_bytes
        if len(data) > most:
            raise too_large("Firehose", len(data), most)
        return data, len(data), None

    def _send(self, batch: Sequence[bytes]) -> Refused[bytes] | None:
        answer = self._client.call(
            self._what,
            "put_record_batch",
            DeliveryStreamName=self._sink._stream,
            Records=[{"Data": data} for data in batch],
        )
        if not answer.get("FailedPutCount"):
            return None
        refused = [
            (data, f"{told['ErrorCode']}: {told.get('ErrorMessage', '')}")
            for data, told in zip(batch, answer["RequestResponses"], strict=True)
            if told.get("ErrorCode")
        ]
        return Refused([data for data, _ in refused], refused[0][1])
