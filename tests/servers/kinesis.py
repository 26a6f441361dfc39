"""Kinesis by kinesalite: it keeps its data in files, and ends the iterators of closed shards, as AWS does."""

from __future__ import annotations

import contextlib
import logging
import time
import uuid
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

import boto3
from botocore.config import Config

from servers.npm import package
from servers.process import Server, answers

logging.getLogger("botocore").setLevel(logging.WARNING)

MILLISECONDS = "20"
"""How long streams take to change their state."""


class KinesisServer(Server):
    """A server of Kinesis' protocol."""

    access_key = "AKIDEXAMPLE"
    secret_key = "wJalrXUtnFEMI/K7MDENG+bPxRfiCYEXAMPLEKEY"

    def command(self) -> list[str]:
        program = package("kinesalite", "3.3.3") / "cli.js"
        command = ["node", str(program), "--port", str(self.port), "--path", str(self.directory / "data")]
        for change in ("create", "delete", "update"):
            command += [f"--{change}StreamMs", MILLISECONDS]
        return [*command, "--shardLimit", "10000"]

    @property
    def endpoint(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    @property
    def properties(self) -> dict[str, str]:
        return aws_properties(self.endpoint)

    def client(self) -> Any:
        return client_of("kinesis", self.endpoint)

    def is_ready(self) -> bool:
        return answers(self.client().list_streams)

    def new_stream(self, shards: int = 1) -> KinesisStream:
        stream = KinesisStream(self, f"stream-{uuid.uuid4().hex[:12]}")
        stream.make(shards)
        return stream


def aws_properties(endpoint: str) -> dict[str, str]:
    """Return Flink's properties for a server."""
    return {
        "aws.region": "us-east-1",
        "aws.endpoint": endpoint,
        "aws.credentials.provider.basic.accesskeyid": KinesisServer.access_key,
        "aws.credentials.provider.basic.secretkey": KinesisServer.secret_key,
    }


def client_of(service: str, endpoint: str) -> Any:
    return boto3.client(
        service,
        endpoint_url=endpoint,
        region_name="us-east-1",
        aws_access_key_id=KinesisServer.access_key,
        aws_secret_access_key=KinesisServer.secret_key,
        config=Config(retries={"total_max_attempts": 1}, connect_timeout=2, read_timeout=10),
    )


@dataclass
class KinesisStream:
    """A stream of a server."""

    server: KinesisServer
    name: str

    def make(self, shards: int = 1) -> None:
        self.server.client().create_stream(StreamName=self.name, ShardCount=shards)
        self.wait()

    def remove(self) -> None:
        client = self.server.client()
        client.delete_stream(StreamName=self.name)
        with contextlib.suppress(client.exceptions.ResourceNotFoundException):
            while client.describe_stream(StreamName=self.name):
                time.sleep(0.02)

    def wait(self) -> None:
        """Wait until it is not being changed."""
        while self.describe()["StreamStatus"] != "ACTIVE":
            time.sleep(0.02)

    def describe(self) -> dict[str, Any]:
        return self.server.client().describe_stream(StreamName=self.name)["StreamDescription"]

    def shards(self) -> list[dict[str, Any]]:
        return self.server.client().list_shards(StreamName=self.name)["Shards"]

    def add(self, values: Iterable[Any], *, key: str | None = None) -> None:
        """Put values; each under itself as key, or all under one."""
        client = self.server.client()
        records = []
        for value in values:
            data = value if isinstance(value, bytes) else str(value).encode()
            records.append({"Data": data, "PartitionKey": key or str(value)})
        for start in range(0, len(records), 500):
            done = client.put_records(StreamName=self.name, Records=records[start : start + 500])
            assert done["FailedRecordCount"] == 0

    def split(self, shard: int) -> None:
        """Split the nth shard in the middle."""
        found = self.shards()[shard]
        first, last = (int(found["HashKeyRange"][f"{end}HashKey"]) for end in ("Starting", "Ending"))
        self.server.client().split_shard(
            StreamName=self.name, ShardToSplit=found["ShardId"], NewStartingHashKey=str((first + last) // 2)
        )
        self.wait()

    def merge(self, shard: int, other: int) -> None:
        """Merge two shards that are beside each other."""
        found = self.shards()
        self.server.client().merge_shards(
            StreamName=self.name,
            ShardToMerge=found[shard]["ShardId"],
            AdjacentShardToMerge=found[other]["ShardId"],
        )
        self.wait()

    def read(self) -> list[tuple[str, str, bytes]]:
        """Return shard, partition key and data of all records, shard by shard, in order."""
        client = self.server.client()
        found: list[tuple[str, str, bytes]] = []
        for shard in self.shards():
            iterator = client.get_shard_iterator(
                StreamName=self.name, ShardId=shard["ShardId"], ShardIteratorType="TRIM_HORIZON"
            )["ShardIterator"]
            while iterator is not None:
                answer = client.get_records(ShardIterator=iterator)
                found += [
                    (shard["ShardId"], each["PartitionKey"], each["Data"]) for each in answer["Records"]
                ]
                iterator = answer.get("NextShardIterator") if answer["Records"] else None
        return found

    def values(self) -> list[str]:
        return [data.decode() for _, _, data in self.read()]
