"""What exactly once costs a Kafka sink: the same job with each guarantee, in turns, as processor time.

    python benchmarks/kafka_cost.py [--records 1000000] [--rounds 3]

A Kafka broker runs on this machine. A job in this process makes texts of 100 letters and writes them with a key, with a
checkpoint every second; once for each guarantee in each round, and for exactly once also with everything that waits
read from files, as where slots are other processes than the driver. Processor time is that of the job's process: of the
broker there is none in it. Where much else runs medians differ from run to run; what took least is told as well.
"""

from __future__ import annotations

import argparse
import statistics
import sys
import tempfile
import time
from pathlib import Path

from millstream.common import Configuration, SerializationSchema, SimpleStringSchema, Types, WatermarkStrategy
from millstream.connectors.kafka.in_memory import MOST_BYTES, in_memory
from millstream.datastream import StreamExecutionEnvironment
from millstream.datastream.connectors.kafka import (
    DeliveryGuarantee,
    KafkaRecordSerializationSchema,
    KafkaSink,
)
from millstream.datastream.connectors.number_seq import NumberSequenceSource

sys.path.insert(0, str(Path(__file__).resolve().parent.parent / "tests"))

from servers.kafka import KafkaServer

FROM_FILES = "EXACTLY_ONCE, read from files"
VARIANTS = {FROM_FILES: DeliveryGuarantee.EXACTLY_ONCE, **{each.name: each for each in DeliveryGuarantee}}


class Key(SerializationSchema):
    def serialize(self, value):
        return value[:6].encode()


def run(broker: KafkaServer, topic: str, guarantee: DeliveryGuarantee, records: int) -> tuple[float, float]:
    """Return processor time and wall time of the job, seconds."""
    options = {"execution.checkpointing.interval": "1 s", "execution.target": "local"}
    env = StreamExecutionEnvironment.get_execution_environment(Configuration.from_dict(options))
    env.set_parallelism(1)
    schema = KafkaRecordSerializationSchema.builder().set_topic(topic).set_key_serialization_schema(Key())
    schema.set_value_serialization_schema(SimpleStringSchema())
    sink = KafkaSink.builder().set_bootstrap_servers(broker.bootstrap).set_record_serializer(schema.build())
    sink.set_delivery_guarantee(guarantee).set_transactional_id_prefix(topic)
    numbers = env.from_source(
        NumberSequenceSource(1, records), WatermarkStrategy.no_watermarks(), "numbers"
    ).uid("numbers")
    numbers.map(lambda number: f"{number:0100d}", Types.STRING()).sink_to(sink.build()).uid("sink")
    cpu, wall = time.process_time(), time.monotonic()
    env.execute()
    return time.process_time() - cpu, time.monotonic() - wall


def main() -> None:
    parser = argparse.ArgumentParser(description="what exactly once costs a Kafka sink")
    parser.add_argument("--records", type=int, default=1_000_000)
    parser.add_argument("--rounds", type=int, default=3)
    arguments = parser.parse_args()
    took: dict[str, list[tuple[float, float]]] = {}
    with tempfile.TemporaryDirectory(prefix="millstream-kafka-cost-", ignore_cleanup_errors=True) as scratch:
        broker = KafkaServer(Path(scratch))
        broker.start()
        try:
            broker.warm_up()
            for number in range(arguments.rounds + 1):
                for name, guarantee in VARIANTS.items():
                    in_memory.most_bytes = 0 if name == FROM_FILES else MOST_BYTES
                    topic = broker.create_topic(f"sink-{number}-{list(VARIANTS).index(name)}", 4)
                    # The first round warms up.
                    figures = run(broker, topic, guarantee, arguments.records if number else 10_000)
                    if number:
                        took.setdefault(name, []).append(figures)
                    broker.delete_topic(topic)
        finally:
            broker.stop()
    print(f"{arguments.records:,} records of 100 bytes, medians of {arguments.rounds} rounds\n")
    print("| guarantee | processor time a record | of NONE's | least of all rounds | of NONE's | wall time |")
    print("| --- | ---: | ---: | ---: | ---: | ---: |")
    bases = [cpu for cpu, _ in took["NONE"]]
    for name, figures in took.items():
        cpu, wall = (statistics.median(column) for column in zip(*figures, strict=True))
        least = min(each for each, _ in figures)
        print(
            f"| {name} | {cpu / arguments.records * 1e6:.2f} us | {cpu / statistics.median(bases):.2f} x "
            f"| {least / arguments.records * 1e6:.2f} us | {least / min(bases):.2f} x | {wall:.1f} s |"
        )


if __name__ == "__main__":
    main()
