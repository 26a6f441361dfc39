"""Items of DynamoDB's tables, looked up by key, from DynamoDB Local."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from typing import Any

import pytest

from millstream.base.errors import ConfigurationError, SourceError, TypeMismatchError
from millstream.datastream.connectors.dynamodb import DynamoDbLookup, DynamoDbLookupBuilder, Patience
from millstream.testing import check_lookup
from servers.aws_front import AwsFront, refuse
from servers.dynamodb import DynamoDbTable
from servers.kinesis import aws_properties

SHORT = Patience(total_s=0.3)
LONG = Patience(total_s=30)


def builder(table: DynamoDbTable, endpoint: str | None = None) -> DynamoDbLookupBuilder:
    properties = aws_properties(endpoint or table.server.endpoint)
    new = DynamoDbLookup.builder().set_table_name(table.name).set_dynamo_db_properties(properties)
    return new.set_consistent_read(True).set_patience(SHORT)


def find(lookup: DynamoDbLookup, keys: Sequence[Any]) -> Mapping[Any, Any]:
    async def ask() -> Mapping[Any, Any]:
        await lookup.open()
        try:
            return await lookup.lookup(keys)
        finally:
            await lookup.close()

    return asyncio.run(ask())


def test_lookup_keeps_the_contract(dynamodb):
    table = dynamodb.new_table()
    rows = {str(number): {"id": str(number), "v": number} for number in range(30)}
    table.put(rows.values())
    check_lookup(
        builder(table).build(), rows, unknown=["x", None], key=lambda row: row and (row["id"], row["v"])
    )


def test_keys_of_two_attributes(dynamodb):
    table = dynamodb.new_table(sort="n")
    table.put([{"id": "1", "n": 1, "v": "a"}, {"id": "1", "n": 2, "v": "b"}])

    found = find(builder(table).set_fields("v").build(), [("1", 2), ("1", 2.0), ("1", 3), ("1", None)])
    assert found == {("1", 2): {"v": "b"}}
    with pytest.raises(TypeMismatchError, match="(?s)no key of the DynamoDB table.*id, n"):
        find(builder(table).build(), ["1"])


def test_many_keys_and_those_that_were_not_got_to(dynamodb):
    table = dynamodb.new_table()
    table.put({"id": str(number)} for number in range(110))

    def in_part(request, ask):
        ((name, asked),) = request["RequestItems"].items()
        status, answer = ask({"RequestItems": {name: {**asked, "Keys": asked["Keys"][:20]}}})
        return status, {**answer, "UnprocessedKeys": {name: {**asked, "Keys": asked["Keys"][20:]}}}

    with AwsFront(dynamodb.port) as front:
        front.react("BatchGetItem", in_part, in_part)
        found = find(builder(table, front.endpoint).set_patience(LONG).build(), list(map(str, range(120))))
    assert sorted(map(int, found)) == list(range(110))


def test_patience_ends_when_no_key_is_got_to(dynamodb):
    def take_none(request, ask):
        return 200, {"Responses": {}, "UnprocessedKeys": request["RequestItems"]}

    with AwsFront(dynamodb.port) as front:
        front.react("BatchGetItem", *[take_none] * 100)
        with pytest.raises(SourceError, match="1 keys were not processed"):
            find(builder(dynamodb.new_table(), front.endpoint).build(), ["1"])


def test_no_table(dynamodb):
    with pytest.raises(SourceError, match="ResourceNotFoundException"):
        find(builder(DynamoDbTable(dynamodb, "nowhere")).build(), ["1"])


def test_who_may_not_look_names_the_keys(dynamodb):
    table = dynamodb.new_table()
    table.put([{"id": "1"}])
    with AwsFront(dynamodb.port) as front:
        front.react("DescribeTable", refuse("AccessDeniedException"))
        with pytest.raises(ConfigurationError, match="set_key_names"):
            find(builder(table, front.endpoint).build(), ["1"])
    assert find(builder(table).set_key_names("id").build(), ["1"]) == {"1": {"id": "1"}}
