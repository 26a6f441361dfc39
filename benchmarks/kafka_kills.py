"""Kafka to somewhere, exactly once, while processes are killed: readers see each result once.

    python benchmarks/kafka_kills.py [--to kafka] [--kills 50] [--seed 1] [--records 1000000] [--workers 2]

A Kafka broker and a standalone Spark cluster run here. Numbers are produced to a topic, a share of them when there
are results again after a kill. A job (`programs/three_stages.py`) counts them for each key, in the next stage for each
group of keys, and writes both counts of each record by an exactly-once sink: to another topic, a table of PostgreSQL,
files on a disk or in S3, or a table of Iceberg or Delta. Checkpoints are taken every 500 ms, of Iceberg and Delta every
2 s. All the while this program sends SIGKILL to random processes: slots, Spark's Python workers, executors, workers of
the cluster, the driver (started again with `--recover`), the broker (started again with the same data), PostgreSQL's
server if it is the target, two at once, and again while the job recovers. With `--workers 0` the job runs on the local
executor, and only driver and servers are killed.

At the end a reader must see, for each key and for each group, the counts 1, 2, 3, ... each once; of Kafka a reader of
committed messages those of a key in order, and of files those of a key in order in each file. Exit code 1 otherwise.
"""

from __future__ import annotations

import argparse
import json
import random
import sys
import tempfile
import threading
import time
from pathlib import Path

from confluent_kafka import Producer
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
from targets import PARTITIONS, TARGETS, Target

sys.path.insert(0, str(ROOT / "tests"))

from servers.kafka import KafkaServer

KEYS = 50
GROUPS = 5
SHARE_S = 4  # a kill comes within 2.5 s after there is output again
PROGRAM = Path(__file__).parent / "programs" / "three_stages.py"
WEIGHTS = {"slot": 40, "Python worker": 10, "executor": 10, "cluster worker": 5, "driver": 15, "broker": 20}
DATABASE_WEIGHT = 10


def produce(
    broker: KafkaServer, records: int, per_second: int, killed: Killed, stopped: threading.Event
) -> None:
    """Produce numbers, each key's in one partition, in order, each once although the broker is killed."""
    producer = Producer({
        "bootstrap.servers": broker.bootstrap, "enable.idempotence": True, "message.timeout.ms": "0",
        "reconnect.backoff.max.ms": "500", "log_level": "0", "queue.buffering.max.messages": "2000000",
    })  # fmt: skip
    for number in range(records):
        while number >= killed.share_of(records):
            producer.poll(0)
            if stopped.wait(0.05):
                return
        producer.produce("numbers", str(number), partition=number % PARTITIONS)
        if number % 100 == 0:
            producer.poll(0)
            if killed.count < killed.wanted and stopped.wait(100 / per_second):
                return
    producer.flush()


class Results:
    """What readers see of the job's output."""

    def __init__(self, target: Target, records: int, killed: Killed) -> None:
        self._target = target
        self._killed = killed
        self._records = records

    def follow(self, seconds: float) -> int:
        self._target.look(seconds)
        return self._target.count

    def has_caught_up(self) -> bool:
        return self._target.count >= self._killed.share_of(self._records)

    def has_ended(self) -> bool:
        return self._target.count >= self._records


class Striker:
    """Kills processes of the job, and servers, which it starts again after a while."""

    def __init__(self, target: Target, workers: int) -> None:
        self._servers = {"broker": target.broker, **target.servers}
        weights = WEIGHTS if workers else {each: WEIGHTS[each] for each in ("driver", "broker")}
        self.weights = {**weights, **dict.fromkeys(target.servers, DATABASE_WEIGHT)}

    def strike(self, cluster: Cluster, victim: str, rng: random.Random) -> bool:
        if victim not in self._servers:
            return strike_process(cluster, victim, rng)
        self._servers[victim].stop()
        time.sleep(rng.uniform(0, 2))
        self._servers[victim].start()
        return True


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--to", choices=list(TARGETS), default="kafka")
    parser.add_argument("--kills", type=int, default=50)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--records", type=int, default=1_000_000)
    parser.add_argument(
        "--per-second", type=int, help="how fast numbers are produced, at most; by default a share in 4 s"
    )
    parser.add_argument("--logs", type=Path, help="where to leave the logs of drivers and workers")
    parser.add_argument(
        "--workers", type=int, choices=(0, 1, 2), default=2, help="workers; 0: the local executor"
    )
    parser.add_argument(
        "--patience", type=float, default=180, help="seconds without output that are a failure"
    )
    arguments = parser.parse_args()
    arguments.records -= arguments.records % (KEYS * PARTITIONS)
    if arguments.per_second is None:
        arguments.per_second = max(100, int(arguments.records / (arguments.kills + 1) / SHARE_S))
    with tempfile.TemporaryDirectory(prefix="millstream-kafka-kills-", ignore_cleanup_errors=True) as scratch:
        (Path(scratch) / "kafka").mkdir()
        broker = KafkaServer(Path(scratch) / "kafka")
        target = TARGETS[arguments.to](Path(scratch), broker, GROUPS)
        killed = run(arguments, Path(scratch), target)
    return report(arguments, target, killed)


def run(arguments: argparse.Namespace, directory: Path, target: Target) -> Killed:
    """Run the job, and kill, until all results are there, or nothing comes any more."""
    broker, stopped, killed = target.broker, threading.Event(), Killed(arguments.kills)
    output = Results(target, arguments.records, killed)
    producing = threading.Thread(
        target=lambda: produce(broker, arguments.records, arguments.per_second, killed, stopped),
        daemon=True,  # without a broker its producer waits for ever
    )
    cluster = None
    try:
        broker.start()
        broker.warm_up()
        broker.create_topic("numbers", PARTITIONS)
        target.start()
        cluster = Cluster(
            directory,
            PROGRAM.read_text(encoding="utf-8"),
            *job(directory, target),
            cores=2 // max(arguments.workers, 1),
            workers=arguments.workers,
        )
        striker = Striker(target, arguments.workers)
        cluster.start()
        cluster.start_driver()
        producing.start()
        if wait_for_output(cluster, output, arguments.patience) is None:
            raise SystemExit(f"the job gave nothing:\n{cluster.log_tail()}")
        run_kills(
            cluster, output, random.Random(arguments.seed), killed,
            weights=striker.weights, strike=striker.strike, patience_s=arguments.patience,
        )  # fmt: skip
        run_to_the_end(cluster, output, arguments.patience)
        target.finish()
    finally:
        stopped.set()
        if cluster is not None:
            cluster.stop()
            if arguments.logs is not None:
                cluster.keep_logs(arguments.logs)
        target.stop()
        broker.stop()
    return killed


def job(directory: Path, target: Target) -> tuple[tuple[str, ...], dict[str, str]]:
    """Return the program's arguments and the job's options."""
    to = next(name for name, kind in TARGETS.items() if isinstance(target, kind))
    settings = {
        "servers": target.broker.bootstrap,
        "keys": KEYS,
        "groups": GROUPS,
        "to": to,
        "where": target.where,
    }
    options = {**OPTIONS, "high-availability.storageDir": str(directory / "ha"), **target.options}
    return (json.dumps(settings),), options


def report(arguments: argparse.Namespace, target: Target, killed: Killed) -> int:
    of_key = {key: range(1, arguments.records // KEYS + 1) for key in range(KEYS)}
    of_group = {group: range(1, arguments.records // GROUPS + 1) for group in range(GROUPS)}
    wrong = [differences(of_key, target.of_key), differences(of_group, target.of_group)]
    where = f"{arguments.workers} Spark workers" if arguments.workers else "local executor"
    print(
        f"\nKafka to {target.name}: {machine()}, {where}, seed {arguments.seed}, {arguments.records:,} records"
    )
    print(f"\n{killed.table()}\n")
    for what, (lost, doubled, strange) in zip(("by key", "by group"), wrong, strict=True):
        print(
            f"{killed.count} kills, {what}: {lost} lost, {doubled} doubled, {strange} that should not be there;"
        )
    if target.has_order:
        print(f"{len(target.disordered)} times the results of a key were out of order.")
    return 1 if any(map(any, wrong)) or target.disordered else 0


def differences(expected: dict[int, range], seen: dict[int, list[int]]) -> tuple[int, int, int]:
    """Return how many counts are lost, doubled, and should not be there."""
    lost = sum(len(set(counts) - set(seen.get(key, ()))) for key, counts in expected.items())
    doubled = sum(len(counts) - len(set(counts)) for counts in seen.values())
    strange = sum(len(set(counts) - set(expected.get(key, ()))) for key, counts in seen.items())
    return lost, doubled, strange


if __name__ == "__main__":
    sys.exit(main())
