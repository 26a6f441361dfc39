"""Items, looked up by key."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from millstream.base.clock import SystemClock
from millstream.base.errors import ConfigurationError, SourceError, TypeMismatchError, shorten
from millstream.connectors.aws_client import AwsClient
from millstream.connectors.aws_properties import AwsProperties
from millstream.connectors.dynamodb.connection import (
    TableKeys,
    check_table_name,
    describe_keys,
    dynamodb_client,
)
from millstream.connectors.dynamodb.requests import KeyOfItem, identity_of
from millstream.connectors.dynamodb.values import item_of, values_of
from millstream.connectors.patience import Patience
from millstream.spi.lookup import AsyncLookup

__all__ = ["DynamoDbLookup", "DynamoDbLookupBuilder"]

_MOST_KEYS = 100


@dataclass(slots=True)
class DynamoDbLookup(AsyncLookup):
    """Finds items of a table by key, as dicts; made by `DynamoDbLookup.builder()`.

    A key is the value of the partition key, or a tuple of it and that of the sort key where the table has one.

    Example:
        >>> from millstream.datastream.connectors.dynamodb import DynamoDbLookup
        >>> builder = DynamoDbLookup.builder().set_table_name("customers").set_key_names("id")
        >>> customers = builder.set_dynamo_db_properties({"aws.region": "eu-west-1"}).build()
    """

    _table: str
    _properties: AwsProperties
    _patience: Patience
    _named: tuple[str, ...]
    _fields: tuple[str, ...]
    _consistent: bool
    _client: AwsClient | None = None
    _keys: TableKeys | None = None

    @staticmethod
    def builder() -> DynamoDbLookupBuilder:
        """Return a builder."""
        return DynamoDbLookupBuilder()

    async def open(self) -> None:
        """Ask for the names of the keys.

        Raises:
            SourceError: If DynamoDB does not answer, or has no such table.
            ConfigurationError: If nobody may ask for them, and they were not named.
        """
        self._client = dynamodb_client(self._properties, self._patience, SourceError)
        named = TableKeys(self._named) if self._named else None
        self._keys = named or await asyncio.to_thread(describe_keys, self._client, self._table)
        if self._keys is None:
            raise ConfigurationError(
                f'nobody may ask for the keys of table "{self._table}"',
                hint='Allow dynamodb:DescribeTable, or name them: set_key_names("id").',
            )

    async def lookup(self, keys: Sequence[Any]) -> Mapping[Any, Any]:
        """Return the items with these keys.

        Args:
            keys: Values of the partition key, or tuples of it and the sort key. None finds nothing.

        Raises:
            SourceError: If DynamoDB refuses it, or stays away.
            TypeMismatchError: If a key is none of the table.
        """
        parts = [keys[start : start + _MOST_KEYS] for start in range(0, len(keys), _MOST_KEYS)]
        found: dict[Any, Any] = {}
        for part in await asyncio.gather(*(asyncio.to_thread(self._find, each) for each in parts)):
            found.update(part)
        return found

    async def close(self) -> None:
        """Let go of the client."""
        self._client = None

    def _find(self, keys: Sequence[Any]) -> dict[Any, Any]:
        assert self._client is not None and self._keys is not None, "open comes first"
        wanted: dict[KeyOfItem, list[Any]] = {}
        asked: list[dict[str, Any]] = []
        for key in keys:
            by_name = self._by_name(key)
            if None in by_name.values():
                continue
            attributes = self._keys.of(item_of(by_name))
            same = wanted.setdefault(identity_of(attributes), [])
            if not same:
                asked.append(attributes)
            same.append(key)
        found: dict[Any, Any] = {}
        for item in self._get(self._client, asked):
            row = values_of(item)
            key_of_row = identity_of({name: item[name] for name in self._keys.names})
            shown = {name: row[name] for name in self._fields if name in row} if self._fields else row
            found.update(dict.fromkeys(wanted[key_of_row], shown))
        return found

    def _by_name(self, key: Any) -> dict[str, Any]:
        assert self._keys is not None
        values = key if isinstance(key, tuple) else (key,)
        if len(values) != len(self._keys.names):
            raise TypeMismatchError(
                f"{shorten(key)} is no key of the DynamoDB table",
                detail=f"A key is {', '.join(self._keys.names)}.",
            )
        return dict(zip(self._keys.names, values, strict=True))

    def _get(self, client: AwsClient, keys: Sequence[dict[str, Any]]) -> list[dict[str, Any]]:
        """Return the items that are there; keys that DynamoDB did not get to are asked for again.

        Raises:
            SourceError: If it gets to none of them for too long.
        """
        clock, pause = SystemClock(), self._patience.first_s
        request: dict[str, Any] = {"ConsistentRead": self._consistent, **self._projection()}
        what = f'looking up {len(keys)} items of table "{self._table}"'
        found: list[dict[str, Any]] = []
        since, left = clock.monotonic(), list(keys)
        while left:
            answer = client.call(
                what, "batch_get_item", RequestItems={self._table: {**request, "Keys": left}}
            )
            items = [item for each in answer["Responses"].values() for item in each]
            found += items
            left = [key for each in answer.get("UnprocessedKeys", {}).values() for key in each["Keys"]]
            if items:
                since, pause = clock.monotonic(), self._patience.first_s
            elif left and clock.monotonic() - since >= self._patience.total_s:
                raise client.explain(what, _THROTTLED, f"{_THROTTLED}: {len(left)} keys were not processed")
            if left:
                clock.wait(random.uniform(pause / 2, pause))
                pause = min(pause * 2, self._patience.longest_s)
        return found

    def _projection(self) -> dict[str, Any]:
        """Return what is asked for of items: the fields, and the keys by which they are known."""
        if not self._fields:
            return {}
        assert self._keys is not None
        names = dict.fromkeys((*self._fields, *self._keys.names))
        placeholders = {f"#f{index}": name for index, name in enumerate(names)}
        return {
            "ProjectionExpression": ", ".join(placeholders),
            "ExpressionAttributeNames": placeholders,
        }


_THROTTLED = "ProvisionedThroughputExceededException"


class DynamoDbLookupBuilder:
    """Makes a `DynamoDbLookup`; each method returns the builder.

    Example:
        >>> from millstream.datastream.connectors.dynamodb import DynamoDbLookup
        >>> builder = DynamoDbLookup.builder().set_table_name("orders").set_key_names("customer", "number")
        >>> builder = builder.set_fields("cents").set_consistent_read(True)
        >>> cents = builder.set_dynamo_db_properties({"aws.region": "eu-west-1"}).build()
    """

    def __init__(self) -> None:
        self._table: str | None = None
        self._properties = AwsProperties()
        self._patience = Patience()
        self._named: tuple[str, ...] = ()
        self._fields: tuple[str, ...] = ()
        self._consistent = False

    def set_table_name(self, table_name: str) -> DynamoDbLookupBuilder:
        """Name the table, or give its ARN.

        Raises:
            ConfigurationError: If it is no name.
        """
        self._table = check_table_name(table_name)
        return self

    def set_dynamo_db_properties(self, properties: Mapping[str, Any]) -> DynamoDbLookupBuilder:
        """Set Flink's properties: region, endpoint, credentials."""
        self._properties = AwsProperties(properties)
        return self

    def set_key_names(self, *names: str) -> DynamoDbLookupBuilder:
        """Name the key attributes, the partition key first; needed only where nobody may ask for them."""
        self._named = names
        return self

    def set_fields(self, *fields: str) -> DynamoDbLookupBuilder:
        """Choose attributes of items; by default all."""
        self._fields = fields
        return self

    def set_consistent_read(self, consistent: bool) -> DynamoDbLookupBuilder:
        """Choose whether what was just written is found for certain, at twice the price; by default it is not."""
        self._consistent = consistent
        return self

    def set_patience(self, patience: Patience) -> DynamoDbLookupBuilder:
        """Choose how long DynamoDB is waited for when it is away, or gets to no key."""
        self._patience = patience
        return self

    def build(self) -> DynamoDbLookup:
        """Return the look-up.

        Raises:
            ConfigurationError: If table or region are missing.
        """
        if self._table is None:
            raise ConfigurationError("the look-up has no table", hint='set_table_name("customers").')
        self._properties.check()
        return DynamoDbLookup(
            self._table, self._properties, self._patience, self._named, self._fields, self._consistent
        )
