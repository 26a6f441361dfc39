"""Makes up orders and writes them to Kafka as JSON: {"region": "north", "cents": 1234, "at_ms": 1700000000000}.

Order n is always the same, so what the counting job has to find can be computed. KAFKA names the brokers; ORDERS is how
many there are (no end), RATE how many a second (100).
"""

import json
import os

from millstream.common import SimpleStringSchema, Types, WatermarkStrategy
from millstream.datastream import StreamExecutionEnvironment
from millstream.datastream.connectors.datagen import DataGeneratorSource, RateLimiterStrategy
from millstream.datastream.connectors.kafka import (
    DeliveryGuarantee,
    KafkaRecordSerializationSchema,
    KafkaSink,
)

REGIONS = ("north", "east", "south", "west")
FIRST_MS = 1_700_000_000_000


def make_order(number: int) -> str:
    """Return an order as JSON; event time goes on 10 ms with each."""
    order = {"region": REGIONS[number % 4], "cents": number % 997 + 3, "at_ms": FIRST_MS + 10 * number}
    return json.dumps(order)


def main() -> None:
    """Run the job."""
    env = StreamExecutionEnvironment.get_execution_environment()
    env.set_parallelism(1)  # orders come in the order of their times
    count, rate = int(os.environ.get("ORDERS", 2**62)), int(os.environ.get("RATE", 100))
    source = DataGeneratorSource(make_order, count, RateLimiterStrategy.per_second(rate), Types.STRING())
    schema = (
        KafkaRecordSerializationSchema.builder()
        .set_topic("orders")
        .set_value_serialization_schema(SimpleStringSchema())
        .build()
    )
    sink = (
        KafkaSink.builder()
        .set_bootstrap_servers(os.environ["KAFKA"])
        .set_record_serializer(schema)
        .set_delivery_guarantee(DeliveryGuarantee.EXACTLY_ONCE)
        .set_transactional_id_prefix("make-orders")
        .build()
    )
    orders = env.from_source(source, WatermarkStrategy.no_watermarks(), "numbers").uid("numbers")
    orders.sink_to(sink).uid("kafka")
    env.execute("make-orders")


if __name__ == "__main__":
    main()
