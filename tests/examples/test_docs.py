"""Every block of Python in README.md and docs/ runs, locally and on Spark, with the names its page takes for granted.

Blocks are parts of programs. Each has a function here: it yields the names that the block finds, and what in its text
stands for something else; the block runs; then the function looks at what came of it. A block without a function
fails, so does a function without its block.
"""

from __future__ import annotations

import ast
import asyncio
import itertools
import json
import logging
import re
import sqlite3
import sys
import threading
import time
import uuid
from collections import Counter
from contextlib import contextmanager
from datetime import datetime
from pathlib import Path
from types import SimpleNamespace

import cloudpickle
import pyarrow as pa
import pytest
from deltalake import DeltaTable, write_deltalake
from pyarrow import parquet
from pyiceberg.catalog import load_catalog

from doc_pages import is_program
from millstream import common, datastream
from millstream.base.errors import SourceError, StateAccessError
from millstream.common import (
    Configuration,
    Encoder,
    Row,
    Time,
    Types,
    WatermarkStrategy,
    accumulators,
    watermark_strategy,
)
from millstream.common.functions import CheckpointedFunction
from millstream.connectors.index_splits import IndexEnumerator
from millstream.datastream import StreamExecutionEnvironment, functions, state, window
from millstream.datastream.connectors import file_system
from millstream.datastream.connectors.hybrid_source import HybridSource
from millstream.datastream.connectors.kafka import KafkaOffsetsInitializer, KafkaSource
from millstream.datastream.connectors.number_seq import NumberSequenceSource
from millstream.datastream.formats.avro import AvroBulkWriters
from millstream.datastream.functions import SourceFunction
from millstream.graph.launcher import spark_session
from millstream.runtime.control.channel import find_jobs
from millstream.runtime.control.commands import TriggerSavepoint
from millstream.runtime.control.views import CheckpointsView, JobView
from millstream.spi.sink import Committer, Sink, SinkWriter
from millstream.spi.source import Boundedness, Source
from servers.cassandra import CassandraServer
from servers.dynamodb import DynamoDbServer, DynamoDbTable
from servers.kinesis import KinesisServer, KinesisStream
from servers.mariadb import MariaDbServer
from servers.mongodb import MongoStandIn
from servers.mqtt import MqttServer
from servers.nats import NatsServer, NatsStream
from servers.opensearch import OpenSearchServer
from servers.postgres import PostgresServer
from servers.pulsar import PulsarServer, PulsarTopic
from servers.rabbitmq import RabbitServer
from servers.redis import RedisServer
from servers.search import SearchIndex
from servers.web import WebServer
from servers.websocket import WebSocketServer

ROOT = Path(__file__).parents[2]
PAGES = [
    ROOT / "README.md",
    *(page for page in sorted((ROOT / "docs").rglob("*.md")) if not is_program(page)),
]
EXAMPLES = {}


def blocks():
    for page in PAGES:
        name = page.name if page.parent == ROOT else page.relative_to(ROOT / "docs").as_posix()
        for number, text in enumerate(re.findall(r"^```python\n(.*?)^```", page.read_text(), re.S | re.M)):
            yield name, number, text


BLOCKS = {(page, number): text for page, number, text in blocks()}


def example(page, number):
    def register(function):
        EXAMPLES[page, number] = function
        return function

    return register


def public(*modules):
    """The names that a program has imported by then."""
    return {
        name: getattr(module, name) for module in modules for name in dir(module) if not name.startswith("_")
    }


@pytest.fixture(scope="module", autouse=True)
def functions_by_value():
    """Slots cannot import tests."""
    module = sys.modules[__name__]
    cloudpickle.register_pickle_by_value(module)
    yield
    cloudpickle.unregister_pickle_by_value(module)


@pytest.fixture(params=["local", pytest.param("local[2]", marks=pytest.mark.spark)])
def env(request, tmp_path):
    options = {
        "execution.target": request.param,
        "millstream.epoch.fixed-records": 5,
        "execution.checkpointing.dir": str(tmp_path / "checkpoints"),
    }
    environment = StreamExecutionEnvironment.get_execution_environment(Configuration.from_dict(options))
    return environment.set_parallelism(1)


def test_every_block_of_python_has_an_example_here():
    assert set(EXAMPLES) == set(BLOCKS)


LONG_PAGES = {
    "connectors/cassandra.md",
    "connectors/dynamodb.md",
    "connectors/elasticsearch.md",
    "connectors/mongodb.md",
    "connectors/pulsar.md",
}
"""Those whose servers take long to start."""


def runs():
    """Return each block on each executor; programs of connectors run on Spark only where there is time for it."""
    for page, number in sorted(BLOCKS):
        for target in ("local", "local[2]"):
            on_spark = target != "local"
            is_long = page in LONG_PAGES or (on_spark and page.startswith("connectors/"))
            marks = [*([pytest.mark.spark] if on_spark else []), *([pytest.mark.long] if is_long else [])]
            yield pytest.param(target, page, number, marks=marks)


@pytest.mark.parametrize(("env", "page", "number"), list(runs()), indirect=["env"])
def test_block_does_what_its_page_says(page, number, env, tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    names = public(
        common, functions, state, window, file_system, watermark_strategy, accumulators, datastream
    )
    names |= {"__name__": "__main__", "env": env, "environment": env}
    steps = EXAMPLES[page, number](SimpleNamespace(env=env, path=tmp_path, capsys=capsys, names=names))
    more, written = next(steps)
    names |= more
    text = BLOCKS[page, number]
    for old, new in written.items():
        assert old in text
        text = text.replace(old, new)
    tree = ast.parse(text)
    last = tree.body.pop() if isinstance(tree.body[-1], ast.Expr) else None
    where = f"{page}, block {number}"
    exec(compile(tree, where, "exec"), names)
    if last is not None:
        names["result"] = eval(compile(ast.Expression(last.value), where, "eval"), names)
    with pytest.raises(StopIteration):
        next(steps)


def collect(stream):
    with stream.execute_and_collect() as results:
        return list(results)


class ByTime(watermark_strategy.TimestampAssigner):
    def extract_timestamp(self, value, record_timestamp):
        return value.time


def stamped(env, records):
    strategy = WatermarkStrategy.for_monotonous_timestamps().with_timestamp_assigner(ByTime())
    return env.from_collection(records).assign_timestamps_and_watermarks(strategy)


def record(**fields):
    return SimpleNamespace(**fields)


# README.md


@example("README.md", 0)
def sums(case):
    with pytest.MonkeyPatch.context() as patch:
        target = case.env._configuration.get("execution.target")
        patch.setenv("MILLSTREAM_CONFIG", json.dumps({"execution.target": target}))
        yield {}, {}
    expected = [f"({digit}, 100000, {sum(range(digit or 10, 1_000_001, 10))})" for digit in range(10)]
    printed = case.capsys.readouterr().out.splitlines()
    assert sorted(line.partition("> ")[2] or line for line in printed) == expected


# docs/async-io.md


@example("async-io.md", 0)
def enrich(case):
    class Client:
        asked = Counter()

        async def get(self, customer_id):
            await asyncio.sleep(0)
            Client.asked[customer_id] += 1
            if customer_id == 2 and Client.asked[2] == 1:
                raise ConnectionError
            return f"customer {customer_id}"

        async def close(self):
            pass

    async def connect():
        return Client()

    orders = case.env.from_collection([record(customer_id=n) for n in range(4)])
    yield {"connect": connect, "orders": orders}, {}
    results = [(order.customer_id, customer) for order, customer in collect(case.names["enriched"])]
    assert sorted(results) == [(n, f"customer {n}") for n in range(4)]


@example("async-io.md", 1)
def score(case):
    class Model:
        async def score(self, texts):
            return [len(text) for text in texts]

    texts = case.env.from_collection(["a", "bb", "ccc"])
    yield {"texts": texts, "load_model": Model}, {}
    assert collect(case.names["scored"]) == [1, 2, 3]


@example("async-io.md", 2)
def customers(case):
    with sqlite3.connect(case.path / "shop.db") as database:
        database.execute("CREATE TABLE customers (id INTEGER, name TEXT)")
        database.executemany("INSERT INTO customers VALUES (?, ?)", [(1, "ann"), (2, "bo")])
    database.close()
    orders = [record(customer_id=number % 3, amount=number) for number in range(6)]
    yield (
        {"orders": case.env.from_collection(orders)},
        {'"shop.db"': repr(str(case.path / "shop.db"))},
    )
    names = [None, "ann", "bo"]
    assert sorted(collect(case.names["enriched"])) == [(number, names[number % 3]) for number in range(6)]


# docs/cep.md


@example("cep.md", 0)
def small_then_large(case):
    rows = [("x", 3, 1_000), ("y", 900, 2_000), ("x", 600, 3_000), ("x", 700, 900_000)]
    payments = [record(card=card, amount=amount, time=time) for card, amount, time in rows]
    yield {"payments": stamped(case.env, payments)}, {}
    assert collect(case.names["found"]) == [("x", 600)]


@example("cep.md", 1)
def rising_prices(case):
    prices = [record(share="s", value=value, time=time) for time, value in enumerate([5, 3, 4, 6, 2])]
    yield {"prices": stamped(case.env, prices)}, {}
    assert collect(case.names["found"]) == [[3, 4, 6]]


@example("cep.md", 2)
def deliveries(case):
    hour = 3_600_000
    rows = [("p", "sent", 0), ("q", "sent", hour), ("p", "arrived", 30 * hour), ("q", "arrived", 60 * hour)]
    scans = [record(parcel=parcel, kind=kind, time=time) for parcel, kind, time in rows]
    yield {"scans": stamped(case.env, scans)}, {}
    assert collect(case.names["deliveries"]) == [("p", 30 * hour)]
    assert collect(case.names["lost"]) == [("q", 49 * hour)]


@example("cep.md", 3)
def patterns_of_limits(case):
    readings = [
        record(sensor="s", value=value, time=time) for time, value in enumerate([3, 4, 3, 9, 9, 4, 8])
    ]
    limits = [record(value=2, time=0), record(value=5, time=3)]
    yield {"readings": stamped(case.env, readings), "limits": stamped(case.env, limits)}, {}
    assert sorted(collect(case.names["found"])) == [(3, 4), (4, 3), (9, 9)]


@example("cep.md", 4)
def drawn_automaton(case):
    yield {}, {}
    page = (ROOT / "docs" / "cep.md").read_text()
    assert case.names["text"] in page


# docs/cep-examples.md


@example("cep-examples.md", 0)
def frauds(case):
    rows = [("x", 1, 0), ("y", 1, 1), ("x", 1, 2), ("x", 50, 3), ("x", 900, 4), ("y", 900, 5), ("x", 901, 6)]
    payments = [record(card=card, amount=amount, time=time * 1_000) for card, amount, time in rows]
    yield {"payments": stamped(case.env, payments)}, {}
    assert collect(case.names["frauds"]) == [("x", 2, 900)]


@example("cep-examples.md", 1)
def drifts(case):
    values = [5, 1, 2, 3, 4, 5, 6, 2, 3, 4, 3, 9]
    readings = [record(sensor="s", value=value, time=time * 1_000) for time, value in enumerate(values)]
    yield {"readings": stamped(case.env, readings)}, {}
    assert collect(case.names["drifts"]) == [("s", 4)]


@example("cep-examples.md", 2)
def carts(case):
    minute = 60_000
    rows = [("a", "cart", "hat", 0), ("b", "cart", "pen", 1), ("a", "pay", "", 20), ("b", "pay", "", 40)]
    clicks = [
        record(user=user, action=action, item=item, time=time * minute) for user, action, item, time in rows
    ]
    yield {"clicks": stamped(case.env, clicks)}, {}
    assert collect(case.names["bought"]) == [("a", "hat")]
    assert collect(case.names["abandoned"]) == [("b", "pen", 31 * minute)]


@example("cep-examples.md", 3)
def alarms(case):
    rows = [("a", 0), ("b", 0), ("a", 0), ("b", 0), ("a", 0), ("b", 0), ("a", 0), ("b", 1)]
    logins = [
        record(user=user, success=bool(good), time=time * 1_000) for time, (user, good) in enumerate(rows)
    ]
    yield {"logins": stamped(case.env, logins)}, {}
    assert collect(case.names["alarms"]) == [("a", 3)]


@example("cep-examples.md", 4)
def shapes(case):
    values = [10, 12, 11, 9, 10, 13, 14, 13, 15]
    prices = [record(share="s", value=value, time=time * 1_000) for time, value in enumerate(values)]
    yield {"prices": stamped(case.env, prices)}, {}
    assert collect(case.names["shapes"]) == [(12, 9, 13), (14, 13, 15)]


# docs/checkpoints.md


@example("checkpoints.md", 0)
def checkpointing(case):
    yield {}, {}
    assert case.env.get_checkpoint_config().get_checkpoint_interval() == 10_000
    assert case.env.get_default_savepoint_directory() == "s3://bucket/savepoints"


# docs/columns.md


def three_sales(case):
    return case.env.from_collection(
        [
            Row(shop="north", user=1, price=2.0),
            Row(shop="north", user=2, price=4.0),
            Row(shop="south", user=1, price=3.0),
        ]
    )


@example("columns.md", 0)
def totals_of_shops(case):
    yield {"pc": pytest.importorskip("pyarrow.compute")}, {}
    rows = [tuple(row) for row in collect(case.names["totals"])]
    assert sorted(rows) == [("north", 3.75, 1), ("south", 6.0, 1)]


@example("columns.md", 1)
def scores(case):
    yield {"pandas": pytest.importorskip("pandas"), "sales": three_sales(case)}, {}
    assert {row.score for row in collect(case.names["scores"])} <= {0.5, 1.0}


@example("columns.md", 2)
def running_totals(case):
    yield {"pandas": pytest.importorskip("pandas"), "sales": three_sales(case)}, {}
    last = dict(map(tuple, collect(case.names["running"])))
    assert last == {1: 5.0, 2: 4.0}


@example("columns.md", 3)
def typical_prices(case):
    records = [Row(shop="north", price=float(price), time=price * 1_000) for price in range(1, 120)]
    yield {"timed": stamped(case.env, records)}, {}
    rows = sorted(collect(case.names["typical"]), key=lambda row: row.window_start)
    assert [(row.shop, row.window_end, row.dearest) for row in rows] == [
        ("north", 60_000, 59.0),
        ("north", 120_000, 119.0),
    ]
    assert abs(rows[0].middle - 30) <= 0.3
    assert list(map(tuple, collect(case.names["rushes"]))) == [
        ("north", 1_000, 419_000, float(sum(range(120))))
    ]
    assert sorted(map(tuple, collect(case.names["sales"]))) == [(0, 60_000, 59), (60_000, 120_000, 60)]


# docs/connectors/hybrid.md


@example("connectors/hybrid.md", 0)
def history_then_numbers(case):
    folder = case.path / "history"
    folder.mkdir()
    (folder / "a.txt").write_text("".join(f"{number}\n" for number in range(1, 101)))
    yield {}, {'"history"': repr(str(folder))}
    assert collect(case.names["numbers"]) == list(range(1, 201))


@example("connectors/hybrid.md", 1)
def rest_of_the_numbers(case):
    yield {"HybridSource": HybridSource, "NumberSequenceSource": NumberSequenceSource}, {}
    source = case.names["source"]
    stream = case.env.from_source(source, WatermarkStrategy.no_watermarks(), "numbers")
    assert collect(stream) == list(range(1, 201))


# docs/connectors/writing-one.md


def new_databases(path):
    numbers = itertools.count()

    def new_database(rows, name=None):
        database = str(path / (name or f"{next(numbers)}.db"))
        with sqlite3.connect(database) as connection:
            connection.execute("CREATE TABLE visits (page TEXT, seconds INTEGER)")
            connection.executemany("INSERT INTO visits VALUES (?, ?)", rows)
        connection.close()
        return database

    return new_database


def connector(case):
    exec(BLOCKS["connectors/writing-one.md", 0], case.names)
    return new_databases(case.path)


@example("connectors/writing-one.md", 0)
def a_whole_connector(case):
    yield {}, {}
    assert len(BLOCKS["connectors/writing-one.md", 0].splitlines()) < 150
    source = case.names["TableSource"](str(case.path / "missing.db"), "visits")
    with pytest.raises(SourceError, match='table "visits" of .* cannot be read'):
        case.env.from_source(source, WatermarkStrategy.no_watermarks(), "visits").execute_and_collect()


@example("connectors/writing-one.md", 1)
def long_visits(case):
    new_database = connector(case)
    visits = [(f"page {number}", number) for number in range(100)]
    new_database(visits, "visits.db")
    long = new_database([], "long.db")
    yield {}, {'"visits.db"': repr(str(case.path / "visits.db")), '"long.db"': repr(long)}
    assert sorted(sqlite3.connect(long).execute("SELECT * FROM visits")) == sorted(visits[61:])


@example("connectors/writing-one.md", 2)
def a_connector_that_is_checked(case):
    new_database = connector(case)
    yield {}, {}
    if case.env._configuration.get("execution.target") == "local":  # the suites run nothing on Spark
        case.names["test_the_source_keeps_the_contract"](new_database)
        case.names["test_the_sink_publishes_exactly_once"](new_database)


@example("connectors/writing-one.md", 3)
def a_registered_connector(case):
    yield {}, {}
    assert case.names["SQLITE"].missing() == []


# docs/in-and-out.md


@example("in-and-out.md", 0)
def hourly_rides(case):
    yield {}, {}
    frame = case.names["frame"]
    assert sorted(frame.itertuples(index=False, name=None)) == [
        ("Oslo", 10, 3.5),
        ("Rome", 9, 8.0),
        ("Rome", 11, 2.5),
    ]
    assert list(frame.columns) == ["f0", "f1", "f2"]


@example("in-and-out.md", 1)
def summed(case):
    yield {"NumberSequenceSource": NumberSequenceSource}, {}
    assert case.names["total"] == 500_500


# docs/joins.md


@example("joins.md", 0)
def totals(case):
    orders = case.env.from_collection([record(user="a", amount=3), record(user="a", amount=4)])
    questions = case.env.from_collection([record(user="a"), record(user="b")])
    yield {"orders": orders, "questions": questions}, {}
    assert sorted(collect(case.names["result"]), key=repr) == [("a", 7), ("b", None)]


@example("joins.md", 1)
def limits(case):
    readings = case.env.from_collection([record(sensor="x", value=3.0), record(sensor="x", value=1.0)])
    rules = case.env.from_collection([record(sensor="x", limit=2.0)])
    yield {"readings": readings, "rules": rules}, {}
    assert [reading.value for reading in collect(case.names["result"])] == [3.0]


def orders_and_bills(case):
    orders = [record(user="a", time=n) for n in (0, 100_000)]
    bills = [record(user="a", time=n) for n in (30_000, 400_000)]
    return {
        "orders": stamped(case.env, orders),
        "bills": stamped(case.env, bills),
        "key": lambda each: each.user,
    }


@example("joins.md", 2)
def interval_join(case):
    names = orders_and_bills(case)
    yield {"a": names["orders"], "b": names["bills"], "key": names["key"]}, {}
    assert [times for _, _, *times in collect(case.names["result"])] == [[0, 30_000]]


@example("joins.md", 3)
def window_join(case):
    yield orders_and_bills(case), {}
    assert collect(case.names["result"]) == [(2, 1), (0, 1)]


# docs/operating.md


@example("operating.md", 0)
def operating(case):
    stream = case.env.from_source(
        NumberSequenceSource(1, 10**9), WatermarkStrategy.no_watermarks(), "numbers"
    ).uid("numbers")
    stream.filter(lambda value: value < 0).print()
    client = case.env.execute_async("operated")
    try:
        while client.get_job_status().result().name != "RUNNING":  # the test's own limit ends this
            time.sleep(0.05)
        (mine,) = [job for job in find_jobs() if job.job_id == str(client.get_job_id())]
        names = {"find_jobs": lambda: [mine], "JobView": JobView, "CheckpointsView": CheckpointsView}
        yield names | {"TriggerSavepoint": TriggerSavepoint}, {'"savepoints"': repr(str(case.path))}
        assert Path(case.names["path"]).is_dir()
        assert case.names["seen"].name == "operated"
    finally:
        client.cancel().result()


@example("operating.md", 1)
def json_log(case):
    shop = logging.getLogger("shop")
    try:
        yield {}, {}
        (handler,) = shop.handlers
        assert json.loads(handler.format(logging.makeLogRecord({"msg": "sold"})))["message"] == "sold"
    finally:
        shop.handlers.clear()


# docs/metrics.md


@example("metrics.md", 0)
def metrics(case):
    yield {}, {}
    case.env.from_collection([1]).map(case.names["Parse"]()).print()
    case.env.execute()


@example("metrics.md", 1)
def accumulated(case):
    lines = case.env.from_collection(["a b", "ccc"])
    yield {"lines": lines}, {'result.get_accumulator_result("words")': "result"}
    result = case.names["result"]
    assert result.get_accumulator_result("words") == 3
    assert result.get_accumulator_result("average length") == 3.0


@example("metrics.md", 2)
def parameters(case):
    class Context:
        @staticmethod
        def get_job_parameter(key, default):
            return case.env.get_config().get_global_job_parameters().get(key, default)

    yield {"runtime_context": Context}, {}
    assert case.names["result"] == "20"


# docs/connectors/jdbc.md


def shop(case):
    database = sqlite3.connect(case.path / "shop.db")
    database.execute("CREATE TABLE totals (shop TEXT PRIMARY KEY, cents INTEGER)")
    return database, {
        '"jdbc:postgresql://localhost:5432/shop"': f'"jdbc:sqlite:{case.path}/shop.db"',
    }


@example("connectors/jdbc.md", 0)
def jdbc_statement(case):
    database, written = shop(case)
    yield {}, written
    assert sorted(database.execute("SELECT * FROM totals")) == [("north", 9), ("south", 7)]
    database.close()


@example("connectors/jdbc.md", 1)
def jdbc_table(case):
    database, written = shop(case)
    exec(
        compile(
            BLOCKS["connectors/jdbc.md", 0].partition("\ntotals =")[0].replace(*written.popitem()), "", "exec"
        ),
        case.names,
    )
    kind = Types.ROW_NAMED(["shop", "cents"], [Types.STRING(), Types.LONG()])
    totals = case.env.from_collection([Row(shop="north", cents=5), Row(shop="north", cents=9)], kind)
    yield case.names | {"totals": totals}, {}
    assert database.execute("SELECT * FROM totals").fetchall() == [("north", 9)]
    database.close()


# docs/connectors/kafka.md


@pytest.fixture(scope="module", autouse=True)
def brokers(request):
    """The Kafka broker, started by the first block that wants it."""
    BROKERS.append(lambda: request.getfixturevalue("kafka"))
    yield
    BROKERS.pop()


BROKERS = []


@example("connectors/kafka.md", 0)
def kafka_clicks(case):
    broker, topic = BROKERS[0](), f"clicks-{uuid.uuid4().hex}"
    broker.create_topic(topic, 2)
    broker.produce(topic, ["/home", "/cart"])
    yield {}, {"localhost:9092": broker.bootstrap, '"clicks")\n    .set_group': f'"{topic}")\n    .set_group'}
    assert sorted(case.capsys.readouterr().out.split()) == ["/cart", "/home"]


@example("connectors/kafka.md", 1)
def kafka_changes(case):
    broker, topic = BROKERS[0](), f"clicks-{uuid.uuid4().hex}"
    broker.create_topic(topic)
    broker.produce(topic, ["1", None], keys=["a", "b"])
    source = case.names | {"KafkaSource": KafkaSource, "KafkaOffsetsInitializer": KafkaOffsetsInitializer}
    yield source, {"localhost:9092": broker.bootstrap, '"clicks"': f'"{topic}"'}
    assert collect(case.names["latest"]) == [("a", "1"), ("b", None)]


@example("connectors/kafka.md", 2)
def kafka_pages(case):
    broker, topic = BROKERS[0](), f"pages-{uuid.uuid4().hex}"
    broker.create_topic(topic)
    yield {}, {"localhost:9092": broker.bootstrap, '"pages"': f'"{topic}"', "clicks-to-pages": topic}
    assert [message.value() for message in broker.messages(topic)] == [b"/home", b"/cart"]


# docs/connectors/dynamic-kafka.md


@example("connectors/dynamic-kafka.md", 0)
def kafka_streams(case):
    broker, topic = BROKERS[0](), f"clicks-{uuid.uuid4().hex}"
    broker.create_topic(topic, 2)
    broker.produce(topic, ["/home", "/cart"])
    streams = {"clicks": {"west": {"topics": [topic], "servers": broker.bootstrap}}}
    path = case.path / "streams.json"
    path.write_text(json.dumps(streams))
    yield {}, {'"streams.json"': f'"{path}"'}
    assert sorted(case.capsys.readouterr().out.split()) == ["/cart", "/home"]


# docs/connectors/rabbitmq.md


@pytest.fixture(scope="module", autouse=True)
def rabbit():
    """Starts the broker for the first example that needs it."""
    started = []

    def broker():
        if not started:
            started.append(RabbitServer())
            started[0].start()
        return started[0]

    RABBITS.append(broker)
    yield
    RABBITS.pop()
    for server in started:
        server.close()


RABBITS = []


@example("connectors/rabbitmq.md", 0)
def rabbitmq_orders(case):
    broker = RABBITS[0]()
    orders, answers = (f"{name}-{uuid.uuid4().hex}" for name in ("orders", "answers"))
    broker.publish(orders, "tea", "milk", "bread", ids=True)
    case.env.configure(Configuration.from_dict({"millstream.execution.stop-when-idle": "8 s"}))
    yield (
        {},
        {"5672": str(broker.port), '"orders"': f'"{orders}"', '"answers"': f'"{answers}"'},
    )
    assert broker.take(answers) == [b"TEA", b"MILK", b"BREAD"]
    assert broker.count(orders) == 0


# docs/connectors/delta.md


@example("connectors/delta.md", 0)
def delta_orders(case):
    path = f"{case.path}/orders"
    yield {}, {"/data/orders": path}
    found = DeltaTable(path).to_pyarrow_table().to_pylist()
    assert sorted((row["shop"], row["cents"]) for row in found) == [("north", 5), ("north", 9), ("south", 7)]


@example("connectors/delta.md", 1)
def delta_cheap_orders(case):
    path = f"{case.path}/orders"
    orders = {"shop": ["north", "south", "north"], "cents": [5, 7, 9], "day": [1, 2, 3]}
    write_deltalake(path, pa.table(orders))
    yield {}, {"/data/orders": path}
    printed = case.capsys.readouterr().out
    assert printed.count("cents=") == 2 and "cents=5" in printed and "cents=7" in printed


# docs/connectors/iceberg.md


@example("connectors/iceberg.md", 0)
def iceberg_orders(case):
    yield {}, {"/data/": f"{case.path}/"}
    properties = {
        "type": "sql",
        "uri": f"sqlite:///{case.path}/catalog.db",
        "warehouse": f"file://{case.path}",
    }
    found = load_catalog("lake", **properties).load_table("sales.orders").scan().to_arrow().to_pylist()
    assert sorted((row["shop"], row["cents"]) for row in found) == [("north", 5), ("north", 9), ("south", 7)]


@example("connectors/iceberg.md", 1)
def iceberg_cheap_orders(case):
    properties = {
        "type": "sql",
        "uri": f"sqlite:///{case.path}/catalog.db",
        "warehouse": f"file://{case.path}/lake",
    }
    catalog = load_catalog("lake", **properties)
    catalog.create_namespace("sales")
    orders = pa.table({"shop": ["north", "south", "north"], "cents": [5, 7, 9]})
    catalog.create_table("sales.orders", orders.schema).append(orders)
    yield {}, {"/data/": f"{case.path}/"}
    printed = case.capsys.readouterr().out
    assert printed.count("cents=") == 2 and "cents=5" in printed and "cents=7" in printed


# docs/connectors/spark.md


@example("connectors/spark.md", 0)
def spark_kilometres(case):
    spark = spark_session(Configuration.from_dict({"execution.target": "local[2]"}))
    rides = [("Oslo", 3.5, 10), ("Rome", 8.0, 9), ("Oslo", 1.5, 10), ("Oslo", 2.0, 11)]
    rows = [(city, km, datetime(2024, 5, 1, hour)) for city, km, hour in rides]
    spark.createDataFrame(rows, "city string, km double, at timestamp").createOrReplaceTempView("rides")
    table = f"kilometres_{uuid.uuid4().hex}"
    spark.sql(f"CREATE TABLE {table} (city STRING, km DOUBLE) USING parquet LOCATION '{case.path}/table'")
    yield {"spark": spark}, {"/data/staging": f"{case.path}/staging", '"kilometres"': f'"{table}"'}
    try:
        found = [tuple(row) for row in spark.table(table).collect()]
        assert sorted(found) == [("Oslo", 2.0), ("Oslo", 5.0), ("Rome", 8.0)]
    finally:
        spark.sql(f"DROP TABLE {table}")


# docs/connectors/redis.md


@example("connectors/redis.md", 0)
def redis_totals(case):
    server = RedisServer(case.path)
    server.start()
    try:
        client = server.client()
        for stream in ("orders-north", "orders-south"):
            for cents in range(1, 6):
                client.xadd(stream, {"shop": stream[-5:], "cents": cents})
        yield {}, {"redis://localhost:6379/0": server.url()}
        seen = [(fields[b"shop"], int(fields[b"cents"])) for _, fields in client.xrange("totals")]
    finally:
        server.stop()
    assert sorted(seen) == [(shop, total) for shop in (b"north", b"south") for total in (1, 3, 6, 10, 15)]


# docs/connectors/elasticsearch.md


@example("connectors/elasticsearch.md", 0)
def documents_of_totals(case):
    server = OpenSearchServer(case.path)
    server.start()
    try:
        yield {}, {"localhost:9200": server.host}
        seen = SearchIndex(server, "totals").documents()
    finally:
        server.stop()
    assert seen == [("north", {"shop": "north", "cents": 1249}), ("south", {"shop": "south", "cents": 120})]


@example("connectors/elasticsearch.md", 1)
def orders_of_indices(case):
    server = OpenSearchServer(case.path)
    server.start()
    try:
        for shop, cents in (("north", [250, 80]), ("south", [120])):
            documents = {str(each): {"shop": shop, "cents": each, "id": each} for each in cents}
            SearchIndex(server, f"orders-{shop}").add(documents)
        yield {}, {"localhost:9200": server.host}
    finally:
        server.stop()
    printed = case.capsys.readouterr().out.splitlines()
    assert sorted(re.sub("^[0-9]> ", "", line) for line in printed) == ["north 250", "south 120"]


@example("connectors/elasticsearch.md", 2)
def customers_looked_up(case):
    server = OpenSearchServer(case.path)
    server.start()
    try:
        SearchIndex(server, "customers").add({"c1": {"name": "Ada", "age": 36}, "c2": {"name": "Alan"}})
        yield {}, {"localhost:9200": server.host}
    finally:
        server.stop()
    printed = case.capsys.readouterr().out.splitlines()
    assert sorted(re.sub("^[0-9]> ", "", line) for line in printed) == [
        "(Ada,250)",
        "(Alan,120)",
        "(nobody,80)",
    ]


# docs/connectors/cassandra.md


@example("connectors/cassandra.md", 0)
def cassandra_orders(case):
    server = CassandraServer()
    try:
        server.start()
        server.execute(
            "CREATE KEYSPACE shop WITH replication = {'class': 'SimpleStrategy', 'replication_factor': 1}"
        )
        server.execute("CREATE TABLE shop.orders (shop text, id bigint, cents int, PRIMARY KEY (shop, id))")
        server.execute("CREATE TABLE shop.totals (shop text PRIMARY KEY, cents int)")
        yield {}, {"9042": str(server.port)}
        orders = server.execute("SELECT shop, id, cents FROM shop.orders")
        totals = server.execute("SELECT shop, cents FROM shop.totals")
    finally:
        server.close()
    assert sorted(map(tuple, orders)) == [("north", 1, 250), ("north", 2, 999), ("south", 3, 120)]
    assert sorted(map(tuple, totals)) == [("north", 1249), ("south", 120)]


@example("connectors/cassandra.md", 1)
def cassandra_reads(case):
    server = CassandraServer()
    try:
        server.start()
        server.execute(
            "CREATE KEYSPACE shop WITH replication = {'class': 'SimpleStrategy', 'replication_factor': 1}"
        )
        server.execute("CREATE TABLE shop.orders (id bigint PRIMARY KEY, shop text, cents int)")
        for order in ((1, "north", 250), (2, "south", 999)):
            server.execute("INSERT INTO shop.orders (id, shop, cents) VALUES (%s, %s, %s)", *order)
        yield {}, {"9042": str(server.port)}
    finally:
        server.close()
    printed = case.capsys.readouterr().out.splitlines()
    assert sorted(re.sub("^[0-9]> ", "", line) for line in printed) == ["999", "north", "south"]


@example("connectors/cassandra.md", 2)
def cassandra_customers(case):
    server = CassandraServer()
    try:
        server.start()
        server.execute(
            "CREATE KEYSPACE shop WITH replication = {'class': 'SimpleStrategy', 'replication_factor': 1}"
        )
        server.execute("CREATE TABLE shop.customers (id text PRIMARY KEY, name text)")
        for customer in (("c1", "Ada"), ("c2", "Alan")):
            server.execute("INSERT INTO shop.customers (id, name) VALUES (%s, %s)", *customer)
        yield {}, {"9042": str(server.port)}
    finally:
        server.close()
    printed = [line.partition("> ")[2] or line for line in case.capsys.readouterr().out.splitlines()]
    assert sorted(map(ast.literal_eval, printed)) == [("Ada", 250), ("Alan", 120), ("nobody", 80)]


# docs/connectors/mongodb.md


@example("connectors/mongodb.md", 0)
def mongodb_totals(case):
    server = MongoStandIn(case.path)
    server.start()
    try:
        prices = [("north", 250), ("south", 120), ("north", 999), ("south", 100)]
        server.client.shop.orders.insert_many([{"shop": shop, "cents": cents} for shop, cents in prices])
        yield {}, {"mongodb://localhost:27017": server.uri()}
        totals = list(server.client.shop.totals.find().sort("_id"))
    finally:
        server.stop()
    assert totals == [
        {"_id": "north", "shop": "north", "cents": 1249},
        {"_id": "south", "shop": "south", "cents": 120},
    ]


# docs/connectors/kinesis.md


@example("connectors/kinesis.md", 0)
def kinesis_totals(case):
    server = KinesisServer(case.path)
    server.start()
    try:
        orders, totals = KinesisStream(server, "orders"), KinesisStream(server, "totals")
        orders.make(2)
        totals.make()
        orders.add(["tea 3", "milk 1", "tea 4"])
        yield {}, {'{"aws.region": "eu-west-1"}': repr(server.properties)}
        seen = sorted(totals.values())
    finally:
        server.stop()
    assert seen[0] == "milk 1" and seen[-1] == "tea 7" and len(seen) == 3


# docs/connectors/dynamodb.md


@example("connectors/dynamodb.md", 0)
def dynamodb_totals(case):
    server = DynamoDbServer(case.path)
    server.start()
    try:
        orders, totals = DynamoDbTable(server, "orders"), DynamoDbTable(server, "totals")
        orders.make(view="NEW_AND_OLD_IMAGES")
        totals.make()
        orders.put([{"id": "1", "shop": "north", "cents": 250}, {"id": "2", "shop": "south", "cents": 120}])
        server.roll_over()
        orders.put([{"id": "3", "shop": "north", "cents": 999}, {"id": "2", "shop": "south", "cents": 80}])
        orders.delete([{"id": "1"}])
        arn = "arn:aws:dynamodb:eu-west-1:1:table/orders/stream/2026-01-31T12:00:00.000"
        aws = {**server.properties, "flink.dynamodbstreams.getrecords.empty.mindelay": "0 ms"}
        yield {}, {'{"aws.region": "eu-west-1"}': repr(aws), arn: orders.stream_arn}
        seen = totals.items()
    finally:
        server.stop()
    assert seen == [{"id": "north", "cents": 999}, {"id": "south", "cents": 80}]


@example("connectors/dynamodb.md", 1)
def dynamodb_customers_looked_up(case):
    server = DynamoDbServer(case.path)
    server.start()
    try:
        customers = DynamoDbTable(server, "customers")
        customers.make()
        customers.put([{"id": "c1", "name": "Ada", "age": 36}, {"id": "c2", "name": "Alan"}])
        yield {}, {'{"aws.region": "eu-west-1"}': repr(server.properties)}
    finally:
        server.stop()
    printed = case.capsys.readouterr().out.splitlines()
    assert sorted(re.sub("^[0-9]> ", "", line) for line in printed) == [
        "(Ada,250)",
        "(Alan,120)",
        "(nobody,80)",
    ]


# docs/connectors/nats.md


@example("connectors/nats.md", 0)
def nats_answers(case):
    server = NatsServer(case.path)
    server.start()
    try:
        orders, answers = NatsStream(server, "ORDERS"), NatsStream(server, "ANSWERS")
        orders.make(subjects=["orders.>"])
        answers.make(subjects=["answers.>"])
        orders.publish("orders.north.paid", ["tea", "milk"])
        orders.publish("orders.north.open", ["bread"])
        orders.publish("orders.south.paid", ["rice"])
        yield {}, {"nats://localhost:4222": server.url()}
        seen = [(subject, data) for subject, data, _ in answers.read()]
    finally:
        server.stop()
    assert sorted(seen) == [
        ("answers.north", b"north 1 tea"),
        ("answers.north", b"north 2 milk"),
        ("answers.south", b"south 4 rice"),
    ]


# docs/connectors/mqtt.md


@example("connectors/mqtt.md", 0)
def mqtt_alarms(case):
    server = MqttServer(case.path)
    server.start()
    try:
        for oven, celsius in (("north", 95), ("south", 20)):
            server.publish(f"plant/{oven}/celsius", [celsius], retain=True)
        case.env.configure(Configuration.from_dict({"millstream.execution.stop-when-idle": "8 s"}))
        yield {}, {"mqtt://localhost:1883": server.url}
        client = server.connect()
        client.subscribe("alarms/#")
        assert client.texts(1) == ["north 95.0"]
        client.close()
    finally:
        server.stop()


# docs/connectors/http.md


@example("connectors/http.md", 0)
def http_bills(case):
    server = WebServer()
    server.items = [{"order": number, "customer": "ab"[number % 2]} for number in range(6)]
    server.users = {"a": {"name": "Ada"}, "b": {"name": "Bo"}}
    server.start()
    try:
        yield {}, {"http://localhost:8080": server.url}
    finally:
        server.stop()
    assert server.texts() == [{"order": number, "customer": ["Ada", "Bo"][number % 2]} for number in range(6)]


# docs/connectors/websocket.md


@example("connectors/websocket.md", 0)
def websocket_prices(case):
    server = WebSocketServer()
    server.wants_first_message = True
    server.items.extend(["tea 5", "milk 7"])
    server.start()
    try:
        case.env.configure(Configuration.from_dict({"millstream.execution.stop-when-idle": "8 s"}))
        yield {}, {"ws://localhost:8765": server.url}
    finally:
        server.stop()
    assert server.taken == ["TEA 5", "MILK 7"]
    assert set(server.first_messages) == {'{"subscribe": "prices"}', '{"publish": "prices"}'}


# docs/connectors/pulsar.md


@example("connectors/pulsar.md", 0)
def pulsar_orders(case):
    server = PulsarServer(case.path)
    server.start()
    try:
        prefix = "persistent://public/default/"
        for name in ("orders", "answers"):
            server.admin("PUT", f"persistent/public/default/{name}")
        PulsarTopic(server, f"{prefix}orders").add(["tea", "milk"], partition_key="north", event_timestamp=5)
        yield {}, {"pulsar://localhost:6650": server.url, "http://localhost:8080": server.admin_url}
        answers = PulsarTopic(server, f"{prefix}answers").messages()
    finally:
        server.stop()
    seen = [(each.data(), each.partition_key(), each.event_timestamp()) for each in answers]
    assert seen == [(b"north TEA", "north", 5), (b"north MILK", "north", 5)]


# docs/connectors/postgres.md


@example("connectors/postgres.md", 0)
def postgres_to_parquet(case):
    server = PostgresServer()
    try:
        server.start()
        with server.new_database() as database:
            database.execute("CREATE TABLE orders (id int PRIMARY KEY, cents int)")
            database.execute("INSERT INTO orders SELECT n, n * 7 FROM generate_series(1, 1000) n")
            address = "postgresql://reader:secret@localhost:5432/shop"
            yield {}, {address: database.url, '"lake/orders"': repr(str(case.path / "lake"))}
    finally:
        server.close()
    files = [path for path in (case.path / "lake").rglob("part-*") if path.is_file()]
    rows = [tuple(row.values()) for path in files for row in parquet.read_table(path).to_pylist()]
    assert sorted(rows) == [(n, n * 7) for n in range(1, 1001)]


def update_when_read(database):
    """Wait until the tables were read and changes are, and make one."""
    deadline = time.monotonic() + 60
    while not database.execute(
        "SELECT 1 FROM pg_replication_slots WHERE active_pid IN"
        " (SELECT pid FROM pg_stat_replication WHERE state = 'streaming')"
    ):
        assert time.monotonic() < deadline
        time.sleep(0.1)
    database.execute("UPDATE orders SET cents = 300 WHERE id = 2")


@example("connectors/postgres.md", 1)
def postgres_changes(case):
    case.env.configure(Configuration.from_dict({"millstream.execution.stop-when-idle": "6 s"}))
    server = PostgresServer()
    try:
        server.start()
        with server.new_database() as database:
            database.execute("CREATE TABLE orders (id int PRIMARY KEY, cents int)")
            database.execute("ALTER TABLE orders REPLICA IDENTITY FULL")
            database.execute("INSERT INTO orders VALUES (1, 100), (2, 200)")
            later = threading.Thread(target=update_when_read, args=[database])
            later.start()
            yield {}, {"postgresql://replicator:secret@localhost:5432/shop": database.url}
            later.join()
    finally:
        server.close()
    printed = [line.partition("> ")[2] or line for line in case.capsys.readouterr().out.splitlines()]
    assert sorted(printed[:2]) == ["+I 1: 100", "+I 2: 200"]
    assert printed[2:] == ["-U 2: 200", "+U 2: 300"]


@example("connectors/jdbc.md", 2)
def jdbc_query(case):
    path = case.path / "shop.db"
    with sqlite3.connect(path) as connection:
        connection.execute("CREATE TABLE totals (id INTEGER PRIMARY KEY, cents INTEGER)")
        connection.executemany("INSERT INTO totals VALUES (?, ?)", [(n, n * 7) for n in range(1, 251)])
    connection.close()
    yield {}, {"/path/to/shop.db": str(path)}
    printed = [line.partition("> ")[2] or line for line in case.capsys.readouterr().out.splitlines()]
    assert sorted(map(ast.literal_eval, printed)) == [(n, n * 7) for n in range(1, 251)]


@example("connectors/jdbc.md", 3)
def jdbc_customers(case):
    path = case.path / "shop.db"
    with sqlite3.connect(path) as connection:
        connection.execute("CREATE TABLE customers (id TEXT PRIMARY KEY, name TEXT)")
        connection.executemany("INSERT INTO customers VALUES (?, ?)", [("c1", "Ada"), ("c2", "Alan")])
    connection.close()
    yield {}, {"/path/to/shop.db": str(path)}
    printed = [line.partition("> ")[2] or line for line in case.capsys.readouterr().out.splitlines()]
    assert sorted(map(ast.literal_eval, printed)) == [("Ada", 250), ("Alan", 120), ("nobody", 80)]


# docs/connectors/mysql.md


@contextmanager
def mariadb_with_orders():
    server = MariaDbServer()
    try:
        server.start()
        with server.new_database() as database:
            database.execute("CREATE TABLE orders (id int PRIMARY KEY, cents int)")
            database.execute("INSERT INTO orders VALUES (1, 100), (2, 200)")
            login = f"{database.user}:{database.password}"
            yield database, f"mysql://{login}@127.0.0.1:{server.port}/{database.name}"
    finally:
        server.close()


@example("connectors/mysql.md", 0)
def mysql_table(case):
    with mariadb_with_orders() as (_, url):
        yield {}, {"mysql://reader:secret@localhost:3306/shop": url}
    printed = [line.partition("> ")[2] or line for line in case.capsys.readouterr().out.splitlines()]
    assert sorted(printed) == ["1: 100", "2: 200"]


def update_when_streamed(database):
    """Wait until the tables were read and changes are, and make one."""
    deadline = time.monotonic() + 60
    while not database.execute("SELECT 1 FROM information_schema.processlist WHERE command = 'Binlog Dump'"):
        assert time.monotonic() < deadline
        time.sleep(0.1)
    database.execute("UPDATE orders SET cents = 300 WHERE id = 2")


@example("connectors/mysql.md", 1)
def mysql_changes(case):
    case.env.configure(Configuration.from_dict({"millstream.execution.stop-when-idle": "6 s"}))
    with mariadb_with_orders() as (database, url):
        later = threading.Thread(target=update_when_streamed, args=[database])
        later.start()
        yield {}, {"mysql://replicator:secret@localhost:3306/shop": url}
        later.join()
    printed = [line.partition("> ")[2] or line for line in case.capsys.readouterr().out.splitlines()]
    assert sorted(printed[:2]) == ["+I 1: 100", "+I 2: 200"]
    assert printed[2:] == ["-U 2: 200", "+U 2: 300"]


# docs/sinks.md


@example("sinks.md", 0)
def sqlite_sink(case):
    yield {}, {}
    case.env.enable_checkpointing(1)
    words = case.env.from_collection([("a", n) for n in range(12)])
    words.sink_to(case.names["SqliteSink"](str(case.path / "counts.db")))
    case.env.execute()
    rows = sqlite3.connect(case.path / "counts.db").execute("select * from counts").fetchall()
    assert sorted(rows) == [("a", n) for n in range(12)]


@example("sinks.md", 1)
def compacting_files(case):
    class There(file_system.FileSink):
        @staticmethod
        def for_row_format(base_path, encoder):
            assert base_path == "/data/out"
            return file_system.FileSink.for_row_format(str(case.path / "out"), encoder)

    yield {"FileSink": There, "Encoder": Encoder}, {}
    case.env.enable_checkpointing(1)
    case.env.from_collection([str(n) for n in range(30)], Types.STRING()).sink_to(case.names["sink"])
    case.env.execute()
    files = [path for path in (case.path / "out").rglob("[!.]*") if path.is_file()]
    assert sorted(line for path in files for line in path.read_text().split()) == sorted(map(str, range(30)))


# docs/formats.md


@example("formats.md", 0)
def avro(case):
    folder = case.path / "users"
    folder.mkdir()
    yield {}, {"/data/users": str(folder)}
    schema = case.names["user"]
    with open(folder / "a.avro", "wb") as file:
        writer = AvroBulkWriters.for_generic_record(schema).create(file)
        writer.add_elements([{"name": "ann", "age": 5}, {"name": "bo"}])
        writer.finish()
    rows = case.env.from_source(case.names["source"], WatermarkStrategy.no_watermarks(), "users")
    assert sorted(collect(rows.map(lambda row: (row.name, row.age)))) == [("ann", 5), ("bo", None)]
    assert case.names["messages"].deserialize(b"\x04bo\x00") == Row(name="bo", age=None)


@example("formats.md", 1)
def schema_registry(case):
    # tests/connectors/registry talks to a real one.
    yield {}, {}
    assert case.names["reads"].get_produced_type() == Types.ROW_NAMED(["amount"], [Types.LONG()])
    assert case.names["writes"]._subject == "orders-value"


@example("formats.md", 2)
def dead_letters(case):
    messages = [b"a", b"\xff", b"b"]
    yield {"fetch": lambda start, stop: messages[start:stop]}, {}

    class Feed(Source):
        reader = case.names["Reader"]

        def get_boundedness(self):
            return Boundedness.BOUNDED

        def build_enumerator(self, parallelism, restored):
            return IndexEnumerator([range(len(messages))], parallelism, restored)

        def build_reader(self, subtask_index, parallelism):
            return self.reader()

    stream = case.env.from_source(Feed(), WatermarkStrategy.no_watermarks(), "feed")
    dead = stream.get_side_output(case.names["DEAD"]).map(
        lambda letter: f"{letter.position}: {letter.message}"
    )
    assert sorted(collect(stream.union(dead))) == ["a", "b", "message 1: b'\\xff'"]


# docs/sources.md


@example("sources.md", 0)
def lines_of_folder(case):
    folder = case.path / "in"
    folder.mkdir()
    for name, length in {"a": 13, "b": 0, "c": 4}.items():
        (folder / name).write_text("".join(f"{name}{n}\n" for n in range(length)))
    yield {}, {}
    source = case.names["LinesOfFolder"](str(folder))
    lines = case.env.from_source(source, WatermarkStrategy.no_watermarks(), "lines")
    expected = [f"a{n}" for n in range(13)] + [f"c{n}" for n in range(4)]
    assert sorted(collect(lines)) == sorted(expected)


@example("sources.md", 1)
def json_lines(case):
    folder = case.path / "visits"
    folder.mkdir()
    lines = ['{"user":"ann","at":"2013-01-31 05:15:00","geo":{"city":"Bonn","x":1}}', '{"user":"bo"}']
    (folder / "a.json").write_text("\n".join(lines))
    yield {}, {"/data/visits": str(folder)}
    rows = case.env.from_source(case.names["source"], WatermarkStrategy.no_watermarks(), "visits")
    seen = collect(rows.map(lambda row: (row.user, str(row.at), row.geo and row.geo.city)))
    assert sorted(seen) == [("ann", "2013-01-31 05:15:00", "Bonn"), ("bo", "None", None)]


@example("sources.md", 2)
def generated_columns(case):
    yield {}, {"1_000_000": "210"}
    rows = case.env.from_source(case.names["source"], WatermarkStrategy.no_watermarks(), "readings")
    seen = collect(rows.map(lambda row: (row.sensor, row.celsius)))
    assert sorted(seen) == sorted((n % 100, 20 + n % 7 * 0.5) for n in range(210))


@example("sources.md", 3)
def from_queue(case):
    class Queue:
        sent = 0

        def get(self):
            self.sent += 1
            if self.sent == 3:
                sys._getframe(1).f_locals["self"].cancel()
            return record(body=f"m{self.sent}", time_ms=self.sent * 1000)

    yield {"connect": Queue}, {}
    assert collect(case.names["stream"]) == ["m1", "m2", "m3"]


@example("sources.md", 4)
def replaying(case):
    yield {}, {}

    class Replaying(SourceFunction, CheckpointedFunction):
        run = case.names["run"]

        def __init__(self, data):
            super().__init__()
            self.data = data

        def initialize_state(self, context):
            self.state = context.get_operator_state_store().get_list_state(state.ListStateDescriptor("at"))
            self.offset = max(self.state.get(), default=0)

        def snapshot_state(self, context):
            self.state.update([self.offset])

    case.env.enable_checkpointing(1)
    assert collect(case.env.add_source(Replaying("abc"))) == ["a", "b", "c"]


# docs/state-tools.md


def bootstrapped(case):
    from millstream.state_processor import KeyedBootstrap, SavepointWriter

    states = {"stats": (state.ValueStateDescriptor("stats"), 1)}
    bootstrap = KeyedBootstrap([("a", 1), ("b", 2)], 0, states)
    return SavepointWriter.new().with_operator("count", bootstrap).write(str(case.path / "saved"))


@example("state-tools.md", 0)
def reading(case):
    path = bootstrapped(case)
    # tests/spark has it read by Spark
    yield {}, {"checkpoints/fa85…/chk-5": path, 'reader.to_spark(spark, "count", "stats")': "frame"}
    assert sorted(case.capsys.readouterr().out.splitlines()) == ["a 1", "b 2"]
    assert sorted(case.names["frame"]["value"]) == [1, 2]


@example("state-tools.md", 1)
def writing(case):
    from millstream.state_processor import SavepointReader

    limits = state.MapStateDescriptor("limits")
    rows = [{"id": "a", "amount": 3}, {"id": "b", "amount": 4}]
    yield {"rows": rows, "limits": limits, "ValueStateDescriptor": state.ValueStateDescriptor}, {}
    reader = SavepointReader.read("savepoints/accounts")
    found = [(key, value) for key, _, value in reader.keyed_state("accounts", "balance")]
    assert sorted(found) == [("a", 3), ("b", 4)]
    assert reader.operator_state("rules", "limits").elements == {"low": 1}


@example("state-tools.md", 2)
def asking(case):
    class Keep(datastream.KeyedProcessFunction):
        def open(self, runtime_context):
            self.balance = runtime_context.get_state(state.ValueStateDescriptor("balance"))

        def process_element(self, value, ctx):
            self.balance.update(value * 2)

    class Waiting(SourceFunction):
        def run(self, ctx):
            ctx.collect(17)
            self.ended = asyncio.Event()
            while not self.ended.is_set():
                ctx.mark_as_temporarily_idle()

        def cancel(self):
            self.ended.set()

    numbers = case.env.add_source(Waiting())
    numbers.key_by(lambda number: number).process(Keep()).uid("accounts").print()

    def wait_for_record(client):
        for _ in range(1_000):
            try:
                return client.query_state("accounts", "balance", 17).result()
            except StateAccessError:
                asyncio.run(asyncio.sleep(0.01))
        raise AssertionError("the record did not come")

    asked = 'client.query_state("accounts", "balance", 17)'
    yield {"wait_for_record": wait_for_record}, {asked: f"wait_for_record(client)\n{asked}"}
    assert case.names["result"] == 34
    case.names["client"].cancel().result()


# docs/testing.md


@example("testing.md", 0)
def operator_by_hand(case):
    yield {}, {}
    case.names["test_counts_come_a_minute_behind_the_first_word"]()
    case.names["test_counts_survive_a_failure_and_another_parallelism"]()


@example("testing.md", 1)
def function_by_hand(case):
    yield {}, {}


@example("testing.md", 2)
def mini_cluster(case):
    yield {}, {}
    case.names["test_totals_are_right_although_the_job_fails"]()


@example("testing.md", 3)
def checked_source(case):
    source = {"__name__": "__main__"}  # what has no module is looked for in all of them
    exec(BLOCKS["sources.md", 0], source)
    yield {"LinesOfFolder": source["LinesOfFolder"]}, {}
    folder = case.path / "in"
    folder.mkdir()
    case.names["test_my_source_keeps_the_contract"](folder)


class FolderSink(Sink):
    """Stages lines in files that end with `.staged`, and publishes them under names that end with `.txt`."""

    def __init__(self, folder):
        self.folder = Path(folder)

    def build_writer(self, context):
        return FolderWriter(self.folder, context)

    def build_committer(self):
        return FolderCommitter()


class FolderWriter(SinkWriter):
    def __init__(self, folder, context):
        self.folder, self.context, self.lines, self.restored = folder, context, [], False

    def restore(self, snapshots, *, others):
        self.restored = True

    def snapshot(self):
        return ()

    def open(self):
        if self.restored or self.context.attempt:
            for path in self.folder.glob("*.staged"):
                if self.context.is_of_former(path.name):
                    path.unlink(missing_ok=True)

    def write(self, batch, *, watermark_ms, now_ms):
        self.lines += batch.values

    def prepare_commit(self, *, now_ms, checkpoint, end_of_input):
        if not self.lines or not (checkpoint or end_of_input):
            return []
        path = self.folder / f"{self.context.new_name()}.staged"
        path.write_text("".join(f"{line}\n" for line in self.lines))
        self.lines = []
        return [path]


class FolderCommitter(Committer):
    def commit(self, committables):
        for path in committables:
            if path.exists():
                path.rename(path.with_suffix(".txt"))

    def abort(self, committables):
        for path in committables:
            path.unlink(missing_ok=True)


@example("testing.md", 4)
def checked_sink(case):
    numbers = itertools.count()

    def new_folder():
        folder = case.path / str(next(numbers))
        folder.mkdir()
        return folder

    yield {"FolderSink": FolderSink}, {}
    case.names["test_my_sink_publishes_exactly_once"](new_folder)


# docs/time.md


@example("time.md", 0)
def strategies(case):
    stream = case.env.from_collection([record(time=5)])
    yield (
        {
            "MyAssigner": ByTime,
            "source": NumberSequenceSource(1, 3),
            "stream": stream,
            "Duration": common.Duration,
        },
        {},
    )
    strategy = case.names["strategy"]
    assert strategy.idle_timeout_ms == 60_000
    marked = stream.assign_timestamps_and_watermarks(strategy)

    class Stamps(datastream.ProcessFunction):
        def process_element(self, value, ctx):
            yield ctx.timestamp()

    assert collect(marked.process(Stamps())) == [5]


# docs/windows.md


@example("windows.md", 0)
def sliding(case):
    class Average(functions.AggregateFunction):
        def create_accumulator(self):
            return 0, 0

        def add(self, value, accumulator):
            return accumulator[0] + value[1], accumulator[1] + 1

        def get_result(self, accumulator):
            return accumulator[0] / accumulator[1]

        def merge(self, a, b):
            return a[0] + b[0], a[1] + b[1]

    class AddWindow(functions.ProcessWindowFunction):
        def process(self, key, context, elements):
            yield key, context.window().end, next(iter(elements))

        def clear(self, context):
            pass

    class Second(watermark_strategy.TimestampAssigner):
        def extract_timestamp(self, value, record_timestamp):
            return value[1] * 1000

    strategy = WatermarkStrategy.for_monotonous_timestamps().with_timestamp_assigner(Second())
    stream = case.env.from_collection([("a", 1), ("a", 3)]).assign_timestamps_and_watermarks(strategy)
    yield {"stream": stream, "Average": Average, "AddWindow": AddWindow, "Time": Time}, {}
    results = collect(case.names["result"])
    assert len(results) == 62
    assert ("a", 4_000, 2.0) in results
    assert ("a", 63_000, 3.0) in results


# typing.md


@example("typing.md", 0)
def types_for_checkers(case):
    yield {}, {"texts.execute_and_collect()  ": "all_of_them = list(texts.execute_and_collect())  "}
    assert case.names["all_of_them"] == case.names["result"] == ["1", "2", "3"]
    assert isinstance(case.names["by_length"], datastream.KeyedStream)
