"""What is written of a record: an item is put, or the one with its key is deleted."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from decimal import Decimal
from enum import Enum
from typing import Any

from millstream.base.errors import TypeMismatchError, shorten
from millstream.connectors.dynamodb.connection import TableKeys
from millstream.connectors.dynamodb.values import Attributes, item_of
from millstream.types.row import Row, RowKind

__all__ = [
    "DynamoDbWriteRequest",
    "DynamoDbWriteRequestType",
    "ElementConverter",
    "KeyOfItem",
    "convert",
    "encode",
    "identity_of",
    "request_of",
]


class DynamoDbWriteRequestType(Enum):
    """What is done.

    Example:
        >>> from millstream.datastream.connectors.dynamodb import DynamoDbWriteRequest, DynamoDbWriteRequestType
        >>> DynamoDbWriteRequest.put({"shop": "Bonn"}).type is DynamoDbWriteRequestType.PUT
        True
    """

    PUT = "PUT"
    DELETE = "DELETE"


@dataclass(frozen=True, slots=True)
class DynamoDbWriteRequest:
    """A write.

    Attributes:
        item: Names and values: those of the item, or of the key of the one that is deleted (others are left out).
        type: Whether it is put or deleted.

    Example:
        >>> from millstream.datastream.connectors.dynamodb import DynamoDbWriteRequest
        >>> DynamoDbWriteRequest.delete({"shop": "Bonn"}).type.name
        'DELETE'
    """

    item: Mapping[str, Any] | Row
    type: DynamoDbWriteRequestType = field(default=DynamoDbWriteRequestType.PUT)

    @staticmethod
    def put(item: Mapping[str, Any] | Row) -> DynamoDbWriteRequest:
        """Put an item: the one with its key is replaced."""
        return DynamoDbWriteRequest(item)

    @staticmethod
    def delete(key: Mapping[str, Any] | Row) -> DynamoDbWriteRequest:
        """Delete the item with this key, if it is there."""
        return DynamoDbWriteRequest(key, DynamoDbWriteRequestType.DELETE)


ElementConverter = Callable[[Any], Any]
"""Makes a `DynamoDbWriteRequest` of a record, or what is put: a dict, a Row with names; None for nothing."""

KeyOfItem = tuple[tuple[str, Any], ...]
"""A key that is equal for equal keys of a table: numbers by their values."""


def request_of(record: Any) -> DynamoDbWriteRequest | None:
    """Return what is written of a record by default: Rows by their kind, all else is put.

    The row before an update is nothing: the one behind it has its key.
    """
    if isinstance(record, Row):
        kind = record._schema.kind
        if kind is RowKind.UPDATE_BEFORE:
            return None
        if kind is RowKind.DELETE:
            return DynamoDbWriteRequest.delete(record)
    return DynamoDbWriteRequest.put(record)


def convert(converter: ElementConverter, record: Any) -> DynamoDbWriteRequest | None:
    """Return what a converter makes of a record."""
    made = converter(record)
    return made if made is None or isinstance(made, DynamoDbWriteRequest) else request_of(made)


def encode(
    request: DynamoDbWriteRequest, keys: TableKeys | None
) -> tuple[dict[str, Any], Attributes, KeyOfItem | None]:
    """Return a request as BatchWriteItem has it, what it holds, and its key; None if the keys are not known.

    Raises:
        TypeMismatchError: If a value does not fit, or the key is not there.
        NumberRangeError: If it holds a number that DynamoDB cannot hold.
    """
    item = item_of(request.item)
    key = keys.of(item) if keys is not None else None
    identity = None if key is None else identity_of(key)
    if request.type is DynamoDbWriteRequestType.PUT:
        return {"PutRequest": {"Item": item}}, item, identity
    if request.type is not DynamoDbWriteRequestType.DELETE:
        raise TypeMismatchError(f"a write request is of the type {shorten(request.type)}")
    return {"DeleteRequest": {"Key": item if key is None else key}}, item if key is None else key, identity


def identity_of(key: Attributes) -> KeyOfItem:
    """Return what is equal for equal keys."""
    return tuple(map(_identity, key.values()))


def _identity(attribute: Mapping[str, Any]) -> tuple[str, Any]:
    ((kind, value),) = attribute.items()
    return kind, Decimal(value) if kind == "N" else value
