"""Tables of DynamoDB as a sink, by DynamoDB Local; jobs whose server and slots are killed."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterable
from typing import Any

import pytest

from millstream.base.errors import ConfigurationError, SinkError, TypeMismatchError
from millstream.common import WatermarkStrategy
from millstream.datastream.connectors.dynamodb import (
    DynamoDbSink,
    DynamoDbSinkBuilder,
    DynamoDbWriteRequest,
    Patience,
)
from millstream.datastream.connectors.number_seq import NumberSequenceSource
from millstream.spi.batch import Rows
from millstream.spi.sink import WriterContext
from millstream.testing import FailurePoint, MiniCluster, SinkTarget, check_sink
from millstream.types.row import Row, RowKind
from servers.aws_front import AwsFront, refuse
from servers.dynamodb import DynamoDbServer, DynamoDbTable
from servers.kinesis import KinesisServer, aws_properties

SHORT = Patience(total_s=0.3)
LONG = Patience(total_s=60)
RECORDS = 600


def builder(table: DynamoDbTable, endpoint: str | None = None) -> DynamoDbSinkBuilder:
    return (
        DynamoDbSink.builder()
        .set_dynamo_db_properties(aws_properties(endpoint or table.server.endpoint))
        .set_table_name(table.name)
        .set_patience(SHORT)
    )


def write(sink: DynamoDbSink, values: Iterable[Any]) -> None:
    writer = sink.build_writer(WriterContext("job", "sink", 0, 1, 0, began_ms=5))
    writer.open()
    try:
        writer.write(Rows(list(values)), watermark_ms=0, now_ms=0)
        writer.prepare_commit(now_ms=0, checkpoint=True, end_of_input=True)
    finally:
        writer.close()


def items(*numbers: int, **more: Any) -> list[dict[str, Any]]:
    return [{"id": str(number), **more} for number in numbers]


def in_part(request, ask):
    """Take every second write."""
    ((table, writes),) = request["RequestItems"].items()
    status, answer = ask({"RequestItems": {table: writes[::2]}})
    return status, {**answer, "UnprocessedItems": {table: writes[1::2]} if writes[1:] else {}}


def take_none(request, ask):
    return 200, {"UnprocessedItems": request["RequestItems"]}


@pytest.mark.long
@pytest.mark.timeout(1_200)
def test_sink_keeps_the_contract(dynamodb):
    def new_target() -> SinkTarget:
        table = dynamodb.new_table()
        sink = builder(table).set_patience(LONG).set_element_converter(lambda value: {"id": str(value)})
        sink.set_max_in_flight_requests(4)  # the server writes one batch at a time
        return SinkTarget(sink.build(), lambda: [item["id"] for item in table.items()])

    check_sink(new_target, parallelisms=((2, 1),))


class TestWrites:
    def test_all_are_put(self, dynamodb):
        table = dynamodb.new_table()
        write(builder(table).build(), items(*range(110), v=[1.5, None, b"x"]))

        assert table.items() == sorted(
            items(*range(110), v=[1.5, None, b"x"]), key=lambda item: (len(item["id"]), item["id"])
        )

    def test_rows_are_written_by_their_kinds(self, dynamodb):
        table = dynamodb.new_table()
        table.put(items(1, 2, 3, v=0))
        rows = [
            Row.of_kind(RowKind.UPDATE_BEFORE, id="1", v=0),
            Row.of_kind(RowKind.UPDATE_AFTER, id="1", v=5),
            Row.of_kind(RowKind.DELETE, id="2", v=0),
            Row(id="4", v=None),
        ]
        write(builder(table).build(), rows)

        assert table.items() == [{"id": "1", "v": 5}, {"id": "3", "v": 0}, {"id": "4"}]

    def test_converter_says_what_is_written(self, dynamodb):
        table = dynamodb.new_table(sort="n")
        table.put([{"id": "1", "n": 1}, {"id": "1", "n": 2}])

        def convert(record):
            if record is None:
                return None
            return DynamoDbWriteRequest.delete({"id": "1", "n": record})

        write(builder(table).set_element_converter(convert).build(), [None, 1, 7])
        assert table.items() == [{"id": "1", "n": 2}]

    def test_last_write_of_a_key_is_what_is_there(self, dynamodb):
        """Batches of one key each overtake others, but none of the same key."""
        table = dynamodb.new_table()
        sink = builder(table).set_max_batch_size(2).set_max_in_flight_requests(8).build()
        write(sink, [{"id": str(number % 3), "v": number} for number in range(90)])

        assert table.items() == [{"id": str(each), "v": 87 + each} for each in range(3)]

    def test_puts_and_deletions_of_a_key_in_a_batch(self, dynamodb):
        table = dynamodb.new_table()
        put, delete = Row(id="1", v=1), Row.of_kind(RowKind.DELETE, id="1", v=1)
        write(builder(table).build(), [put, delete, put, Row(id="2", v=1), delete])

        assert table.items() == [{"id": "2", "v": 1}]

    def test_item_that_is_too_large(self, dynamodb):
        """The limit is DynamoDB's own: what we take it takes."""
        table = dynamodb.new_table()
        sink = builder(table).build()
        fits = 409_600 - len("id") - len("1") - len("v")
        write(sink, items(1, v="x" * fits))

        assert len(table.items()) == 1
        with pytest.raises(SinkError, match=r"(?s)an item of 409601 bytes.*'id'.*409600"):
            write(sink, items(1, v="x" * (fits + 1)))

    @pytest.mark.parametrize("item", [{"v": 1}, {"id": ""}, {"id": 1}])
    def test_keys_that_are_none(self, dynamodb, item):
        with pytest.raises(TypeMismatchError, match='key attribute "id"'):
            write(builder(dynamodb.new_table()).build(), [item])


class TestTrouble:
    def test_writes_that_are_not_processed_are_sent_again(self, dynamodb):
        table = dynamodb.new_table()
        with AwsFront(dynamodb.port) as front:
            front.react("BatchWriteItem", in_part, take_none, in_part)
            write(builder(table, front.endpoint).set_patience(LONG).build(), items(*range(60)))

        assert table.items() == items(*range(60))

    def test_writes_that_are_not_processed_fail_the_job_if_it_says_so(self, dynamodb):
        with AwsFront(dynamodb.port) as front:
            front.react("BatchWriteItem", in_part)
            sink = builder(dynamodb.new_table(), front.endpoint).set_fail_on_error(True).build()
            with pytest.raises(SinkError, match="1 of 3 items were not processed"):
                write(sink, items(1, 2, 3))

    def test_patience_ends_when_nothing_is_processed(self, dynamodb):
        with AwsFront(dynamodb.port) as front:
            front.react("BatchWriteItem", *[take_none] * 100)
            with pytest.raises(SinkError, match=r"(?s)were not processed.*have it raised"):
                write(builder(dynamodb.new_table(), front.endpoint).build(), items(1))

    @pytest.mark.parametrize("code", ["ProvisionedThroughputExceededException", "ThrottlingException"])
    def test_request_that_is_throttled_is_repeated(self, dynamodb, code):
        table = dynamodb.new_table()
        with AwsFront(dynamodb.port) as front:
            front.react("BatchWriteItem", *[refuse(code)] * 2)
            write(builder(table, front.endpoint).set_patience(LONG).build(), items(1))
        assert table.items() == items(1)

    def test_no_table(self, dynamodb):
        sink = builder(DynamoDbTable(dynamodb, "nowhere")).build()
        with pytest.raises(SinkError, match=r"(?s)ResourceNotFoundException.*make it before the job starts"):
            sink.check()

    def test_table_that_is_removed(self, dynamodb):
        table = dynamodb.new_table()
        sink = builder(table).build()
        writer = sink.build_writer(WriterContext("job", "sink", 0, 1, 0, began_ms=5))
        writer.open()
        table.remove()
        writer.write(Rows(items(1)), watermark_ms=0, now_ms=0)
        with pytest.raises(SinkError, match="ResourceNotFoundException"):
            writer.prepare_commit(now_ms=0, checkpoint=True, end_of_input=True)
        writer.close()

    def test_other_keys_than_those_of_the_table(self, dynamodb):
        table = dynamodb.new_table(sort="n")
        with pytest.raises(ConfigurationError, match="keys of table .* are id, n, not id"):
            builder(table).set_overwrite_by_partition_keys(["id"]).build().check()

    def test_who_may_not_look_may_write(self, dynamodb):
        table = dynamodb.new_table()
        twice = [{"id": "1", "v": 1}, {"id": "1", "v": 2}]
        with AwsFront(dynamodb.port) as front:
            front.react("DescribeTable", *[refuse("AccessDeniedException")] * 3)
            sink = builder(table, front.endpoint)
            sink.build().check()
            with pytest.raises(SinkError, match=r"(?s)duplicates.*set_overwrite_by_partition_keys"):
                write(sink.build(), twice)
            write(sink.set_overwrite_by_partition_keys(["id"]).build(), twice)
        assert table.items() == [{"id": "1", "v": 2}]

    def test_login_that_is_refused(self, dynamodb):
        message = f"The security token of {KinesisServer.access_key} is invalid."
        with AwsFront(dynamodb.port) as front:
            front.react("DescribeTable", refuse("UnrecognizedClientException", message))
            sink = builder(dynamodb.new_table(), front.endpoint).set_patience(LONG).build()
            with pytest.raises(SinkError, match="Check the credentials") as failed:
                sink.check()
        assert KinesisServer.access_key not in str(failed.value)

    def test_server_that_is_down_is_named_without_secrets(self, dynamodb):
        sink = builder(DynamoDbTable(dynamodb, "some"), "http://127.0.0.1:1").build()
        with pytest.raises(SinkError, match="127.0.0.1:1") as failed:
            sink.check()
        for secret in (KinesisServer.access_key, KinesisServer.secret_key):
            assert secret not in str(failed.value) + repr(sink) + repr(failed.value.__cause__)

    @pytest.mark.long
    def test_server_is_restarted_in_the_middle(self, dynamodb):
        table = dynamodb.new_table()
        writer = (
            builder(table)
            .set_patience(LONG)
            .build()
            .build_writer(WriterContext("job", "sink", 0, 1, 0, began_ms=5))
        )
        writer.open()
        writer.write(Rows(items(*range(30))), watermark_ms=0, now_ms=0)
        dynamodb.stop()
        dynamodb.start()
        writer.write(Rows(items(*range(30, 60))), watermark_ms=0, now_ms=0)
        writer.prepare_commit(now_ms=0, checkpoint=True, end_of_input=True)
        writer.close()

        assert table.items() == items(*range(60))


def write_numbers(table: DynamoDbTable, cluster: MiniCluster) -> None:
    """Run a job that writes numbers."""
    environment = cluster.environment()
    numbers = environment.from_source(
        NumberSequenceSource(0, RECORDS - 1), WatermarkStrategy.no_watermarks(), "numbers"
    )
    sink = builder(table).set_patience(LONG).set_max_in_flight_requests(4)
    sink.set_element_converter(lambda value: {"id": str(value), "v": value})
    numbers.sink_to(sink.build())
    environment.execute()


def kill_while_running(server: DynamoDbServer, job: threading.Thread) -> int:
    """Kill it again and again; from this thread, as servers end with the thread that started them."""
    kills = 0
    job.join(0.3)
    while job.is_alive():
        server.stop()
        time.sleep(0.2)
        server.start()
        kills += 1
        job.join(2)
    return kills


@pytest.mark.slow
@pytest.mark.parametrize("point", [FailurePoint.BEFORE_COMMIT])
def test_job_that_fails_writes_every_item_once(dynamodb, point):
    table = dynamodb.new_table()
    with MiniCluster(parallelism=2, options={"millstream.epoch.fixed-records": 50}) as cluster:
        cluster.fail_at(point, 4)
        write_numbers(table, cluster)
        assert cluster.failures

    assert table.items() == [{"id": str(number), "v": number} for number in range(RECORDS)]


@pytest.mark.long
@pytest.mark.parametrize("point", [None, FailurePoint.AFTER_CHECKPOINT, FailurePoint.AFTER_COMMIT])
def test_nothing_is_lost_when_server_and_slots_are_killed(dynamodb, point):
    table = dynamodb.new_table()
    with MiniCluster(parallelism=2, options={"millstream.epoch.fixed-records": 10}) as cluster:
        if point is not None:
            cluster.fail_at(point, 5)
        job = threading.Thread(target=write_numbers, args=(table, cluster))
        job.start()
        assert kill_while_running(dynamodb, job) > 0

    assert table.items() == [{"id": str(number), "v": number} for number in range(RECORDS)]
