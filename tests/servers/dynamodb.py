"""DynamoDB Local: Amazon's own, on SQLite. It keeps its data; it checks no signatures, and throttles nothing."""

from __future__ import annotations

import urllib.request
import uuid
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from boto3.dynamodb.types import TypeDeserializer, TypeSerializer

from servers.kinesis import aws_properties, client_of
from servers.maven import JVM_OPTIONS, jars
from servers.ports import free_port
from servers.process import Server, answers

VERSION = "3.1.0"
_MAIN = Path(__file__).parent / "DynamoMain.java"
_to_attribute, _from_attribute = TypeSerializer().serialize, TypeDeserializer().deserialize


class DynamoDbServer(Server):
    """A server of DynamoDB's protocol, and of that of its streams."""

    def __init__(self, directory: Path) -> None:
        super().__init__(directory)
        self._control_port = free_port()

    def command(self) -> list[str]:
        path = jars((f"software.amazon.dynamodb:DynamoDBLocal:{VERSION}",))
        data = self.directory / "data"
        data.mkdir(exist_ok=True)
        libraries = f"-Djava.library.path={path.removesuffix('/*')}"
        ports = [str(self.port), str(self._control_port)]
        return ["java", *JVM_OPTIONS, libraries, "-cp", path, str(_MAIN), *ports, str(data)]

    @property
    def endpoint(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    @property
    def properties(self) -> dict[str, str]:
        return aws_properties(self.endpoint)

    def client(self, service: str = "dynamodb") -> Any:
        return client_of(service, self.endpoint)

    def is_ready(self) -> bool:
        return answers(self.client().list_tables)

    def roll_over(self) -> None:
        """Close the shards of all streams, and open others."""
        self._control("rollover")

    def age(self, hours: int) -> None:
        """Have all records of streams be so much older."""
        self._control(f"age?{hours * 3_600_000}")

    def _control(self, what: str) -> None:
        urllib.request.urlopen(f"http://127.0.0.1:{self._control_port}/{what}", timeout=30).close()

    def new_table(self, *, sort: str | None = None, view: str | None = None) -> DynamoDbTable:
        """Make a table with the partition key `id`, a text, perhaps a sort key, a number, and perhaps a stream."""
        table = DynamoDbTable(self, f"table-{uuid.uuid4().hex[:12]}")
        table.make(sort=sort, view=view)
        return table


@dataclass
class DynamoDbTable:
    """A table of a server."""

    server: DynamoDbServer
    name: str

    def make(self, *, sort: str | None = None, view: str | None = None) -> None:
        keys = [("id", "HASH", "S")] + ([(sort, "RANGE", "N")] if sort else [])
        stream = {"StreamSpecification": {"StreamEnabled": True, "StreamViewType": view}} if view else {}
        self.server.client().create_table(
            TableName=self.name,
            KeySchema=[{"AttributeName": name, "KeyType": kind} for name, kind, _ in keys],
            AttributeDefinitions=[{"AttributeName": name, "AttributeType": type_} for name, _, type_ in keys],
            BillingMode="PAY_PER_REQUEST",
            **stream,
        )

    def remove(self) -> None:
        self.server.client().delete_table(TableName=self.name)

    @property
    def stream_arn(self) -> str:
        arn: str = self.server.client().describe_table(TableName=self.name)["Table"]["LatestStreamArn"]
        return arn

    def shards(self) -> list[dict[str, Any]]:
        described = self.server.client("dynamodbstreams").describe_stream(StreamArn=self.stream_arn)
        shards: list[dict[str, Any]] = described["StreamDescription"]["Shards"]
        return shards

    def put(self, items: Iterable[Mapping[str, Any]]) -> None:
        requests = [{"PutRequest": {"Item": _attributes(item)}} for item in items]
        self._write(requests)

    def delete(self, keys: Iterable[Mapping[str, Any]]) -> None:
        self._write([{"DeleteRequest": {"Key": _attributes(key)}} for key in keys])

    def _write(self, requests: list[dict[str, Any]]) -> None:
        client = self.server.client()
        for start in range(0, len(requests), 25):
            answer = client.batch_write_item(RequestItems={self.name: requests[start : start + 25]})
            assert not answer["UnprocessedItems"]

    def items(self) -> list[dict[str, Any]]:
        """Return all items, by their keys."""
        client, found, more = self.server.client(), [], {}
        while more is not None:
            answer = client.scan(TableName=self.name, ConsistentRead=True, **more)
            found += [
                {name: _from_attribute(each) for name, each in item.items()} for item in answer["Items"]
            ]
            more = (
                {"ExclusiveStartKey": answer["LastEvaluatedKey"]} if answer.get("LastEvaluatedKey") else None
            )
        return sorted(found, key=lambda item: (len(item["id"]), item["id"], item.get("n", 0)))


def _attributes(item: Mapping[str, Any]) -> dict[str, Any]:
    return {name: _to_attribute(value) for name, value in item.items()}
