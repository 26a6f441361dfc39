"""The sink of a table (Java Flink's `DynamoDbSink`)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from millstream.base.errors import ConfigurationError, SinkError, shorten
from millstream.connectors.aws_client import AwsClient, AwsRefusal
from millstream.connectors.aws_properties import AwsProperties
from millstream.connectors.aws_sinks import AwsSinkBuilder, SendingWriter
from millstream.connectors.batches import BatchLimits, BatchSender, Refused
from millstream.connectors.dynamodb.connection import (
    TableKeys,
    check_table_name,
    describe_keys,
    dynamodb_client,
)
from millstream.connectors.dynamodb.requests import ElementConverter, KeyOfItem, convert, encode, request_of
from millstream.connectors.dynamodb.values import Attributes, size_of_item
from millstream.connectors.patience import Patience
from millstream.spi.sink import Sink, SinkWriter, WriterContext

__all__ = ["DynamoDbSink", "DynamoDbSinkBuilder"]

_MOST_RECORDS = 25
_MOST_BYTES = 16 << 20
_MOST_RECORD_BYTES = 400 << 10
_Request = dict[str, Any]


@dataclass(frozen=True, slots=True)
class DynamoDbSink(Sink):
    """Puts items into a table, and deletes some, at least once and once by key; made by `DynamoDbSink.builder()`.

    DynamoDB has taken all writes of an epoch before the epoch's checkpoint, those of one key in their order.

    Example:
        >>> from millstream.datastream.connectors.dynamodb import DynamoDbSink
        >>> builder = DynamoDbSink.builder().set_table_name("totals").set_overwrite_by_partition_keys(["shop"])
        >>> sink = builder.set_dynamo_db_properties({"aws.region": "eu-west-1"}).build()  # stream.sink_to(sink)
    """

    _table: str
    _converter: ElementConverter = field(repr=False)
    _keys: tuple[str, ...]
    _properties: AwsProperties
    _limits: BatchLimits
    _fail_on_error: bool
    _patience: Patience

    @staticmethod
    def builder() -> DynamoDbSinkBuilder:
        """Return a builder."""
        return DynamoDbSinkBuilder()

    def check(self) -> None:
        """See whether the table is there, and has the keys that were named; passed over where nobody may ask for that.

        Raises:
            SinkError: If DynamoDB does not answer, or has no such table.
            ConfigurationError: If its keys are others.
        """
        self._find_keys(self._client(1))

    def build_writer(self, context: WriterContext) -> SinkWriter:
        """Make the writer of one subtask."""
        return _Writer(self)

    def _client(self, connections: int) -> AwsClient:
        return dynamodb_client(self._properties, self._patience, SinkError, connections=connections)

    def _find_keys(self, client: AwsClient) -> TableKeys | None:
        """Return the keys of the table, or those that were named; None if neither is known."""
        keys = describe_keys(client, self._table)
        if keys is None:
            return TableKeys(self._keys) if self._keys else None
        if self._keys and set(self._keys) != set(keys.names):
            raise ConfigurationError(
                f'the keys of table "{self._table}" are {", ".join(keys.names)}, not {", ".join(self._keys)}',
                detail="DynamoDB takes no two writes of one key in a batch.",
                hint="Leave set_overwrite_by_partition_keys out: the table's own keys are taken.",
            )
        return keys


class DynamoDbSinkBuilder(AwsSinkBuilder):
    """Builds a `DynamoDbSink`; each method returns the builder.

    Example:
        >>> from millstream.datastream.connectors.dynamodb import DynamoDbSink, DynamoDbWriteRequest
        >>> def write(total):
        ...     if total["cents"] == 0:
        ...         return DynamoDbWriteRequest.delete({"shop": total["shop"]})
        ...     return DynamoDbWriteRequest.put(total)
        >>> builder = DynamoDbSink.builder().set_table_name("totals").set_element_converter(write)
        >>> sink = builder.set_dynamo_db_properties({"aws.region": "eu-west-1"}).build()
    """

    def __init__(self) -> None:
        super().__init__(BatchLimits(_MOST_RECORDS, 50, 10_000, _MOST_BYTES, 5_000, _MOST_RECORD_BYTES))
        self._table: str | None = None
        self._converter: ElementConverter = request_of
        self._keys: tuple[str, ...] = ()

    def set_table_name(self, table_name: str) -> DynamoDbSinkBuilder:
        """Name the table, or give its ARN.

        Raises:
            ConfigurationError: If it is no name.
        """
        self._table = check_table_name(table_name)
        return self

    def set_element_converter(self, element_converter: ElementConverter) -> DynamoDbSinkBuilder:
        """Choose what is written of a record; by default dicts and Rows are put, Rows of the kind DELETE deleted.

        Args:
            element_converter: A function of the record. It returns a `DynamoDbWriteRequest`, a dict or Row as by
                default, or None for nothing.

        Raises:
            ConfigurationError: If it is no function.
        """
        if not callable(element_converter):
            raise ConfigurationError(f"{shorten(element_converter)} is no function of a record")
        self._converter = element_converter
        return self

    def set_overwrite_by_partition_keys(
        self, overwrite_by_partition_keys: Sequence[str]
    ) -> DynamoDbSinkBuilder:
        """Name the table's key attributes; needed only where nobody may ask for them (`dynamodb:DescribeTable`).

        Raises:
            ConfigurationError: If it is a text, or one of them is no name.
        """
        keys = overwrite_by_partition_keys
        if isinstance(keys, str) or not all(isinstance(key, str) and key for key in keys):
            raise ConfigurationError(f"{shorten(keys)} is no list of names", hint='["id"]')
        self._keys = tuple(keys)
        return self

    def set_dynamo_db_properties(self, properties: Mapping[str, Any]) -> DynamoDbSinkBuilder:
        """Set Flink's properties: region, endpoint, credentials."""
        self._properties = AwsProperties(properties)
        return self

    def build(self) -> DynamoDbSink:
        """Return the sink.

        Raises:
            ConfigurationError: If table or region are missing, or a limit does not fit.
        """
        if self._table is None:
            raise ConfigurationError("the DynamoDB sink has no table", hint='set_table_name("totals").')
        self._properties.check()
        self._limits.check(batch_size=_MOST_RECORDS, batch_bytes=_MOST_BYTES, record_bytes=_MOST_RECORD_BYTES)
        return DynamoDbSink(
            self._table,
            self._converter,
            self._keys,
            self._properties,
            self._limits,
            self._fail_on_error,
            self._patience,
        )


class _Writer(SendingWriter[_Request]):
    def __init__(self, sink: DynamoDbSink) -> None:
        self._sink = sink

    def open(self) -> None:
        sink = self._sink
        self._client = sink._client(sink._limits.max_in_flight_requests)
        self._keys = sink._find_keys(self._client)
        self._what = f'writing items into table "{sink._table}"'
        self._sender = BatchSender(
            sink._limits,
            self._send,
            patience=sink._patience,
            give_up=lambda reason: self._client.explain(self._what, reason.partition(":")[0], reason),
            fail_on_error=sink._fail_on_error,
        )

    def entry(self, value: Any) -> tuple[_Request, int, KeyOfItem | None] | None:
        sink = self._sink
        request = convert(sink._converter, value)
        if request is None:
            return None
        encoded, held, key = encode(request, self._keys)
        size = size_of_item(held)
        if size > sink._limits.max_record_size_in_bytes:
            raise _too_large(held, size, sink._limits.max_record_size_in_bytes, self._keys)
        return encoded, size, key

    def _send(self, batch: Sequence[_Request]) -> Refused[_Request] | None:
        try:
            answer = self._client.call(
                self._what,
                "batch_write_item",
                refusals=_NOT_VALID,
                RequestItems={self._sink._table: list(batch)},
            )
        except AwsRefusal as refusal:
            raise SinkError(
                f"DynamoDB does not take one of {len(batch)} items, {self._what}: {refusal}",
                detail=f"Service at {self._sink._properties.address}.",
                hint=_HINT if self._keys is None else None,
            ) from None
        left = [request for requests in answer.get("UnprocessedItems", {}).values() for request in requests]
        if not left:
            return None
        reason = f"{_THROTTLED}: {len(left)} of {len(batch)} items were not processed"
        return Refused(left, reason)


_NOT_VALID = frozenset({"ValidationException"})
_HINT = "Name the key attributes by set_overwrite_by_partition_keys([...]), or allow dynamodb:DescribeTable."
_THROTTLED = "ProvisionedThroughputExceededException"


def _too_large(item: Attributes, size: int, most: int, keys: TableKeys | None) -> SinkError:
    shown = {name: item[name] for name in keys.names} if keys is not None else sorted(item)
    return SinkError(
        f"an item of {size} bytes is too large for DynamoDB: {shorten(shown)}",
        detail=f"It may have {most}, names of attributes included.",
        hint="Filter such records, cut them in several, or store them elsewhere and write where they are.",
    )
