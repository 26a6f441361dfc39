"""Kills a Kafka broker when it has acknowledged a commit of the exactly-once sink, again and again.

    python benchmarks/kafka_marks.py [--kills 60] [--seed 1]

A broker runs on this machine, alone with its partitions. The sink's committer commits three checkpoints of ten records
into a topic of three partitions. As soon as the second one is acknowledged, or a millisecond later, the broker gets
SIGKILL, and is started again; the driver may be lost with it. Such a broker often does not write all the marks that end
the transaction. At the end a reader of committed messages must see each record once. Exit code 1 otherwise.
"""

from __future__ import annotations

import argparse
import logging
import random
import statistics
import sys
import tempfile
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent.parent / "tests"))

from connectors.kafka.committed import CommittedReader
from connectors.kafka.test_marks import commit_with_a_kill
from connectors.kafka.test_sink_trouble import Bench
from servers.kafka import KafkaServer

RECORDS = 30
PARTITIONS = 3


class Repairs(logging.Handler):
    """Counts how often marks were written."""

    def __init__(self) -> None:
        super().__init__()
        self.count = 0

    def emit(self, record: logging.LogRecord) -> None:
        self.count += "are written" in record.getMessage()


def strike(
    broker: KafkaServer, number: int, chance: random.Random, directory: Path
) -> tuple[int, int, float]:
    """Kill once; return how many records are lost and doubled, and how long it took, in seconds."""
    topic = broker.create_topic(f"kill-{number}", PARTITIONS)
    bench = Bench(broker, topic, directory / topic)
    began = time.monotonic()
    pause_s = chance.choice([0, 0, 0.0005, 0.001, 0.002])
    commit_with_a_kill(broker, bench, pause_s, driver_too=chance.random() < 0.4)
    took_s = time.monotonic() - began
    reader = CommittedReader(broker, topic, PARTITIONS)
    found = reader.values()
    reader.close()
    for committer in bench.committers:
        committer.close()
    return RECORDS - len(set(found)), len(found) - len(set(found)), took_s


def main() -> int:
    parser = argparse.ArgumentParser(description="kills a Kafka broker when it has acknowledged a commit")
    parser.add_argument("--kills", type=int, default=60)
    parser.add_argument("--seed", type=int, default=1)
    arguments = parser.parse_args()
    chance = random.Random(arguments.seed)
    repairs = Repairs()
    logging.getLogger("millstream.connectors.kafka.marks").addHandler(repairs)
    outcomes = []
    with tempfile.TemporaryDirectory(prefix="millstream-kafka-marks-", ignore_cleanup_errors=True) as scratch:
        (Path(scratch) / "kafka").mkdir()
        broker = KafkaServer(Path(scratch) / "kafka")
        broker.start()
        try:
            broker.warm_up()
            for number in range(arguments.kills):
                outcomes.append(strike(broker, number, chance, Path(scratch)))
                lost, doubled, took_s = outcomes[-1]
                print(
                    f"{number + 1:3d} kills, last: {lost} lost, {doubled} doubled, {took_s:.1f} s", flush=True
                )
        finally:
            broker.stop()
    lost, doubled = (sum(column) for column in list(zip(*outcomes, strict=True))[:2])
    print(
        f"\n{len(outcomes)} kills, marks written {repairs.count} times: {lost} records lost, {doubled} doubled; "
        f"from the kill to the end {statistics.median(each[2] for each in outcomes):.1f} s (median)"
    )
    return 1 if lost or doubled else 0


if __name__ == "__main__":
    sys.exit(main())
