"""Reading Kafka: the source beside a bare loop of confluent-kafka, and what an epoch adds that reads a little.

    python benchmarks/kafka.py [--records 1000000] [--rounds 5] [--write]

A broker is started for it (Java and Maven). Both read the same topic of four partitions whole, in turns, with the same
settings of the client and the garbage collector, and decode nothing: the loop takes each message's value, the source
makes batches with timestamps as a job gets them. By processor time of the process, threads of the client included.
"""

from __future__ import annotations

import argparse
import gc
import random
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from statistics import median, quantiles

sys.path.append(str(Path(__file__).parents[1] / "tests"))

from confluent_kafka import Consumer, TopicPartition

from millstream.common import ByteArraySchema
from millstream.connectors.kafka.clients import DEFAULTS
from millstream.datastream.connectors.kafka import KafkaOffsetsInitializer, KafkaSource
from millstream.runtime.slot.garbage import THRESHOLDS
from millstream.spi.source import PlanRequest, SourceReaderContext
from servers.kafka import KafkaServer

RESULTS = Path(__file__).parent / "results" / "kafka.md"
PARTITIONS = 4
FLOOR = 0.8
EPOCH_RECORDS = 500
BUDGET = 100_000


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--records", type=int, default=1_000_000)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--epochs", type=int, default=100)
    parser.add_argument("--write", action="store_true", help=f"write {RESULTS}")
    arguments = parser.parse_args()
    gc.set_threshold(*THRESHOLDS)  # as in slots
    with tempfile.TemporaryDirectory() as directory:
        server = KafkaServer(Path(directory))
        server.start()
        try:
            page = _measure(server, arguments.records, arguments.rounds, arguments.epochs)
        finally:
            server.stop()
    print(page)
    if arguments.write:
        RESULTS.write_text(page)


def _measure(server: KafkaServer, records: int, rounds: int, epochs: int) -> str:
    topic = server.create_topic("records", PARTITIONS)
    value = random.Random(1).randbytes(100)
    for partition in range(PARTITIONS):
        server.produce(topic, [value] * (records // PARTITIONS), partition=partition)
    pairs = []
    for number in range(rounds + 1):
        turns: list[Callable[[KafkaServer, str], int]] = [_bare, _source][:: (-1) ** number]
        figures = {turn: _timed(turn, server, topic) for turn in turns}
        assert {each[2] for each in figures.values()} == {records // PARTITIONS * PARTITIONS}
        if number:  # the first one warms the broker
            pairs.append((figures[_bare], figures[_source]))
    ratio = median(bare[0] / source[0] for bare, source in pairs)
    lines = [
        "# Kafka",
        "",
        f"`benchmarks/kafka.py`: {records:,} records of 100 bytes, {PARTITIONS} partitions; {rounds} rounds.",
        "",
        "| | processor time a record | records a second |",
        "|---|---|---|",
    ]
    for place, name in enumerate(("a loop of confluent-kafka", "the source")):
        processor_ns = median(pair[place][0] for pair in pairs) / records * 1e9
        rate = records / median(pair[place][1] for pair in pairs)
        lines.append(f"| {name} | {processor_ns:,.0f} ns | {rate:,.0f} |")
    verdict = "met" if ratio >= FLOOR else "missed"
    lines += ["", f"The source by the loop, by processor time: {ratio:.2f} (floor {FLOOR}: {verdict}).", ""]
    spent = _epochs(server, epochs)
    lines += [
        f"An epoch that reads {EPOCH_RECORDS} records of {PARTITIONS} partitions, plan and ranges: median",
        f"{median(spent):.1f} ms, 95 % {quantiles(spent, n=20)[-1]:.1f} ms ({epochs} epochs).",
    ]
    return "\n".join(lines) + "\n"


def _timed(
    turn: Callable[[KafkaServer, str], int], server: KafkaServer, topic: str
) -> tuple[float, float, int]:
    wall, processor = time.perf_counter(), time.process_time()
    count = turn(server, topic)
    return time.process_time() - processor, time.perf_counter() - wall, count


def _bare(server: KafkaServer, topic: str) -> int:
    consumer = Consumer(
        {
            **DEFAULTS["consumer"],
            "bootstrap.servers": server.bootstrap,
            "group.id": "bare",
            "enable.partition.eof": True,
            "enable.auto.commit": False,
            "enable.auto.offset.store": False,
        }
    )
    consumer.assign([TopicPartition(topic, partition, 0) for partition in range(PARTITIONS)])
    count, ended = 0, 0
    while ended < PARTITIONS:
        message = consumer.poll(1)
        messages = [message] if message is not None else []
        messages += consumer.consume(5_000, 0)
        values = [each.value() for each in messages if each.error() is None]
        ended += len(messages) - len(values)
        count += len(values)
    consumer.close()
    return count


class _Reading:
    """The two halves of a source, run by hand as a job runs them: one subtask."""

    def __init__(self, server: KafkaServer, topic: str, *, bounded: bool) -> None:
        builder = KafkaSource.builder().set_bootstrap_servers(server.bootstrap).set_topics(topic)
        builder.set_value_only_deserializer(ByteArraySchema())
        if bounded:
            builder.set_bounded(KafkaOffsetsInitializer.latest())
        source = builder.build()
        self.enumerator = source.build_enumerator(1, None)
        self.reader = source.build_reader(0, 1)
        self.reader.context = SourceReaderContext()
        self.reader.open()
        self.ended = False

    def epoch(self) -> int:
        plan = self.enumerator.plan(PlanRequest(1, BUDGET, 0))
        self.ended = bool(plan.finished)
        ends = [self.reader.read(each, lambda batch: True) for each in plan.ranges.get(0, ())]
        self.enumerator.advance(ends)
        return sum(end.records for end in ends)

    def close(self) -> None:
        self.reader.close()
        self.enumerator.close()


def _source(server: KafkaServer, topic: str) -> int:
    reading = _Reading(server, topic, bounded=True)
    count = 0
    while not reading.ended:
        count += reading.epoch()
    reading.close()
    return count


def _epochs(server: KafkaServer, epochs: int) -> list[float]:
    """Return how long epochs took that found a little, in milliseconds."""
    topic = server.create_topic("tail", PARTITIONS)
    reading = _Reading(server, topic, bounded=False)
    reading.epoch()
    spent = []
    for _ in range(epochs):
        for partition in range(PARTITIONS):
            server.produce(topic, [b"x" * 100] * (EPOCH_RECORDS // PARTITIONS), partition=partition)
        left, began = EPOCH_RECORDS, time.perf_counter()
        while left:
            left -= reading.epoch()
        spent.append((time.perf_counter() - began) * 1000)
    reading.close()
    return spent


if __name__ == "__main__":
    main()
