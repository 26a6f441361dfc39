"""Changes of DynamoDB's tables as a source, from DynamoDB Local: it closes shards, and forgets records, as AWS does."""

from __future__ import annotations

import threading
import time
from collections import Counter
from typing import Any

import pytest

from millstream.base.errors import ConfigurationError, MalformedRecordError, SourceError
from millstream.common import WatermarkStrategy
from millstream.connectors.shards.positions import Place, ReadEnd, ShardPosition
from millstream.datastream import OutputTag
from millstream.datastream.connectors.dynamodb import (
    ChangelogRows,
    DynamoDbStreamsDeserializationSchema,
    DynamoDbStreamsSource,
    DynamoDbStreamsSourceBuilder,
    MalformedPolicy,
    Patience,
)
from millstream.spi.source import PlanRequest, RangeEnd, SplitEnumerator
from millstream.testing import FailurePoint, MiniCluster, SourceRun, check_source
from millstream.types.row import RowKind
from servers.aws_front import AwsFront, refuse
from servers.dynamodb import DynamoDbServer, DynamoDbTable
from servers.kinesis import KinesisServer

SHORT = Patience(total_s=0.3)
LONG = Patience(total_s=30)
READS = "flink.dynamodbstreams.getrecords"
AT_ONCE = {
    f"{READS}.nonempty.mindelay": "0 ms",
    f"{READS}.empty.mindelay": "0 ms",
    "flink.shard.discovery.intervalmillis": "0 ms",
}
BOTH = "NEW_AND_OLD_IMAGES"


class Numbers(DynamoDbStreamsDeserializationSchema):
    """The number of the item behind a change; of one that was removed none."""

    def deserialize(self, record, stream, shard_id):
        if record.new_image is not None:
            yield int(record.new_image["v"])


def builder(
    table: DynamoDbTable, start: str = "TRIM_HORIZON", arn: str | None = None, **config: Any
) -> DynamoDbStreamsSourceBuilder:
    properties = {**table.server.properties, **AT_ONCE, "flink.stream.initpos": start, **config}
    new = DynamoDbStreamsSource.builder().set_stream_arn(arn or table.stream_arn)
    return new.set_source_config(properties).set_deserialization_schema(Numbers()).set_patience(SHORT)


def add(table: DynamoDbTable, *numbers: int) -> None:
    table.put({"id": str(number % 50), "v": number} for number in numbers)


def epochs(run: SourceRun, count: int) -> list[Any]:
    for _ in range(count):
        run.epoch()
    return [value for values in run.read for value in values]


def until_silent(run: SourceRun) -> list[Any]:
    while not run.is_silent:
        run.epoch()
    run.close()
    return [value for values in run.read for value in values]


def rolled_over(server: DynamoDbServer) -> DynamoDbTable:
    """A table whose stream has three shards, one behind the other."""
    table = server.new_table(view=BOTH)
    for part in range(3):
        add(table, *range(part * 20, part * 20 + 20))
        if part < 2:
            server.roll_over()
    return table


@pytest.mark.long
@pytest.mark.timeout(1_200)
def test_bounded_source_keeps_the_contract(dynamodb):
    source = builder(rolled_over(dynamodb)).set_bounded().build()
    check_source(source, expected=range(60), parallelisms=(1, 2, 3), budgets=(1, 9, 1_000))


@pytest.mark.long
@pytest.mark.timeout(1_200)
def test_nothing_to_read_keeps_the_contract(dynamodb):
    source = builder(dynamodb.new_table(view=BOTH)).set_bounded().build()
    check_source(source, expected=[], parallelisms=(1, 2))


@pytest.mark.long
def test_much_is_read(dynamodb):
    table = dynamodb.new_table(view="NEW_IMAGE")
    table.put({"id": str(number), "v": number} for number in range(3_000))
    run = SourceRun(builder(table).set_bounded().build(), 2, 700)

    assert sorted(run.run()) == list(range(3_000))


class TestChanges:
    def test_changes_are_rows_with_kinds_and_times(self, dynamodb):
        table = dynamodb.new_table(view=BOTH)
        before = int(time.time() // 60) * 60_000  # DynamoDB Local tells minutes
        table.put([{"id": "1", "v": 1}])
        table.put([{"id": "1", "v": 2, "w": b"x"}])
        table.delete([{"id": "1"}])
        source = builder(table).set_deserialization_schema(ChangelogRows("id", "v", "w"))
        run = SourceRun(source.build(), 1, 100)
        rows = [(row.get_row_kind(), row.v, row.w) for row in until_silent(run)]

        assert rows == [
            (RowKind.INSERT, 1, None),
            (RowKind.UPDATE_BEFORE, 1, None),
            (RowKind.UPDATE_AFTER, 2, b"x"),
            (RowKind.DELETE, 2, b"x"),
        ]
        ((_, records),) = run.splits.items()
        assert all(before <= timestamp <= before + 120_000 for _, timestamp in records)

    def test_writes_that_change_nothing_are_no_changes(self, dynamodb):
        table = dynamodb.new_table(view=BOTH)
        for _ in range(3):
            table.put([{"id": "1", "v": 1}])
        assert until_silent(SourceRun(builder(table).build(), 1, 100)) == [1]

    @pytest.mark.parametrize("view", ["KEYS_ONLY", "OLD_IMAGE"])
    def test_streams_without_new_images_make_no_rows(self, dynamodb, view):
        table = dynamodb.new_table(view=view)
        table.put([{"id": "1", "v": 1}])
        source = builder(table).set_deserialization_schema(ChangelogRows())
        with pytest.raises(ConfigurationError, match=f"holds {view}: no rows can be made"):
            source.build().build_enumerator(1, None)

        class Keys(DynamoDbStreamsDeserializationSchema):
            def deserialize(self, record, stream, shard_id):
                return [record.keys["id"]]

        run = SourceRun(builder(table).set_deserialization_schema(Keys()).build(), 1, 100)
        assert until_silent(run) == ["1"]

    def test_changes_that_do_not_parse(self, dynamodb):
        table = dynamodb.new_table(view=BOTH)
        table.put([{"id": "1", "v": 1}, {"id": "2", "v": "two"}, {"id": "3", "v": 3}])
        source = builder(table).set_bounded()
        with pytest.raises(MalformedRecordError, match=r"(?s)shardId-.*, sequence number"):
            SourceRun(source.build(), 1, 100).run()
        assert SourceRun(source.set_malformed_policy(MalformedPolicy.skip()).build(), 1, 100).run() == [1, 3]

        tag = OutputTag("malformed")
        source.set_malformed_policy(MalformedPolicy.dead_letters(tag))
        with MiniCluster(parallelism=1) as cluster:
            none = WatermarkStrategy.no_watermarks()
            numbers = cluster.environment().from_source(source.build(), none, "numbers")
            (letter,) = cluster.collect(numbers.get_side_output(tag))
        assert b'"v": "two"' in letter.message


class TestStart:
    def test_latest_begins_with_what_is_written_after_the_start(self, dynamodb):
        table = rolled_over(dynamodb)
        run = SourceRun(builder(table, "LATEST").build(), 1, 100)
        add(table, *range(60, 65))
        dynamodb.roll_over()
        add(table, *range(65, 70))
        assert until_silent(run) == list(range(60, 70))

    @pytest.mark.long
    def test_latest_of_a_job_that_failed_before_it_read_anything(self, dynamodb):
        """0 … 3 │ an hour │ started │ 4 … 8 │ restored: the start is remembered, by its minute"""
        table = dynamodb.new_table(view=BOTH)
        add(table, *range(4))
        dynamodb.age(1)
        run = SourceRun(builder(table, "LATEST").build(), 1, 100)
        snapshot = run.snapshot()
        run.close()
        add(table, *range(4, 9))

        restored = SourceRun(builder(table, "LATEST").build(), 1, 3, restored=snapshot)
        assert until_silent(restored) == list(range(4, 9))

    def test_what_comes_later_is_read_too(self, dynamodb):
        table = dynamodb.new_table(view=BOTH)
        run = SourceRun(builder(table).build(), 1, 100)
        epochs(run, 2)
        add(table, *range(5))
        assert until_silent(run) == list(range(5))


class TestShards:
    def test_children_come_after_their_parents(self, dynamodb):
        run = SourceRun(builder(rolled_over(dynamodb)).build(), 3, 7)
        order: list[str] = []
        while not run.is_silent:
            run.epoch()
            order += [name for name, records in run.splits.items() if records and name not in order]
        run.close()

        read = [[int(text) for text, _ in run.splits[name]] for name in order]
        assert read == [list(range(20)), list(range(20, 40)), list(range(40, 60))]

    def test_shards_roll_over_while_they_are_read(self, dynamodb):
        table = dynamodb.new_table(view=BOTH)
        run = SourceRun(builder(table).build(), 2, 7)
        for step in range(6):
            add(table, *range(step * 20, step * 20 + 20))
            if step % 2:
                dynamodb.roll_over()
            run.epoch()
        assert Counter(until_silent(run)) == Counter(range(120))

    def test_snapshot_in_the_middle_goes_on_with_children(self, dynamodb):
        table = dynamodb.new_table(view=BOTH)
        add(table, *range(10))
        run = SourceRun(builder(table).build(), 1, 4)
        read = epochs(run, 1)
        snapshot = run.snapshot()
        run.close()
        dynamodb.roll_over()
        add(table, *range(10, 20))

        assert read + until_silent(SourceRun(builder(table).build(), 2, 4, restored=snapshot)) == list(
            range(20)
        )

    def test_shards_stay_with_their_subtasks_behind_a_restore(self, dynamodb):
        source = builder(rolled_over(dynamodb)).set_bounded().build()
        enumerator = source.build_enumerator(3, None)

        def owner(planner: SplitEnumerator) -> tuple[int, str]:
            ((subtask, (planned,)),) = planner.plan(PlanRequest(3, 100, 0)).ranges.items()
            return subtask, planned.split_id

        _, first = owner(enumerator)
        end = ReadEnd(ShardPosition(Place.BEHIND, "20"), wait_ms=0)
        enumerator.advance([RangeEnd(first, end, finished=True, records=20)])
        restored = source.build_enumerator(3, enumerator.snapshot())

        assert owner(restored) == owner(enumerator) != (0, first)

    def test_children_that_are_listed_late_are_asked_for_again(self, dynamodb):
        table = dynamodb.new_table(view=BOTH)
        add(table, 1)
        config = {"flink.shard.discovery.intervalmillis": "1 h"}

        def childless(request, ask):
            status, answer = ask(request)
            answer["StreamDescription"]["Shards"] = answer["StreamDescription"]["Shards"][:1]
            return status, answer

        with AwsFront(dynamodb.port) as front:
            run = SourceRun(builder(table, **{"aws.endpoint": front.endpoint}, **config).build(), 1, 100)
            dynamodb.roll_over()
            add(table, 2)
            front.react("DescribeStream", childless, childless)
            deadline = time.monotonic() + 20
            while len(run.read[0]) < 2 and time.monotonic() < deadline:
                run.epoch()
                time.sleep(0.01)
            run.close()
        assert run.read[0] == [1, 2]

    def test_listings_of_many_pages(self, dynamodb):
        table = rolled_over(dynamodb)

        def in_pages(request, ask):
            return ask({**request, "Limit": 1})

        with AwsFront(dynamodb.port) as front:
            front.react("DescribeStream", *[in_pages] * 20)
            run = SourceRun(builder(table, **{"aws.endpoint": front.endpoint}).set_bounded().build(), 1, 100)
            assert run.run() == list(range(60))
            assert front.asked["DescribeStream"] >= 3


@pytest.mark.long
class TestForgotten:
    """These make the records of all tables old."""

    def test_records_that_are_gone_fail_the_job(self, dynamodb):
        table = rolled_over(dynamodb)
        run = SourceRun(builder(table).build(), 1, 5)
        epochs(run, 1)
        snapshot = run.snapshot()
        run.close()
        dynamodb.age(30)
        with pytest.raises(SourceError, match=r"(?s)were lost|ResourceNotFoundException"):
            until_silent(SourceRun(builder(table).build(), 1, 100, restored=snapshot))

    def test_shard_that_is_not_listed_any_more(self, dynamodb):
        table = dynamodb.new_table(view=BOTH)
        add(table, 1, 2)
        run = SourceRun(builder(table).build(), 1, 1)
        epochs(run, 1)
        snapshot = run.snapshot()
        run.close()

        def forget(request, ask):
            status, answer = ask(request)
            answer["StreamDescription"]["Shards"] = []
            return status, answer

        with AwsFront(dynamodb.port) as front:
            front.react("DescribeStream", forget)
            source = builder(table, **{"aws.endpoint": front.endpoint}).build()
            with pytest.raises(SourceError, match=r"(?s)were lost: it is not listed.*24 hours"):
                source.build_enumerator(1, snapshot)

    def test_trimmed_records_are_told_with_the_position(self, dynamodb):
        table = dynamodb.new_table(view=BOTH)
        add(table, 1, 2, 3)
        run = SourceRun(builder(table).build(), 1, 1)
        epochs(run, 1)
        snapshot = run.snapshot()
        run.close()
        with AwsFront(dynamodb.port) as front:
            front.react("GetShardIterator", refuse("TrimmedDataAccessException"))
            source = builder(table, **{"aws.endpoint": front.endpoint}).build()
            restored = SourceRun(source, 1, 100, restored=snapshot)
            with pytest.raises(SourceError, match=r"(?s)were lost.*read up to \d+\."):
                restored.epoch()


class TestReads:
    def run(self, table: DynamoDbTable, front: AwsFront, **config: Any) -> SourceRun:
        return SourceRun(builder(table, **{"aws.endpoint": front.endpoint}, **config).build(), 1, 100)

    def test_empty_shard_is_read_less_often(self, dynamodb):
        table = dynamodb.new_table(view=BOTH)
        add(table, 1)
        with AwsFront(dynamodb.port) as front:
            run = self.run(table, front, **{f"{READS}.empty.mindelay": "100 s"})
            epochs(run, 10)
            run.close()
            assert front.asked["GetRecords"] == 2

    @pytest.mark.parametrize("code", ["LimitExceededException", "ProvisionedThroughputExceededException"])
    def test_throttled_reads_are_repeated(self, dynamodb, code, caplog):
        table = dynamodb.new_table(view=BOTH)
        add(table, 1, 2)
        config = {"flink.dynamodbstreams.backoff.mindelayduration": "4 ms"}
        with AwsFront(dynamodb.port) as front:
            front.react("GetRecords", *[refuse(code)] * 3)
            run = self.run(table, front, **config)
            deadline = time.monotonic() + 20
            while not run.read[0] and time.monotonic() < deadline:
                run.epoch()
                time.sleep(0.002)
            run.close()
        assert run.read[0] == [1, 2]
        assert caplog.text.count("it is read less often") == 1

    def test_iterator_that_has_expired_is_made_anew(self, dynamodb):
        table = dynamodb.new_table(view=BOTH)
        add(table, *range(4))
        with AwsFront(dynamodb.port) as front:
            run = self.run(table, front)
            epochs(run, 1)
            front.react("GetRecords", refuse("ExpiredIteratorException"))
            add(table, *range(4, 8))
            read = epochs(run, 3)
            run.close()
        assert read == list(range(8))


class TestTrouble:
    ARN = "arn:aws:dynamodb:us-east-1:1:table/nothing/stream/2026-01-31T12:00:00.000"

    def test_server_that_is_down_is_named_without_secrets(self, dynamodb):
        table = DynamoDbTable(dynamodb, "nothing")
        source = builder(table, arn=self.ARN, **{"aws.endpoint": "http://127.0.0.1:1"}).build()
        with pytest.raises(SourceError, match="127.0.0.1:1") as failed:
            source.build_enumerator(1, None)
        for secret in (KinesisServer.access_key, KinesisServer.secret_key):
            assert secret not in str(failed.value) + repr(source) + repr(failed.value.__cause__)

    def test_login_that_is_refused(self, dynamodb):
        message = f"The security token of {KinesisServer.access_key} is invalid."
        with AwsFront(dynamodb.port) as front:
            front.react("DescribeStream", refuse("UnrecognizedClientException", message))
            table = DynamoDbTable(dynamodb, "nothing")
            source = builder(table, arn=self.ARN, **{"aws.endpoint": front.endpoint}).set_patience(LONG)
            with pytest.raises(SourceError, match="Check the credentials") as failed:
                source.build().build_enumerator(1, None)
        assert KinesisServer.access_key not in str(failed.value)

    def test_no_stream(self, dynamodb):
        source = builder(DynamoDbTable(dynamodb, "nothing"), arn=self.ARN).build()
        with pytest.raises(SourceError, match=r"(?s)no DynamoDB stream .*LatestStreamArn"):
            source.build_enumerator(1, None)

    def test_server_is_restarted_in_the_middle(self, dynamodb):
        table = dynamodb.new_table(view=BOTH)
        add(table, *range(5))
        run = SourceRun(builder(table).set_patience(LONG).build(), 1, 100)
        epochs(run, 1)
        dynamodb.stop()
        dynamodb.start()
        add(table, *range(5, 8))
        assert until_silent(run) == list(range(8))

    @pytest.mark.long
    def test_server_that_is_down_at_the_start_is_waited_for(self, dynamodb):
        table = dynamodb.new_table(view=BOTH)
        add(table, *range(5))
        source = builder(table).set_patience(LONG).set_bounded().build()
        dynamodb.stop()
        found: list[Any] = []
        reading = threading.Thread(target=lambda: found.extend(SourceRun(source, 1, 100).run()))
        reading.start()
        time.sleep(0.5)
        dynamodb.start()  # by this thread: servers end with the thread that started them
        reading.join(30)
        assert found == list(range(5))


@pytest.mark.slow
@pytest.mark.parametrize(
    "point",
    [
        FailurePoint.BEFORE_COMMIT,
        pytest.param(FailurePoint.AFTER_EPOCH, marks=pytest.mark.long),
        pytest.param(FailurePoint.AFTER_CHECKPOINT, marks=pytest.mark.long),
    ],
)
def test_job_that_fails_reads_every_change_once(dynamodb, point):
    table = rolled_over(dynamodb)
    source = builder(table).set_bounded().set_patience(LONG).build()
    with MiniCluster(parallelism=2, options={"millstream.epoch.fixed-records": 5}) as cluster:
        cluster.fail_at(point, 5)
        numbers = cluster.environment().from_source(source, WatermarkStrategy.no_watermarks(), "numbers")
        assert sorted(cluster.collect(numbers)) == list(range(60))
