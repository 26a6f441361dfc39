"""What is declared of DynamoDB, without a server: what is refused at once, what is shown, what is kept."""

from __future__ import annotations

import datetime
import json
import logging
import pickle

import pytest

from millstream.base.errors import ConfigurationError, TypeMismatchError
from millstream.connectors.dynamodb.records import DynamoDbStreamsRecord
from millstream.connectors.dynamodb.shards import AssignInTurn, DynamoDbShard
from millstream.connectors.dynamodb.stream_options import read_options, starting_position
from millstream.connectors.shards.positions import Place
from millstream.datastream.connectors.dynamodb import (
    ChangelogRows,
    DynamoDbLookup,
    DynamoDbSink,
    DynamoDbStreamsSource,
)
from millstream.types.row import Row, RowKind

PROVIDER = "aws.credentials.provider"
SECRETS = {
    "aws.region": "eu-west-1",
    f"{PROVIDER}.basic.accesskeyid": "AKIDSECRET",
    f"{PROVIDER}.basic.secretkey": "s3cr3t",
}
ARN = "arn:aws:dynamodb:eu-west-1:1:table/orders/stream/2026-01-31T12:00:00.000"


def source(**config):
    return DynamoDbStreamsSource.builder().set_stream_arn(ARN).set_source_config({**SECRETS, **config})


def sink():
    return DynamoDbSink.builder().set_table_name("totals").set_dynamo_db_properties(SECRETS)


def lookup():
    return DynamoDbLookup.builder().set_table_name("totals").set_dynamo_db_properties(SECRETS)


@pytest.mark.parametrize("build", [source, sink, lookup])
def test_declared_objects_are_picklable_and_show_no_secrets(build):
    declared = pickle.loads(pickle.dumps(build().build()))

    for secret in ("AKIDSECRET", "s3cr3t"):
        assert secret not in repr(declared)


@pytest.mark.parametrize(
    ("build", "message"),
    [
        (lambda: DynamoDbStreamsSource.builder().build(), "has no stream"),
        (lambda: DynamoDbStreamsSource.builder().set_stream_arn("orders"), "no ARN"),
        (lambda: source().set_deserialization_schema(str), "no DynamoDbStreamsDeserializationSchema"),
        (lambda: source(**{"flink.stream.initpos": "AT_TIMESTAMP"}).build(), "LATEST or TRIM_HORIZON"),
        (
            lambda: source(**{"flink.dynamodbstreams.getrecords.empty.mindelay": "soon"}).build(),
            "'soon'",
        ),
        (lambda: DynamoDbStreamsSource.builder().set_stream_arn(ARN).build(), "no AWS region"),
        (lambda: DynamoDbSink.builder().build(), "has no table"),
        (lambda: DynamoDbSink.builder().set_table_name(""), "no name of a DynamoDB table"),
        (lambda: DynamoDbSink.builder().set_table_name("totals").build(), "no AWS region"),
        (lambda: sink().set_element_converter({}), "no function of a record"),
        (lambda: sink().set_overwrite_by_partition_keys("id"), "no list of names"),
        (lambda: sink().set_max_batch_size(26).build(), r"(?s)max_batch_size is 26.*25"),
        (lambda: sink().set_max_record_size_in_bytes(1 << 20).build(), "max_record_size_in_bytes"),
        (lambda: sink().set_max_batch_size_in_bytes(0).build(), "max_batch_size_in_bytes is 0"),
        (lambda: sink().set_max_in_flight_requests(0).build(), "max_in_flight_requests is 0"),
        (lambda: sink().set_max_time_in_buffer_ms(0).build(), "max_time_in_buffer_ms is 0"),
        (lambda: sink().set_max_buffered_requests(3).build(), "smaller than max_batch_size"),
        (lambda: DynamoDbLookup.builder().build(), "has no table"),
        (lambda: ChangelogRows("a", "a"), "no names of fields"),
        (lambda: ChangelogRows(""), "no names of fields"),
    ],
)
def test_what_does_not_fit_is_refused_at_once(build, message):
    with pytest.raises(ConfigurationError, match=message):
        build()


def test_properties():
    assert starting_position({}).place is Place.LATEST
    assert starting_position({"flink.stream.initpos": "trim_horizon"}).place is Place.TRIM_HORIZON
    options = read_options({"flink.shard.discovery.intervalmillis": "2 s"})
    assert (options.discovery_ms, options.interval_ms, options.empty_interval_ms) == (2_000, 250, 1_000)


def test_properties_that_nothing_reads_are_warned_of(caplog):
    with caplog.at_level(logging.WARNING):
        source(**{"flink.stream.initpso": "LATEST"}).build()
    assert '"flink.stream.initpso" of a DynamoDB source has no effect' in caplog.text


def test_shards_are_given_in_turn_and_stay_where_they_are():
    assign = AssignInTurn()
    shards = [DynamoDbShard(ARN, f"shardId-{number}") for number in range(4)]
    numbers = [assign(shard, 2) for shard in shards]

    assert numbers == [0, 1, 2, 3]
    assert [assign(shard, 2) for shard in reversed(shards)] == [3, 2, 1, 0]


def change(name, new=None, old=None):
    told = {
        "eventName": name,
        "eventID": "e1",
        "dynamodb": {
            "ApproximateCreationDateTime": datetime.datetime(2026, 1, 31, tzinfo=datetime.UTC),
            "Keys": {"id": {"S": "7"}},
            "SequenceNumber": "100",
            **({} if new is None else {"NewImage": {"id": {"S": "7"}, "v": {"N": str(new)}}}),
            **({} if old is None else {"OldImage": {"id": {"S": "7"}, "v": {"N": str(old)}}}),
        },
    }
    return DynamoDbStreamsRecord.of(ARN, "shardId-1", told)


@pytest.mark.parametrize(
    ("record", "rows"),
    [
        (change("INSERT", new=1), [(RowKind.INSERT, "7", 1)]),
        (change("MODIFY", new=2, old=1), [(RowKind.UPDATE_BEFORE, "7", 1), (RowKind.UPDATE_AFTER, "7", 2)]),
        (change("MODIFY", new=2), [(RowKind.UPDATE_AFTER, "7", 2)]),
        (change("REMOVE", old=2), [(RowKind.DELETE, "7", 2)]),
        (change("REMOVE"), [(RowKind.DELETE, "7", None)]),
    ],
)
def test_changes_are_rows_with_kinds(record, rows):
    made = ChangelogRows("id", "v").deserialize(record, ARN, "shardId-1")
    assert [(row.get_row_kind(), row.id, row.v) for row in made] == rows


def test_rows_have_the_fields_of_the_item_by_default():
    assert ChangelogRows().deserialize(change("INSERT", new=1), ARN, "s") == [Row(id="7", v=1)]


@pytest.mark.parametrize("record", [change("MODIFY"), change("RENAME", new=1)])
def test_changes_without_rows(record):
    with pytest.raises(TypeMismatchError):
        ChangelogRows().deserialize(record, ARN, "s")


def test_dead_letters_show_the_change():
    shown = json.loads(bytes(change("MODIFY", new=2, old=1)))
    assert shown["keys"] == {"id": "7"} and shown["new_image"]["v"] == "2" and shown["event_name"] == "MODIFY"
