"""From records of a table's stream to records of a job."""

from __future__ import annotations

import datetime
import json
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from millstream.base.errors import ConfigurationError, TypeMismatchError, shorten
from millstream.connectors.dynamodb.values import values_of
from millstream.connectors.messages import MalformedPolicy, MessageDecoder
from millstream.spi.batch import Batch
from millstream.spi.serialization import DeserializationSchema
from millstream.spi.source import SourceReaderContext
from millstream.types.basic import TypeInformation
from millstream.types.row import Row, RowKind

__all__ = [
    "ChangelogRows",
    "DynamoDbStreamsDeserializationSchema",
    "DynamoDbStreamsRecord",
    "StreamDecoder",
    "check_schema",
]

_KINDS = {"INSERT": RowKind.INSERT, "MODIFY": RowKind.UPDATE_AFTER, "REMOVE": RowKind.DELETE}


@dataclass(frozen=True, slots=True)
class DynamoDbStreamsRecord:
    """A change of an item.

    Attributes:
        event_name: `INSERT`, `MODIFY` or `REMOVE`.
        keys: The item's key.
        new_image: The item behind the change; None if it was removed, or the stream has no new images.
        old_image: The item before the change; None if it was not there, or the stream has no old images.
        sequence_number: The record's number in its shard.
        arrival_ms: When the change was made, epoch milliseconds, of the second or the minute that had begun.
        event_id: The change, unique.
        size_bytes: How large it is.
        stream: The stream's ARN.
        shard_id: The shard.
        user_identity: Who changed it if that was DynamoDB itself: `{"Type": "Service", "PrincipalId":
            "dynamodb.amazonaws.com"}` where an item's time to live was over.

    Example:
        >>> def removed_cents(change):  # in the `deserialize` of a DynamoDbStreamsDeserializationSchema
        ...     return change.old_image["cents"] if change.event_name == "REMOVE" else 0
    """

    event_name: str
    keys: dict[str, Any]
    new_image: dict[str, Any] | None
    old_image: dict[str, Any] | None
    sequence_number: str
    arrival_ms: int
    event_id: str = field(repr=False)
    size_bytes: int = field(repr=False)
    stream: str = field(repr=False)
    shard_id: str = field(repr=False)
    user_identity: Mapping[str, str] | None = field(default=None, repr=False)

    @staticmethod
    def of(stream: str, shard_id: str, told: Mapping[str, Any]) -> DynamoDbStreamsRecord:
        """Return the record that DynamoDB tells of."""
        change = told["dynamodb"]
        made: datetime.datetime = change["ApproximateCreationDateTime"]
        identity = told.get("userIdentity")
        return DynamoDbStreamsRecord(
            told["eventName"],
            values_of(change["Keys"]),
            values_of(change["NewImage"]) if "NewImage" in change else None,
            values_of(change["OldImage"]) if "OldImage" in change else None,
            change["SequenceNumber"],
            round(made.timestamp() * 1_000),
            told["eventID"],
            change.get("SizeBytes", 0),
            stream,
            shard_id,
            None if identity is None else dict(identity),
        )

    def __bytes__(self) -> bytes:
        """Return what a dead letter shows of it: JSON."""
        shown = {"event_name": self.event_name, "keys": self.keys, "new_image": self.new_image}
        return json.dumps({**shown, "old_image": self.old_image}, default=str).encode()


class DynamoDbStreamsDeserializationSchema(ABC):
    """Makes records of changes; yours is derived from it, and implements `deserialize`.

    Example:
        >>> from millstream.datastream.connectors.dynamodb import DynamoDbStreamsDeserializationSchema
        >>> class Deleted(DynamoDbStreamsDeserializationSchema):
        ...     def deserialize(self, record, stream, shard_id):
        ...         return [record.keys] if record.event_name == "REMOVE" else []
    """

    @abstractmethod
    def deserialize(self, record: DynamoDbStreamsRecord, stream: str, shard_id: str) -> Iterable[Any]:
        """Return the values of a change: none, one or several, such as a generator gives.

        Args:
            record: The change.
            stream: The stream's ARN.
            shard_id: The shard.

        Raises:
            ValueError: If it does not parse.
        """

    def get_produced_type(self) -> TypeInformation | None:
        """Return the type of the values; None, by default, if it is not known."""
        return None


class ChangelogRows(DynamoDbStreamsDeserializationSchema):
    """Makes Rows with their kinds of changes; the default.

    ============ ====================================================== ============================================
    change       stream with new and old images                         stream with new images only
    ============ ====================================================== ============================================
    `INSERT`     a row of the kind INSERT                               the same
    `MODIFY`     UPDATE_BEFORE of the old one, UPDATE_AFTER of the new  UPDATE_AFTER
    `REMOVE`     DELETE, with the old item                              DELETE, with the key
    ============ ====================================================== ============================================

    Args:
        fields: The attributes that rows have, None where an item has none; by default those of the item, in the order
            of their names.

    Raises:
        ConfigurationError: If one is no name.

    Example:
        >>> from millstream.datastream.connectors.dynamodb import ChangelogRows, DynamoDbStreamsRecord
        >>> change = DynamoDbStreamsRecord(
        ...     event_name="INSERT",
        ...     keys={"id": 1},
        ...     new_image={"id": 1, "cents": 250},
        ...     old_image=None,
        ...     sequence_number="17",
        ...     arrival_ms=1_704_067_200_000,
        ...     event_id="e1",
        ...     size_bytes=20,
        ...     stream="orders",
        ...     shard_id="shard-1",
        ... )  # of a stream; a job gets it from DynamoDB
        >>> ChangelogRows("id", "cents").deserialize(change, "orders", "shard-1")
        [Row(id=1, cents=250)]
    """

    def __init__(self, *fields: str) -> None:
        if not all(isinstance(name, str) and name for name in fields) or len(set(fields)) < len(fields):
            raise ConfigurationError(f"{shorten(fields)} are no names of fields, or not all different")
        self._fields = fields

    def deserialize(self, record: DynamoDbStreamsRecord, stream: str, shard_id: str) -> list[Row]:
        """Return the rows of a change."""
        kind = _KINDS.get(record.event_name)
        if kind is None:
            raise TypeMismatchError(
                f"the change of an item is {record.event_name!r}, not one of {list(_KINDS)}"
            )
        if kind is RowKind.DELETE:
            return [self._row(record.keys if record.old_image is None else record.old_image, kind)]
        if record.new_image is None:
            raise TypeMismatchError(
                "a change of an item holds no new image",
                hint="Have the stream hold new images, or set a schema of your own.",
            )
        after = self._row(record.new_image, kind)
        if kind is RowKind.INSERT or record.old_image is None:
            return [after]
        return [self._row(record.old_image, RowKind.UPDATE_BEFORE), after]

    def _row(self, item: Mapping[str, Any], kind: RowKind) -> Row:
        fields = self._fields or tuple(sorted(item))
        return Row.of(fields, tuple(map(item.get, fields)), kind)


class _Adapted(DeserializationSchema):
    """A schema of changes as any other, for messages that are `DynamoDbStreamsRecord`s."""

    gives_many = True

    def __init__(self, schema: DynamoDbStreamsDeserializationSchema) -> None:
        self._schema = schema

    def deserialize(self, message: Any) -> Any:
        raise NotImplementedError("a change may have several values: deserialize_many gives them")

    def deserialize_many(self, message: Any) -> Sequence[Any]:
        given = self._schema.deserialize(message, message.stream, message.shard_id)
        return () if given is None else list(given)


def check_schema(schema: Any) -> DynamoDbStreamsDeserializationSchema:
    """Return a schema of changes.

    Raises:
        ConfigurationError: If it is none.
    """
    if isinstance(schema, DynamoDbStreamsDeserializationSchema):
        return schema
    raise ConfigurationError(
        f"{type(schema).__name__} is no DynamoDbStreamsDeserializationSchema",
        hint="Derive a class from it, and implement deserialize(record, stream, shard_id).",
    )


@dataclass(frozen=True, slots=True)
class StreamDecoder:
    """How changes become records; picklable.

    Attributes:
        schema: Makes values of one.
        policy: What becomes of those that do not parse.
    """

    schema: DynamoDbStreamsDeserializationSchema
    policy: MalformedPolicy

    def opened(self, context: SourceReaderContext) -> Callable[[str, Sequence[DynamoDbStreamsRecord]], Batch]:
        """Return what decodes changes of a stream in a reader."""
        decoder = MessageDecoder(_Adapted(self.schema), self.policy, context, source="a stream of DynamoDB")

        def decode(stream: str, records: Sequence[DynamoDbStreamsRecord]) -> Batch:
            def where(index: int) -> str:
                return (
                    f"{stream}, {records[index].shard_id}, sequence number {records[index].sequence_number}"
                )

            messages: Sequence[Any] = records
            return decoder.decode(messages, where, [record.arrival_ms for record in records])

        return decode
