"""Sum up orders of Kafka in a table of PostgreSQL, exactly once.

    millstream run --recover -D high-availability.storageDir=ha -D execution.checkpointing.dir=checkpoints \
        examples/kafka_to_postgres.py localhost:9092 jdbc:postgresql://localhost:5432/shop

Orders are JSON: `{"shop": "north", "cents": 450}`. The table has to be there:
`CREATE TABLE totals (shop TEXT PRIMARY KEY, orders BIGINT NOT NULL, cents BIGINT NOT NULL)`.
With `--until-now` as the third argument the job ends when it has read what is in the topic at its start.
"""

import json
import sys

from millstream.common import SimpleStringSchema, Types, WatermarkStrategy
from millstream.datastream import StreamExecutionEnvironment
from millstream.datastream.connectors.jdbc import JdbcConnectionOptions, JdbcSink
from millstream.datastream.connectors.kafka import KafkaOffsetsInitializer, KafkaSource

TOTAL = Types.ROW_NAMED(["shop", "orders", "cents"], [Types.STRING(), Types.LONG(), Types.LONG()])


def parse(text: str) -> tuple[str, int, int]:
    """Make (shop, one order, cents) of a message."""
    order = json.loads(text)
    return order["shop"], 1, order["cents"]


def main(brokers: str, database: str, *options: str) -> None:
    """Run until somebody stops the job."""
    env = StreamExecutionEnvironment.get_execution_environment()
    env.enable_checkpointing(1000)
    builder = (
        KafkaSource.builder()
        .set_bootstrap_servers(brokers)
        .set_topics("orders")
        .set_group_id("totals")
        .set_starting_offsets(KafkaOffsetsInitializer.earliest())
        .set_value_only_deserializer(SimpleStringSchema())
    )
    if "--until-now" in options:
        builder.set_bounded(KafkaOffsetsInitializer.latest())
    connection = JdbcConnectionOptions.JdbcConnectionOptionsBuilder().with_url(database).build()
    totals = (
        JdbcSink.table("totals").with_type_info(TOTAL).with_key_columns("shop").build_exactly_once(connection)
    )
    (
        env.from_source(builder.build(), WatermarkStrategy.no_watermarks(), "orders")
        .uid("orders")
        .map(parse, Types.TUPLE([Types.STRING(), Types.LONG(), Types.LONG()]))
        .key_by(lambda order: order[0])
        .reduce(lambda one, other: (one[0], one[1] + other[1], one[2] + other[2]))
        .uid("totals")
        .sink_to(totals)
        .uid("table of totals")
    )
    env.execute("orders to totals")


if __name__ == "__main__":
    main(*sys.argv[1:])
