"""What is declared of Kinesis, without a server: what is refused at once, what is shown, what is kept."""

from __future__ import annotations

import logging
import pickle

import pytest

from millstream.base.errors import ConfigurationError, NotSupportedError, TypeMismatchError
from millstream.common import WatermarkStrategy
from millstream.common.serialization import SimpleStringSchema
from millstream.connectors.aws_properties import AwsProperties
from millstream.connectors.kinesis.options import read_options
from millstream.connectors.kinesis.positions import starting_position
from millstream.connectors.kinesis.shards import KinesisShard
from millstream.connectors.shards.positions import Place, StartingPosition
from millstream.datastream.connectors.kinesis import (
    FlinkKinesisConsumer,
    KinesisDeserializationSchema,
    KinesisFirehoseSink,
    KinesisShardAssigner,
    KinesisStreamsSink,
    KinesisStreamsSource,
    PartitionKeyGenerator,
    WatermarkTracker,
)

PROVIDER = "aws.credentials.provider"
SECRETS = {
    "aws.region": "eu-west-1",
    f"{PROVIDER}.basic.accesskeyid": "AKIDSECRET",
    f"{PROVIDER}.basic.secretkey": "s3cr3t",
}


def source(**config):
    new = KinesisStreamsSource.builder().set_stream_names("clicks")
    return new.set_deserialization_schema(SimpleStringSchema()).set_source_config({**SECRETS, **config})


def streams_sink():
    new = KinesisStreamsSink.builder().set_stream_name("clicks").set_kinesis_client_properties(SECRETS)
    new.set_partition_key_generator(PartitionKeyGenerator.random())
    return new.set_serialization_schema(SimpleStringSchema())


def firehose_sink():
    new = KinesisFirehoseSink.builder().set_delivery_stream_name("clicks")
    return new.set_firehose_client_properties(SECRETS).set_serialization_schema(SimpleStringSchema())


@pytest.mark.parametrize("build", [source, streams_sink, firehose_sink])
def test_declared_objects_are_picklable_and_show_no_secrets(build):
    declared = pickle.loads(pickle.dumps(build().build()))

    for secret in ("AKIDSECRET", "s3cr3t"):
        assert secret not in repr(declared)
    assert AwsProperties(SECRETS).without_secrets("by AKIDSECRET") == "by ******"


@pytest.mark.parametrize(
    ("config", "said"),
    [
        ({"flink.stream.initpos": "FIRST"}, "initpos"),
        ({"flink.stream.initpos": "AT_TIMESTAMP"}, "timestamp"),
        (
            {"flink.stream.initpos": "AT_TIMESTAMP", "flink.stream.initpos.timestamp": "2026-01-31T12:00:00"},
            "zone",
        ),
        ({"flink.shard.getrecords.maxrecordcount": 10_001}, "at most"),
        ({"flink.shard.getrecords.intervalmillis": "often"}, "not a number"),
        ({"flink.shard.getrecords.backoff.expconst": "0.5"}, "at least 1"),
        ({f"{PROVIDER}": "NOBODY"}, "NOBODY"),
        ({f"{PROVIDER}": "ASSUME_ROLE"}, "role.arn"),
        ({"aws.endpoint": "localhost:4567"}, "no URL"),
    ],
)
def test_properties_that_do_not_fit(config, said):
    with pytest.raises(ConfigurationError, match=said):
        source(**config).build()


@pytest.mark.parametrize(
    "config",
    [
        {"flink.stream.recordpublisher": "EFO"},
        {PROVIDER: "SYS_PROP"},
        {PROVIDER: "CUSTOM"},
        {
            "flink.stream.initpos": "AT_TIMESTAMP",
            "flink.stream.initpos.timestamp": "1",
            "flink.stream.initpos.timestamp.format": "yyyy-MM-dd",
        },
    ],
)
def test_properties_that_are_not_supported(config):
    with pytest.raises(NotSupportedError):
        source(**config).build()


def test_property_that_nothing_reads_is_warned_of(caplog):
    with caplog.at_level(logging.WARNING):
        source(**{"flink.stream.initpso": "LATEST"}).build()
    assert '"flink.stream.initpso" of a Kinesis source has no effect' in caplog.text


def test_starting_positions():
    at = {
        "flink.stream.initpos": "AT_TIMESTAMP",
        "flink.stream.initpos.timestamp": "1970-01-01T00:00:01.500Z",
    }

    assert starting_position({}) == StartingPosition(Place.LATEST)
    assert starting_position(at) == StartingPosition(Place.TIMESTAMP, 1_500)
    assert read_options({"flink.shard.discovery.intervalmillis": "-1"}).discovery_ms is None


@pytest.mark.parametrize(
    "build",
    [
        lambda: KinesisStreamsSource.builder().build(),
        lambda: KinesisStreamsSource.builder().set_stream_names("clicks").build(),
        lambda: KinesisStreamsSource.builder().set_stream_names(""),
        lambda: KinesisStreamsSource.builder().set_deserialization_schema("text"),
        lambda: source().set_source_config({}).build(),
        lambda: KinesisStreamsSource.builder().set_kinesis_shard_assigner("all"),
        lambda: KinesisStreamsSink.builder().build(),
        lambda: KinesisStreamsSink.builder().set_stream_name("clicks").build(),
        lambda: KinesisStreamsSink.builder().set_partition_key_generator("k"),
        lambda: streams_sink().set_max_batch_size(501).build(),
        lambda: streams_sink().set_max_batch_size(0).build(),
        lambda: streams_sink().set_max_buffered_requests(499).build(),
        lambda: streams_sink().set_max_record_size_in_bytes((1 << 20) + 1).build(),
        lambda: KinesisFirehoseSink.builder().build(),
        lambda: KinesisFirehoseSink.builder().set_delivery_stream_name("clicks").build(),
        lambda: firehose_sink().set_serialization_schema("text"),
        lambda: firehose_sink().set_max_batch_size_in_bytes(5 << 20).build(),
    ],
)
def test_what_is_missing_or_wrong_is_said_at_once(build):
    with pytest.raises(ConfigurationError):
        build()


@pytest.mark.parametrize(
    "kind", [KinesisShardAssigner, KinesisDeserializationSchema, PartitionKeyGenerator, WatermarkTracker]
)
def test_objects_of_a_jvm_are_refused(kind):
    with pytest.raises(NotSupportedError):
        kind(object())


def test_uniform_assigner_gives_neighbours_of_the_hash_keys_to_one_subtask():
    quarter = 1 << 126
    shards = [
        KinesisShard("s", f"shardId-{number}", (), number * quarter, (number + 1) * quarter - 1)
        for number in range(4)
    ]
    assign = KinesisShardAssigner.uniform_shard_assigner().assign
    owners = [assign(shard, 2) % 2 for shard in shards]

    assert owners[0] == owners[1] != owners[2] == owners[3]


class TestConsumer:
    def consumer(self, **config):
        return FlinkKinesisConsumer(["clicks"], SimpleStringSchema(), {**SECRETS, **config})

    def test_is_picklable_and_without_watermarks(self):
        consumer = pickle.loads(pickle.dumps(self.consumer()))
        assert consumer.watermark_strategy() == WatermarkStrategy.no_watermarks()

    def test_tracker_aligns_watermarks(self):
        tracker = WatermarkTracker.job_manager_watermark_tracker("all")
        consumer = self.consumer(**{"flink.watermark.lookahead.millis": "500"}).set_watermark_tracker(tracker)
        alignment = consumer.watermark_strategy().alignment

        assert (alignment.group, alignment.max_drift_ms) == ("all", 500)

    def test_arguments_that_do_not_fit(self):
        with pytest.raises(TypeMismatchError):
            self.consumer().set_periodic_watermark_assigner("monotonous")
        with pytest.raises(ConfigurationError):
            self.consumer().set_watermark_tracker("all")
        with pytest.raises(ConfigurationError, match="not a number"):
            self.consumer(**{"flink.shard.idle.interval": "long"})
