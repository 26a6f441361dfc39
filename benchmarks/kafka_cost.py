"""What exactly once costs a Kafka sink: the same job with each guarantee, in turns, as processor time.

    python benchmarks/kafka_cost.py [--job count write] [--records 1000000] [--rounds 3]

A Kafka broker runs on this machine. There are two jobs, each with a checkpoint every second. `count` reads JSON from
two partitions, counts by key in a process function with state, and writes a text for each record
(`programs/kafka_json.py`, which stands beside PyFlink in `kafka_pyflink.py`). `write` does next to nothing but write:
it makes texts of 100 letters, each with a key.

A job runs in this process, once for each guarantee in each round. Processor time is that of the job's process: of the
broker there is none in it. Where much else runs medians differ from run to run; what took least is told as well.
"""

from __future__ import annotations

import argparse
import statistics
import sys
import tempfile
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from millstream.common import Configuration, SerializationSchema, SimpleStringSchema, Types, WatermarkStrategy
from millstream.datastream import StreamExecutionEnvironment
from millstream.datastream.connectors.kafka import (
    DeliveryGuarantee,
    KafkaRecordSerializationSchema,
    KafkaSink,
)
from millstream.datastream.connectors.number_seq import NumberSequenceSource

sys.path.insert(0, str(Path(__file__).resolve().parent.parent / "tests"))

from programs.api import Api
from programs.kafka_json import copy, record

from servers.kafka import KafkaServer

WARM_UP = 10_000


class Key(SerializationSchema):
    def serialize(self, value):
        return value[:6].encode()


@dataclass(frozen=True)
class Task:
    """What a job is to do.

    Attributes:
        broker: Where it writes to, and reads from.
        topic: It writes to.
        guarantee: Of its sink.
        records: How many it writes.
    """

    broker: KafkaServer
    topic: str
    guarantee: DeliveryGuarantee
    records: int


def write(env: StreamExecutionEnvironment, task: Task) -> None:
    schema = KafkaRecordSerializationSchema.builder().set_topic(task.topic)
    schema.set_key_serialization_schema(Key()).set_value_serialization_schema(SimpleStringSchema())
    sink = KafkaSink.builder().set_bootstrap_servers(task.broker.bootstrap)
    sink.set_record_serializer(schema.build())
    sink.set_delivery_guarantee(task.guarantee).set_transactional_id_prefix(task.topic)
    numbers = env.from_source(
        NumberSequenceSource(1, task.records), WatermarkStrategy.no_watermarks(), "numbers"
    ).uid("numbers")
    numbers.map(lambda number: f"{number:0100d}", Types.STRING()).sink_to(sink.build()).uid("sink")


def count(env: StreamExecutionEnvironment, task: Task) -> None:
    source = f"records-{task.records}"
    copy(Api.load("millstream"), env, task.broker.bootstrap, source, task.topic, task.guarantee.name)


JOBS: dict[str, Callable[[StreamExecutionEnvironment, Task], None]] = {"count": count, "write": write}


def run(job: str, task: Task) -> tuple[float, float]:
    """Return processor time and wall time of a job, seconds."""
    options = {"execution.checkpointing.interval": "1 s", "execution.target": "local"}
    env = StreamExecutionEnvironment.get_execution_environment(Configuration.from_dict(options))
    env.set_parallelism(1)
    JOBS[job](env, task)
    cpu, wall = time.process_time(), time.monotonic()
    env.execute()
    return time.process_time() - cpu, time.monotonic() - wall


def main() -> None:
    parser = argparse.ArgumentParser(description="what exactly once costs a Kafka sink")
    parser.add_argument("--job", nargs="+", choices=JOBS, default=[*JOBS])
    parser.add_argument("--records", type=int, default=1_000_000)
    parser.add_argument("--rounds", type=int, default=3)
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="millstream-kafka-cost-", ignore_cleanup_errors=True) as scratch:
        broker = KafkaServer(Path(scratch))
        broker.start()
        try:
            broker.warm_up()
            for name in arguments.job:
                took = measure(broker, name, arguments.records, arguments.rounds)
                print(report(name, took, arguments.records))
        finally:
            broker.stop()


def measure(broker: KafkaServer, job: str, records: int, rounds: int) -> dict[str, list[tuple[float, float]]]:
    """Return processor time and wall time of each round by guarantee, seconds."""
    if job == "count":
        for size in {WARM_UP, records}:
            topic = broker.create_topic(f"records-{size}", 2)
            for partition in range(2):
                broker.produce(topic, [record(n) for n in range(partition, size, 2)], partition=partition)
    took: dict[str, list[tuple[float, float]]] = {}
    for number in range(rounds + 1):
        for place, guarantee in enumerate(DeliveryGuarantee):
            topic = broker.create_topic(f"{job}-{number}-{place}", 4)
            figures = run(job, Task(broker, topic, guarantee, records if number else WARM_UP))
            if number:
                took.setdefault(guarantee.name, []).append(figures)
            broker.delete_topic(topic)
    return took


def report(job: str, took: dict[str, list[tuple[float, float]]], records: int) -> str:
    lines = [
        f"{job}: {records:,} records, medians of {len(took['NONE'])} rounds",
        "",
        "| guarantee | processor time a record | of NONE's | least of all rounds | of NONE's | wall time | of NONE's |",
        "| --- | ---: | ---: | ---: | ---: | ---: | ---: |",
    ]
    bases = [statistics.median(column) for column in zip(*took["NONE"], strict=True)]
    least_base = min(cpu for cpu, _ in took["NONE"])
    for name, figures in took.items():
        cpu, wall = (statistics.median(column) for column in zip(*figures, strict=True))
        least = min(each for each, _ in figures)
        lines.append(
            f"| {name} | {cpu / records * 1e6:.2f} us | {cpu / bases[0]:.2f} x "
            f"| {least / records * 1e6:.2f} us | {least / least_base:.2f} x | {wall:.1f} s | {wall / bases[1]:.2f} x |"
        )
    return "\n".join([*lines, ""])


if __name__ == "__main__":
    main()
