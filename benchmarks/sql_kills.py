"""A SQL job from Kafka to PostgreSQL and Kafka, while processes are killed: its tables are the undisturbed run's.

    python benchmarks/sql_kills.py [--kills 30] [--seed 1] [--records 100000] [--workers 2]

A Kafka broker, a PostgreSQL server and a standalone Spark cluster run here. Orders are produced to a topic, a share of
them when there are results again after a kill. A script (`programs/orders.sql`), run by `millstream run --recover`,
has one job of four INSERTs: totals by buyer, and how many buyers have how many orders (whose rows go again), to
PostgreSQL by primary key; totals by item to `upsert-kafka`, and sums of tumbling windows to `kafka`, both exactly once.
Checkpoints are taken every 500 ms. All the while this program sends SIGKILL to random processes: slots, Spark's Python
workers, executors, workers of the cluster, the driver (started again), the broker and the database (both started again
with the same data), two at once, and again while the job recovers. With `--workers 0` the job runs on the local
executor, and only driver and servers are killed.

At the end the two tables of PostgreSQL and what a reader of committed messages finds in the two topics must be what
plain Python computes of the orders; each window must be there once, and the counts of an item must only have grown.
Exit code 1 otherwise.
"""

from __future__ import annotations

import argparse
import json
import random
import sys
import tempfile
import threading
import time
from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from decimal import ROUND_HALF_UP, Decimal
from pathlib import Path
from string import Template
from typing import Any

import psycopg
from confluent_kafka import Consumer, Producer, TopicPartition
from killing import (
    OPTIONS,
    ROOT,
    Cluster,
    Killed,
    machine,
    run_kills,
    run_to_the_end,
    strike_process,
    wait_for_output,
)

sys.path.insert(0, str(ROOT / "tests"))

from servers.kafka import KafkaServer
from servers.postgres import PostgresDatabase, PostgresServer

PARTITIONS = 2
BUYERS = 500
ITEMS = 40
SPREAD_MS = 1_500  # orders of a partition are so much out of order; the watermark allows for 2 s
SHARE_S = 4
SCRIPT = Path(__file__).parent / "programs" / "orders.sql"
WEIGHTS = {
    "slot": 35, "Python worker": 10, "executor": 10, "cluster worker": 5, "driver": 20, "broker": 10, "database": 10,
}  # fmt: skip
TABLES = """
CREATE TABLE totals (buyer text PRIMARY KEY, orders bigint, cents bigint, dearest int, mean numeric(38, 6));
CREATE TABLE buyers_by_orders (orders bigint PRIMARY KEY, buyers bigint);
"""
Order = tuple[int, str, str, int, int]


def orders(count: int, seed: int) -> Iterator[Order]:
    """Yield (id, buyer, item, cents, time in ms); the last of each partition ends all windows of those before.

    Texts are of all planes of Unicode.
    """
    rng = random.Random(seed)
    start_ms = 1_700_000_000_000
    for number in range(count - PARTITIONS):
        buyer = f"b{rng.randrange(BUYERS)} ä𝄞"
        at_ms = start_ms + number * 5 + rng.randrange(SPREAD_MS)
        yield number, buyer, f"item'{rng.randrange(ITEMS)}\" ☃", rng.randrange(1, 10_000), at_ms
    for number in range(count - PARTITIONS, count):
        yield number, "last", "last", 1, start_ms + count * 5 + 3_600_000


@dataclass
class Tables:
    """What the four tables are to hold, or held."""

    totals: dict[str, tuple[int, int, int, Decimal]]
    buyers_by_orders: dict[int, int]
    items: dict[str, tuple[int, int]]
    seconds: Counter[tuple[str, str, int, int]]


def expected(count: int, seed: int) -> Tables:
    """Compute the tables of the orders in plain Python."""
    of_buyer: dict[str, list[int]] = {}
    of_item: dict[str, list[int]] = {}
    of_second: dict[tuple[int, str], list[int]] = {}
    for _, buyer, item, cents, at_ms in orders(count, seed):
        of_buyer.setdefault(buyer, []).append(cents)
        of_item.setdefault(item, []).append(cents)
        if item != "last":  # no later order ends the last windows
            of_second.setdefault((at_ms // 1_000, item), []).append(cents)
    smallest = Decimal("0.000001")
    return Tables(
        {
            buyer: (
                len(cents),
                sum(cents),
                max(cents),
                (Decimal(sum(cents)) / len(cents)).quantize(smallest, ROUND_HALF_UP),
            )
            for buyer, cents in of_buyer.items()
        },
        dict(Counter(len(cents) for cents in of_buyer.values())),
        {item: (len(cents), sum(cents)) for item, cents in of_item.items()},
        Counter(
            (as_text(second * 1_000), item, len(cents), sum(cents))
            for (second, item), cents in of_second.items()
        ),
    )


def as_text(at_ms: int) -> str:
    """Return a time as JSON of SQL has it."""
    return time.strftime("%Y-%m-%d %H:%M:%S", time.gmtime(at_ms // 1_000)) + f".{at_ms % 1_000:03d}"


def produce(
    broker: KafkaServer, arguments: argparse.Namespace, killed: Killed, stopped: threading.Event
) -> None:
    """Produce the orders, each once although the broker is killed."""
    producer = Producer({
        "bootstrap.servers": broker.bootstrap, "enable.idempotence": True, "message.timeout.ms": "0",
        "reconnect.backoff.max.ms": "500", "log_level": "0", "queue.buffering.max.messages": "2000000",
    })  # fmt: skip
    for number, buyer, item, cents, at_ms in orders(arguments.records, arguments.seed):
        while number >= killed.share_of(arguments.records):
            producer.poll(0)
            if stopped.wait(0.05):
                return
        order = {"id": number, "buyer": buyer, "item": item, "cents": cents, "at_time": as_text(at_ms)}
        producer.produce("orders", json.dumps(order, ensure_ascii=False), partition=number % PARTITIONS)
        if number % 100 == 0:
            producer.poll(0)
            if killed.count < killed.wanted and stopped.wait(100 / arguments.per_second):
                return
    producer.flush()


class Results:
    """What readers see of the job's output.

    Attributes:
        items: The newest row of each item, of committed messages.
        seconds: The rows of windows, and how often each was committed.
        shrunk: Items whose count did not grow from one message to the next.
        windows: How many rows of windows were committed.
    """

    def __init__(self, broker: KafkaServer, database: PostgresDatabase, records: int, killed: Killed) -> None:
        self._database = database
        self._records = records
        self._killed = killed
        self._connection: psycopg.Connection[Any] | None = None
        self._most = 0
        self.items: dict[str, tuple[int, int]] = {}
        self.seconds: Counter[tuple[str, str, int, int]] = Counter()
        self.shrunk: list[tuple[str, int, int]] = []
        self._consumer = Consumer({
            "bootstrap.servers": broker.bootstrap, "group.id": "reader", "isolation.level": "read_committed",
            "enable.auto.commit": False, "auto.offset.reset": "earliest", "reconnect.backoff.max.ms": "500",
            "log_level": "0",
        })  # fmt: skip
        places = [(topic, number) for topic in ("items", "seconds") for number in range(PARTITIONS)]
        self._consumer.assign([TopicPartition(topic, number, 0) for topic, number in places])

    def follow(self, seconds: float) -> int:
        """Read what is new; return how many orders some output has counted at most."""
        deadline = time.monotonic() + seconds
        while True:
            found = self._consumer.consume(5_000, max(0.0, deadline - time.monotonic()))
            for message in found:
                if message.error() is None:
                    self._take(message)
            if not found and time.monotonic() >= deadline:
                break
        # The slowest of three outputs: a kill comes when all of them go on.
        in_items = sum(count for count, _ in self.items.values())
        self._most = max(self._most, min(self._in_database(), in_items))
        return self._most

    def _take(self, message: Any) -> None:
        row = json.loads(message.value())
        if message.topic() == "items":
            assert json.loads(message.key()) == {"item": row["item"]}
            before = self.items.get(row["item"], (0, 0))[0]
            if row["orders"] <= before:
                self.shrunk.append((row["item"], before, row["orders"]))
            self.items[row["item"]] = (row["orders"], row["cents"])
        else:
            self.seconds[row["second_start"], row["item"], row["orders"], row["cents"]] += 1

    def _in_database(self) -> int:
        try:
            if self._connection is None:
                self._connection = self._database.connect()
            row = self._connection.execute("SELECT coalesce(sum(orders), 0) FROM totals").fetchone()
        except psycopg.OperationalError:  # it was killed
            self._connection = None
            return self._most
        assert row is not None
        return int(row[0])

    def has_caught_up(self) -> bool:
        return self._most >= self._killed.share_of(self._records)

    def has_ended(self) -> bool:
        return self._most >= self._records

    def tables(self) -> Tables:
        """Return what the tables hold."""
        with self._database.connect() as connection:
            totals = connection.execute("SELECT buyer, orders, cents, dearest, mean FROM totals").fetchall()
            buyers = connection.execute("SELECT orders, buyers FROM buyers_by_orders").fetchall()
        return Tables({row[0]: tuple(row[1:]) for row in totals}, dict(buyers), self.items, self.seconds)

    def close(self) -> None:
        self._consumer.close()
        if self._connection is not None:
            self._connection.close()


class Striker:
    """Kills processes of the job, and servers, which it starts again after a while."""

    def __init__(self, servers: Mapping[str, Any], workers: int) -> None:
        self._servers = servers
        self.weights = WEIGHTS if workers else {each: WEIGHTS[each] for each in ("driver", *servers)}

    def strike(self, cluster: Cluster, victim: str, rng: random.Random) -> bool:
        if victim not in self._servers:
            return strike_process(cluster, victim, rng)
        self._servers[victim].stop()
        time.sleep(rng.uniform(0, 2))
        self._servers[victim].start()
        return True


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--kills", type=int, default=30)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--records", type=int, default=100_000)
    parser.add_argument("--logs", type=Path, help="where to leave the logs of drivers and workers")
    parser.add_argument(
        "--workers", type=int, choices=(0, 1, 2), default=2, help="workers; 0: the local executor"
    )
    parser.add_argument(
        "--patience", type=float, default=180, help="seconds without output that are a failure"
    )
    arguments = parser.parse_args()
    arguments.per_second = max(100, int(arguments.records / (arguments.kills + 1) / SHARE_S))
    with tempfile.TemporaryDirectory(prefix="millstream-sql-kills-", ignore_cleanup_errors=True) as scratch:
        (Path(scratch) / "kafka").mkdir()
        broker, server = KafkaServer(Path(scratch) / "kafka"), PostgresServer()
        try:
            broker.start()
            broker.warm_up()
            for topic in ("orders", "items", "seconds"):
                broker.create_topic(topic, PARTITIONS)
            server.start()
            with server.new_database() as database:
                database.execute(TABLES)
                killed, results = run(arguments, Path(scratch), broker, database)
                found = results.tables()
                results.close()
        finally:
            server.close()
            broker.stop()
    return report(arguments, killed, results, found)


def script_of(broker: KafkaServer, database: PostgresDatabase) -> str:
    """Return the job's script for these servers."""
    return Template(SCRIPT.read_text(encoding="utf-8")).substitute(
        servers=broker.bootstrap,
        url=f"jdbc:postgresql://{database.host}:{database.server.port}/{database.name}",
        user=database.user,
        password=database.password,
    )


def run(
    arguments: argparse.Namespace, directory: Path, broker: KafkaServer, database: PostgresDatabase
) -> tuple[Killed, Results]:
    """Run the job, and kill, until all results are there, or nothing comes any more."""
    stopped, killed = threading.Event(), Killed(arguments.kills)
    results = Results(broker, database, arguments.records, killed)
    producing = threading.Thread(
        target=produce,
        args=(broker, arguments, killed, stopped),
        daemon=True,  # without a broker its producer waits for ever
    )
    cluster = Cluster(
        directory,
        script_of(broker, database),
        (),
        {**OPTIONS, "high-availability.storageDir": str(directory / "ha")},
        cores=2 // max(arguments.workers, 1),
        workers=arguments.workers,
        program_name="program.sql",
    )
    striker = Striker({"broker": broker, "database": database.server}, arguments.workers)
    try:
        cluster.start()
        cluster.start_driver()
        producing.start()
        if wait_for_output(cluster, results, arguments.patience) is None:
            raise SystemExit(f"the job gave nothing:\n{cluster.log_tail()}")
        run_kills(
            cluster, results, random.Random(arguments.seed), killed,
            weights=striker.weights, strike=striker.strike, patience_s=arguments.patience,
        )  # fmt: skip
        run_to_the_end(cluster, results, arguments.patience)
    finally:
        stopped.set()
        cluster.stop()
        if arguments.logs is not None:
            cluster.keep_logs(arguments.logs)
    return killed, results


def report(arguments: argparse.Namespace, killed: Killed, results: Results, found: Tables) -> int:
    wanted = expected(arguments.records, arguments.seed)
    where = f"{arguments.workers} Spark workers" if arguments.workers else "local executor"
    print(
        f"\nKafka to PostgreSQL and Kafka in SQL: {machine()}, {where}, seed {arguments.seed}, "
        f"{arguments.records:,} orders, {killed.count} kills"
    )
    print(f"\n{killed.table()}\n")
    print("| table | rows | missing | other values, or should not be there |\n| --- | ---: | ---: | ---: |")
    wrong = 0
    for name, target in (
        ("totals", "PostgreSQL, upserts"),
        ("buyers_by_orders", "PostgreSQL, upserts and deletes"),
        ("items", "upsert-kafka, exactly once"),
    ):
        want, have = getattr(wanted, name), getattr(found, name)
        missing = len(want.keys() - have.keys())
        other = sum(have[key] != want.get(key) for key in have)
        wrong += missing + other
        print(f"| {name} ({target}) | {len(have):,} | {missing} | {other} |")
        for key in [key for key in have.keys() | want.keys() if have.get(key) != want.get(key)][:5]:
            print(f"{name}, {key!r}: {have.get(key)}, but should be {want.get(key)}", file=sys.stderr)
    missing = (wanted.seconds - found.seconds).total()
    other = (found.seconds - wanted.seconds).total()
    print(f"| seconds (kafka, exactly once) | {found.seconds.total():,} | {missing} | {other} |")
    print(f"\n{len(results.shrunk)} messages of an item whose count had not grown.")
    return 1 if wrong or missing or other or results.shrunk else 0


if __name__ == "__main__":
    sys.exit(main())
