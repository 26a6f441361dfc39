"""Tables of topics, on a Kafka server: what one side writes, a client or the other side reads."""

from __future__ import annotations

import datetime
import json
import uuid
from decimal import Decimal

import pytest

from millstream.table import StreamTableEnvironment

pytestmark = pytest.mark.long


@pytest.fixture
def topic(kafka):
    return kafka.create_topic(f"sql-{uuid.uuid4().hex[:12]}", 1)


def declare(tables, kafka, topic, name, columns, options, connector="kafka"):
    bounded = "'scan.bounded.mode' = 'latest-offset'"
    if connector == "kafka":
        bounded += ", 'scan.startup.mode' = 'earliest-offset'"
    tables.execute_sql(
        f"CREATE TABLE {name} ({columns}) WITH ('connector' = '{connector}', 'topic' = '{topic}', "
        f"'properties.bootstrap.servers' = '{kafka.bootstrap}', {bounded}, {options})"
    )


def produce(kafka, topic, messages):
    from confluent_kafka import Producer

    producer = Producer({"bootstrap.servers": kafka.bootstrap})
    for key, value in messages:
        producer.produce(topic, value, key)
    producer.flush(60)


def consume(kafka, topic, count):
    from confluent_kafka import Consumer

    consumer = Consumer(
        {"bootstrap.servers": kafka.bootstrap, "group.id": uuid.uuid4().hex, "auto.offset.reset": "earliest"}
    )
    consumer.subscribe([topic])
    found = []
    while len(found) < count:
        found += [(each.key(), each.value()) for each in consumer.consume(count, 60) if each.error() is None]
    consumer.close()
    return found


def test_rows_go_into_a_topic_and_come_back(tables, rows, kafka, topic):
    columns = "id INT, name STRING, price DECIMAL(10, 2), ts TIMESTAMP(3), t TIME, l TIMESTAMP_LTZ(3)"
    declare(tables, kafka, topic, "k", columns, "'format' = 'json'")
    tables.execute_sql(
        "INSERT INTO k VALUES (1, 'a', 1.5, TIMESTAMP '2024-01-31 10:00:00.5', TIME '01:02:03', "
        "TO_TIMESTAMP_LTZ(1700000000000, 3)), (2, CAST(NULL AS STRING), 2, CAST(NULL AS TIMESTAMP(3)), "
        "CAST(NULL AS TIME), CAST(NULL AS TIMESTAMP_LTZ(3)))"
    ).wait()
    first = json.loads(consume(kafka, topic, 2)[0][1])
    assert (first["id"], first["name"], first["ts"]) == (1, "a", "2024-01-31 10:00:00.500")
    assert (first["t"], first["l"]) == ("01:02:03", "2023-11-14 22:13:20.000Z")
    found = rows("SELECT id, name, price, ts, t FROM k")
    assert found == [
        (1, "a", Decimal("1.50"), datetime.datetime(2024, 1, 31, 10, 0, 0, 500000), datetime.time(1, 2, 3)),
        (2, None, Decimal("2.00"), None, None),
    ]


def test_keys_and_metadata_are_columns(tables, rows, kafka, topic):
    produce(kafka, topic, [(b'{"id": 7}', b'{"name": "x"}'), (b'{"id": 8}', b'{"name": "y"}')])
    columns = (
        "k_id INT, name STRING, o BIGINT METADATA FROM 'offset' VIRTUAL, `partition` INT METADATA VIRTUAL"
    )
    options = (
        "'key.format' = 'json', 'key.fields' = 'k_id', 'key.fields-prefix' = 'k_', 'value.format' = 'json', "
        "'value.fields-include' = 'EXCEPT_KEY'"
    )
    declare(tables, kafka, topic, "k", columns, options)
    assert rows("SELECT * FROM k") == [(7, "x", 0, 0), (8, "y", 1, 0)]
    assert rows("SELECT o, k_id FROM k") == [(0, 7), (1, 8)]
    tables.execute_sql("INSERT INTO k VALUES (9, 'z')").wait()
    assert consume(kafka, topic, 3)[2] == (b'{"id":9}', b'{"name":"z"}')


def test_changes_of_debezium_are_changes_of_the_table(tables, rows, kafka, topic):
    def change(op, before, after):
        return None, json.dumps({"op": op, "before": before, "after": after}).encode()

    a, b = {"id": 1, "n": 10}, {"id": 1, "n": 20}
    produce(kafka, topic, [change("c", None, a), change("u", a, b), change("c", None, {"id": 2, "n": 5})])
    declare(tables, kafka, topic, "k", "id INT, n INT", "'format' = 'debezium-json'")
    with tables.execute_sql("SELECT * FROM k").collect() as found:
        kinds = [(str(row.get_row_kind()), tuple(row)) for row in found]
    assert kinds == [("+I", (1, 10)), ("-U", (1, 10)), ("+U", (1, 20)), ("+I", (2, 5))]


def test_upserts_replace_and_tombstones_delete(tables, rows, kafka, topic):
    columns = "word STRING, n BIGINT, PRIMARY KEY (word) NOT ENFORCED"
    options = "'key.format' = 'json', 'value.format' = 'json'"
    declare(tables, kafka, topic, "u", columns, options, "upsert-kafka")
    tables.execute_sql(
        "INSERT INTO u SELECT w, COUNT(*) FROM (VALUES ('a'), ('b'), ('a')) AS t (w) GROUP BY w"
    ).wait()
    produce(kafka, topic, [(b'{"word": "b"}', None), (b'{"word": "c"}', b'{"word": "c", "n": 3}')])
    left = {}
    with tables.execute_sql("SELECT * FROM u").collect() as found:
        for row in found:
            word, n = tuple(row)
            if str(row.get_row_kind()) in ("+I", "+U"):
                left[word] = n
            elif left.get(word) == n:
                del left[word]
    assert left == {"a": 2, "c": 3}


@pytest.mark.parametrize("records", [None, 30])
def test_a_partition_that_is_read_after_another_is_not_late(new_environment, kafka, records):
    topic = kafka.create_topic(f"sql-{uuid.uuid4().hex[:12]}", 2)
    producer = kafka.producer()
    for second in range(100):
        for partition in range(2):
            at = f"2024-01-31 10:{second // 60:02}:{second % 60:02}"
            producer.produce(topic, json.dumps({"p": partition, "ts": at}).encode(), partition=partition)
    producer.flush(60)
    options = {"millstream.epoch.fixed-records": records} if records else {}
    tables = StreamTableEnvironment.create(new_environment("local", 1, options))
    columns = "p INT, ts TIMESTAMP(3), WATERMARK FOR ts AS ts - INTERVAL '1' SECOND"
    declare(tables, kafka, topic, "k", columns, "'format' = 'json'")
    query = (
        "SELECT window_start, COUNT(*), SUM(p) FROM TABLE(TUMBLE(TABLE k, DESCRIPTOR(ts), INTERVAL '1' SECOND)) "
        "GROUP BY window_start, window_end"
    )
    with tables.execute_sql(query).collect() as found:
        counts = sorted(tuple(row) for row in found)
    start = datetime.datetime(2024, 1, 31, 10)
    assert counts == [(start + datetime.timedelta(seconds=second), 2, 1) for second in range(100)]
