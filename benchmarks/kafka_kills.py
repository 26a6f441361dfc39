"""Kafka to Kafka, exactly once, while processes are killed: readers of committed messages see each result once.

    python benchmarks/kafka_kills.py [--kills 50] [--seed 1] [--records 1000000] [--per-second 1000]

A Kafka broker and a standalone Spark cluster of two workers run on this machine. Numbers are produced to a topic, some
each second. A job counts them for each key and writes each count to another topic by an exactly-once sink, with
checkpoints every 500 ms. All the while this program sends SIGKILL to random processes: slots, Spark's Python workers,
executors, workers of the cluster, the driver (started again with `--recover`), the broker (started again with the same
data), two at once, and again while the job recovers.

At the end a reader of committed messages must see, for each key, the counts 1, 2, 3, … each once and in order. Exit
code 1 otherwise.
"""

from __future__ import annotations

import argparse
import os
import platform
import random
import statistics
import subprocess
import sys
import tempfile
import threading
import time
import uuid
from collections import Counter
from pathlib import Path

import kills
from confluent_kafka import Consumer, Producer, TopicPartition

sys.path.insert(0, str(kills.ROOT / "tests"))

from servers.kafka import KafkaServer

KEYS = 50
PARTITIONS = 2
SETTLE_S = 10

PROGRAM = """
import sys
from millstream.common import Configuration, SerializationSchema, SimpleStringSchema, Types, WatermarkStrategy
from millstream.datastream import KeyedProcessFunction, StreamExecutionEnvironment
from millstream.datastream.connectors.kafka import (
    DeliveryGuarantee, KafkaOffsetsInitializer, KafkaRecordSerializationSchema, KafkaSink, KafkaSource)
from millstream.datastream.state import ValueStateDescriptor

directory, servers, keys = sys.argv[1], sys.argv[2], int(sys.argv[3])

class Count(KeyedProcessFunction):
    def open(self, context):
        self.count = context.get_state(ValueStateDescriptor("count", Types.LONG()))
    def process_element(self, value, context):
        count = (self.count.value() or 0) + 1
        self.count.update(count)
        yield f"{context.get_current_key()}:{count}"

class Key(SerializationSchema):
    def serialize(self, value):
        return value.partition(":")[0].encode()

env = StreamExecutionEnvironment.get_execution_environment(Configuration.from_dict({
    "execution.checkpointing.interval": "500 ms",
    "restart-strategy.type": "fixed-delay",
    "restart-strategy.fixed-delay.attempts": 100000,
    "restart-strategy.fixed-delay.delay": "50 ms",
    "millstream.slot.timeout": "15 s",
    "high-availability.storageDir": directory + "/ha",
    "spark.driver.host": "127.0.0.1", "spark.driver.bindAddress": "127.0.0.1", "spark.cores.max": 2,
    "spark.task.maxFailures": 100000, "spark.stage.maxConsecutiveAttempts": 100000,
    "spark.deploy.maxExecutorRetries": -1}))
env.set_parallelism(2)
source = (KafkaSource.builder().set_bootstrap_servers(servers).set_topics("numbers")
    .set_starting_offsets(KafkaOffsetsInitializer.earliest())
    .set_value_only_deserializer(SimpleStringSchema()).build())
stream = env.from_source(source, WatermarkStrategy.no_watermarks(), "numbers").uid("numbers")
counted = stream.key_by(lambda value: int(value) % keys).process(Count(), Types.STRING()).uid("count")
schema = (KafkaRecordSerializationSchema.builder().set_topic("counts").set_key_serialization_schema(Key())
    .set_value_serialization_schema(SimpleStringSchema()).build())
sink = (KafkaSink.builder().set_bootstrap_servers(servers).set_record_serializer(schema)
    .set_delivery_guarantee(DeliveryGuarantee.EXACTLY_ONCE).set_transactional_id_prefix("kills").build())
counted.sink_to(sink).uid("counts")
env.execute("counting")
"""

WEIGHTS = {"slot": 30, "Python worker": 10, "executor": 15, "cluster worker": 5, "driver": 20, "broker": 20}


class Cluster(kills.Cluster):
    """The cluster of `kills.py`, with a broker beside it."""

    broker: KafkaServer

    def start_driver(self) -> None:
        program = self.directory / "program.py"
        program.write_text(PROGRAM, encoding="utf-8")
        command = [
            sys.executable, "-m", "millstream.cli.main", "run", "--target", self.url, "-D", "millstream.recover=true",
            str(program), str(self.directory), self.broker.bootstrap, str(KEYS),
        ]  # fmt: skip
        self.drivers += 1
        with self.driver_log().open("ab") as log:
            self.processes["driver"] = subprocess.Popen(
                command, env=self.environment(), stdout=log, stderr=log
            )


def produce(broker: KafkaServer, records: int, per_second: int, stopped: threading.Event) -> None:
    """Produce numbers, each key's in one partition, in order, each once although the broker is killed."""
    producer = Producer({
        "bootstrap.servers": broker.bootstrap, "enable.idempotence": True, "message.timeout.ms": "0",
        "reconnect.backoff.max.ms": "500", "log_level": "0", "queue.buffering.max.messages": "2000000",
    })  # fmt: skip
    began = time.time()
    for number in range(records):
        producer.produce("numbers", str(number), partition=number % PARTITIONS)
        if number % 100 == 0:
            producer.poll(0)
            if stopped.wait(max(0.0, began + number / per_second - time.time())):
                return
    producer.flush()


class Reader:
    """Follows what is committed."""

    def __init__(self, broker: KafkaServer) -> None:
        self._consumer = Consumer({
            "bootstrap.servers": broker.bootstrap, "group.id": "reader", "isolation.level": "read_committed",
            "enable.auto.commit": False, "auto.offset.reset": "earliest", "reconnect.backoff.max.ms": "500",
            "log_level": "0",
        })  # fmt: skip
        self._consumer.assign([TopicPartition("counts", number, 0) for number in range(PARTITIONS)])
        self.seen: dict[str, list[int]] = {}
        self.count = 0

    def read(self, seconds: float) -> None:
        """Take what is there, or comes within some time."""
        messages = self._consumer.consume(5000, seconds)
        for message in messages:
            if message.error() is None:
                key, _, count = message.value().decode().partition(":")
                self.seen.setdefault(key, []).append(int(count))
                self.count += 1


def wait_for_output(cluster: Cluster, reader: Reader, limit_s: float) -> float | None:
    """Return after how many seconds something new was committed; None if not within the limit."""
    began, before = time.time(), reader.count
    while time.time() - began < limit_s:
        cluster.revive()
        reader.read(0.05)
        if reader.count > before:
            return time.time() - began
    return None


def strike(cluster: Cluster, victim: str, rng: random.Random) -> bool:
    """Kill one; return whether there was one. A broker is started again after a while."""
    if victim == "broker":
        cluster.broker.stop()
        time.sleep(rng.uniform(0, 2))
        cluster.broker.start()
        return True
    pids = cluster.find(kills.VICTIMS[victim])
    return bool(pids) and kills.kill(rng.choice(pids))


def run_kills(
    cluster: Cluster, reader: Reader, rng: random.Random, wanted: int, patience_s: float
) -> tuple[Counter[str], dict[str, list[float]]]:
    killed: Counter[str] = Counter()
    recovered: dict[str, list[float]] = {}
    while sum(killed.values()) < wanted and reader.count < cluster.records:
        reader.read(rng.uniform(0.2, 2.5))
        victims = [rng.choices(list(WEIGHTS), list(WEIGHTS.values()))[0]]
        if rng.random() < 0.2:  # two at once
            victims.append(rng.choice(list(WEIGHTS)))
        hit = [victim for victim in victims if strike(cluster, victim, rng)]
        killed.update(hit)
        if not hit or rng.random() < 0.25:  # again, while the job recovers
            cluster.revive()
            continue
        reader.read(0.2)  # what was committed before
        took = wait_for_output(cluster, reader, patience_s)
        if took is None:
            raise SystemExit(
                f"nothing was committed within {patience_s:g} s after {hit} was killed:\n"
                + cluster.driver_log().read_text()[-10_000:]
            )
        if len(hit) == 1:
            recovered.setdefault(hit[0], []).append(took)
        print(
            f"{sum(killed.values()):4d} kills, last {' and '.join(hit)}: committed after {took:.1f} s",
            flush=True,
        )
    return killed, recovered


def main() -> int:
    parser = argparse.ArgumentParser(description="Kafka to Kafka, exactly once, while processes are killed")
    parser.add_argument("--kills", type=int, default=50)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--records", type=int, default=1_000_000)
    parser.add_argument("--per-second", type=int, default=1_000, help="how fast numbers are produced")
    parser.add_argument(
        "--patience", type=float, default=180, help="seconds without output that are a failure"
    )
    arguments = parser.parse_args()
    records = arguments.records - arguments.records % (KEYS * PARTITIONS)
    rng = random.Random(arguments.seed)
    stopped = threading.Event()
    with tempfile.TemporaryDirectory(prefix="millstream-kafka-kills-", ignore_cleanup_errors=True) as scratch:
        (Path(scratch) / "kafka").mkdir()
        cluster = Cluster(Path(scratch), uuid.uuid4().hex, records)
        cluster.broker = KafkaServer(Path(scratch) / "kafka")
        producing = threading.Thread(
            target=lambda: produce(cluster.broker, records, arguments.per_second, stopped)
        )
        try:
            cluster.broker.start()
            cluster.broker.warm_up()
            for topic in ("numbers", "counts"):
                cluster.broker.create_topic(topic, PARTITIONS)
            reader = Reader(cluster.broker)
            cluster.start()
            cluster.start_driver()
            producing.start()
            if wait_for_output(cluster, reader, arguments.patience) is None:
                print(cluster.driver_log().read_text(), file=sys.stderr)
                return 1
            killed, recovered = run_kills(cluster, reader, rng, arguments.kills, arguments.patience)
            while reader.count < records:
                if wait_for_output(cluster, reader, arguments.patience) is None:
                    print(
                        f"the job stands still:\n{cluster.driver_log().read_text()[-10_000:]}",
                        file=sys.stderr,
                    )
                    break
            settled = time.time() + SETTLE_S
            while time.time() < settled:  # what should not come would come now
                reader.read(0.5)
        finally:
            stopped.set()
            cluster.stop()
            cluster.broker.stop()
    return report(arguments.seed, records, reader.seen, killed, recovered)


def report(
    seed: int,
    records: int,
    seen: dict[str, list[int]],
    killed: Counter[str],
    recovered: dict[str, list[float]],
) -> int:
    expected = {str(key): list(range(1, records // KEYS + 1)) for key in range(KEYS)}
    lost = sum(len(set(counts) - set(seen.get(key, ()))) for key, counts in expected.items())
    doubled = sum(len(counts) - len(set(counts)) for counts in seen.values())
    disordered = sum(counts != sorted(counts) for counts in seen.values())
    strange = sum(len(set(counts) - set(expected.get(key, ()))) for key, counts in seen.items())
    print(f"\n{platform.machine()}, {os.cpu_count()} cores, seed {seed}, {records:,} records, {KEYS} keys\n")
    print("| killed | times | committed again after: median | worst |\n| --- | ---: | ---: | ---: |")
    for victim, times in sorted(killed.items()):
        took = recovered.get(victim, [])
        figures = f"{statistics.median(took):.1f} s | {max(took):.1f} s" if took else "- | -"
        print(f"| {victim} | {times} | {figures} |")
    print(
        f"\n{sum(killed.values())} kills: {lost} lost, {doubled} doubled, {disordered} keys out of order, "
        f"{strange} that should not be there"
    )
    return 1 if lost or doubled or disordered or strange else 0


if __name__ == "__main__":
    sys.exit(main())
