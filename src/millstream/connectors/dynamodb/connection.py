"""Clients of DynamoDB, and what a table tells of its keys."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from millstream.base.errors import ConfigurationError, MillstreamError, TypeMismatchError, shorten
from millstream.connectors.aws_client import AwsClient, AwsRefusal
from millstream.connectors.aws_properties import AwsProperties
from millstream.connectors.dynamodb.values import Attributes
from millstream.connectors.patience import Patience

__all__ = ["TableKeys", "check_table_name", "describe_keys", "dynamodb_client"]

_MAY_NOT_ASK = frozenset({"AccessDeniedException"})
_MOST_BYTES = (2048, 1024)  # of a partition key, of a sort key


def dynamodb_client(
    properties: AwsProperties,
    patience: Patience,
    error_type: type[MillstreamError],
    *,
    service: str = "dynamodb",
    connections: int = 10,
) -> AwsClient:
    """Return a client; any thread may call it.

    Args:
        properties: Where DynamoDB is, and who one is there.
        patience: How long it is waited for.
        error_type: What is raised.
        service: `dynamodb`, or `dynamodbstreams`.
        connections: How many threads may call it at a time.

    Raises:
        ConfigurationError: If boto3 is missing, or a property does not fit.
    """
    return AwsClient(
        service,
        properties,
        patience,
        error_type,
        extra="dynamodb",
        what="DynamoDB sources and sinks",
        connections=connections,
    )


def check_table_name(name: Any) -> str:
    """Return a table's name or ARN.

    Raises:
        ConfigurationError: If it is none.
    """
    if not isinstance(name, str) or not name:
        raise ConfigurationError(f"{shorten(name)} is no name of a DynamoDB table")
    return name


@dataclass(frozen=True, slots=True)
class TableKeys:
    """The key attributes of a table: the partition key, and perhaps a sort key.

    Attributes:
        names: Their names.
        kinds: Their types, S, N or B; empty if they are not known.
    """

    names: tuple[str, ...]
    kinds: tuple[str, ...] = ()

    def of(self, item: Attributes) -> Attributes:
        """Return the key of an item.

        Raises:
            TypeMismatchError: If an attribute is missing, empty, too long, or not of the table's type.
        """
        return {name: self._checked(position, name, item) for position, name in enumerate(self.names)}

    def _checked(self, position: int, name: str, item: Attributes) -> dict[str, Any]:
        attribute = item.get(name)
        if attribute is None:
            raise TypeMismatchError(
                f'a record has no value of the key attribute "{name}"',
                detail=f"It has {', '.join(sorted(item)) or 'nothing'}; the key is {', '.join(self.names)}.",
            )
        ((kind, value),) = attribute.items()
        wanted = (self.kinds[position],) if self.kinds else ("S", "N", "B")
        if kind not in wanted:
            raise TypeMismatchError(
                f'the key attribute "{name}" of a record is of the type {kind}: {shorten(value)}',
                detail=f"Its type in the table is {' or '.join(wanted)}.",
            )
        size = len(value.encode() if kind == "S" else value)
        if not size:
            raise TypeMismatchError(f'the key attribute "{name}" of a record is empty')
        if self.kinds and size > _MOST_BYTES[position]:
            raise TypeMismatchError(
                f'the key attribute "{name}" of a record has {size} bytes',
                detail=f"It may have {_MOST_BYTES[position]}.",
            )
        return attribute


def describe_keys(client: AwsClient, table: str) -> TableKeys | None:
    """Return the keys of a table; None where nobody may ask for them (`dynamodb:DescribeTable`).

    Raises:
        MillstreamError: If there is no such table, or DynamoDB stays away.
    """
    try:
        answer: Mapping[str, Any] = client.call(
            f'looking for table "{table}"', "describe_table", refusals=_MAY_NOT_ASK, TableName=table
        )
    except AwsRefusal:
        return None
    described = answer["Table"]
    kinds = {each["AttributeName"]: each["AttributeType"] for each in described["AttributeDefinitions"]}
    names = tuple(each["AttributeName"] for each in described["KeySchema"])
    return TableKeys(names, tuple(kinds[name] for name in names))
