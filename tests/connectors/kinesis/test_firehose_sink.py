"""Delivery streams of Firehose as sinks, and roles and ARNs, by moto; it delivers to S3 at once."""

from __future__ import annotations

import uuid
from collections.abc import Iterator
from typing import Any

import pytest

from millstream.base.errors import SinkError
from millstream.common.serialization import SimpleStringSchema
from millstream.datastream.connectors.kinesis import (
    KinesisFirehoseSink,
    KinesisFirehoseSinkBuilder,
    KinesisStreamsSource,
    Patience,
)
from millstream.spi.batch import Rows
from millstream.spi.sink import WriterContext
from millstream.testing import SinkTarget, SourceRun, check_sink
from servers.aws_front import AwsFront
from servers.moto import MotoServer

pytestmark = pytest.mark.long
PROVIDER = "aws.credentials.provider"
ROLE = "arn:aws:iam::123456789012:role/writer"
LONG = Patience(total_s=30)


@pytest.fixture(scope="module")
def moto(tmp_path_factory: pytest.TempPathFactory) -> Iterator[MotoServer]:
    server = MotoServer(tmp_path_factory.mktemp("moto"))
    try:
        server.start()
        yield server
    finally:
        server.stop()


class Delivery:
    """A delivery stream to a bucket of its own."""

    def __init__(self, server: MotoServer) -> None:
        self.server = server
        self.name = f"delivery-{uuid.uuid4().hex[:12]}"
        server.client("s3").create_bucket(Bucket=self.name)
        destination = {"RoleARN": ROLE, "BucketARN": f"arn:aws:s3:::{self.name}"}
        server.client("firehose").create_delivery_stream(
            DeliveryStreamName=self.name, S3DestinationConfiguration=destination
        )

    def builder(self, endpoint: str | None = None, **config: Any) -> KinesisFirehoseSinkBuilder:
        properties = {**self.server.properties, "aws.endpoint": endpoint or self.server.endpoint, **config}
        new = KinesisFirehoseSink.builder().set_delivery_stream_name(self.name).set_patience(LONG)
        new.set_firehose_client_properties(properties)
        return new.set_serialization_schema(SimpleStringSchema())

    def remove(self) -> None:
        self.server.client("firehose").delete_delivery_stream(DeliveryStreamName=self.name)

    def lines(self) -> list[str]:
        client = self.server.client("s3")
        pages = client.get_paginator("list_objects_v2").paginate(Bucket=self.name)
        keys = [found["Key"] for page in pages for found in page.get("Contents", ())]
        objects = [client.get_object(Bucket=self.name, Key=key)["Body"].read() for key in keys]
        return [line for data in objects for line in data.decode().splitlines()]


def write(sink: KinesisFirehoseSink, *values: Any) -> None:
    writer = sink.build_writer(WriterContext("job", "sink", 0, 1, 0, began_ms=5))
    writer.open()
    try:
        writer.write(Rows(list(values)), watermark_ms=0, now_ms=0)
        writer.prepare_commit(now_ms=0, checkpoint=True, end_of_input=True)
    finally:
        writer.close()


def test_sink_keeps_the_contract(moto):
    former: list[Delivery] = []

    def new_target() -> SinkTarget:
        while former:  # there may be fifty
            former.pop().remove()
        delivery = Delivery(moto)
        former.append(delivery)
        return SinkTarget(delivery.builder().build(), delivery.lines)

    check_sink(new_target, record="{}\n".format, key=lambda record: record.strip(), parallelisms=((2, 1),))


def test_all_are_put_in_batches(moto):
    delivery = Delivery(moto)
    delivery.builder().build().check()
    values = [f"{number}\n" for number in range(1_200)] + [
        "x" * 900_000 + f"{number}\n" for number in range(6)
    ]
    write(delivery.builder().build(), *values)

    assert sorted(delivery.lines()) == sorted(value.strip() for value in values)


def test_records_that_are_not_taken_are_put_again(moto):
    def in_part(request, ask):
        status, answer = ask({**request, "Records": request["Records"][::2]})
        taken = iter(answer["RequestResponses"])
        error = {"ErrorCode": "ServiceUnavailableException", "ErrorMessage": "Slow down."}
        told = [error if index % 2 else next(taken) for index in range(len(request["Records"]))]
        return status, {"FailedPutCount": len(told) // 2, "RequestResponses": told}

    delivery = Delivery(moto)
    with AwsFront(moto.port) as front:
        front.react("PutRecordBatch", in_part, in_part)
        write(delivery.builder(front.endpoint).build(), *[f"{number}\n" for number in range(50)])
        front.react("PutRecordBatch", in_part)
        with pytest.raises(SinkError, match="ServiceUnavailableException: Slow down"):
            write(delivery.builder(front.endpoint).set_fail_on_error(True).build(), "a\n", "b\n")

    assert sorted(filter(str.isdigit, delivery.lines()), key=int) == list(map(str, range(50)))


def test_no_delivery_stream_and_records_that_are_too_large(moto):
    delivery = Delivery(moto)
    with pytest.raises(SinkError, match="record of 1024001 bytes is too large for Firehose"):
        write(delivery.builder().build(), "x" * 1_024_001)
    delivery.name = "nowhere"
    with pytest.raises(SinkError, match="ResourceNotFoundException"):
        delivery.builder().build().check()


def test_role_is_assumed(moto):
    delivery = Delivery(moto)
    config = {
        PROVIDER: "ASSUME_ROLE",
        f"{PROVIDER}.role.arn": ROLE,
        f"{PROVIDER}.role.sessionName": "tests",
        f"{PROVIDER}.role.externalId": "outside",
        f"{PROVIDER}.role.stsEndpoint": moto.endpoint,
        f"{PROVIDER}.role.provider": "BASIC",
        f"{PROVIDER}.role.provider.basic.accesskeyid": "AKIDBASE",
        f"{PROVIDER}.role.provider.basic.secretkey": "base-secret",
    }
    sink = delivery.builder(**config).build()
    write(sink, "a\n")

    assert delivery.lines() == ["a"]
    credentials = sink._properties.open_client(
        "sts", extra="kinesis", what="Tests"
    )._request_signer._credentials
    assert credentials.get_frozen_credentials().token


def test_stream_is_named_by_its_arn(moto):
    name = f"stream-{uuid.uuid4().hex[:12]}"
    client = moto.client("kinesis")
    client.create_stream(StreamName=name, ShardCount=1)
    client.put_record(StreamName=name, Data=b"a", PartitionKey="k")
    arn = client.describe_stream(StreamName=name)["StreamDescription"]["StreamARN"]
    config = {**moto.properties, "flink.stream.initpos": "TRIM_HORIZON"}
    source = KinesisStreamsSource.builder().set_stream_arn(arn).set_source_config(config)
    source.set_deserialization_schema(SimpleStringSchema())
    run = SourceRun(source.build(), 1, 10)
    run.epoch()
    run.close()

    assert run.read == [["a"]]
