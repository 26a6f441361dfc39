"""Counts orders from Kafka by region and window of ten seconds, and upserts them into PostgreSQL, exactly once.

KAFKA names the brokers, DATABASE, DATABASE_USER and DATABASE_PASSWORD the database. With BOUNDED it ends behind what is
there.
"""

import json
import os

from millstream.common import Duration, SimpleStringSchema, Time, Types, WatermarkStrategy
from millstream.common.watermark_strategy import TimestampAssigner
from millstream.datastream import ProcessWindowFunction, StreamExecutionEnvironment
from millstream.datastream.connectors.jdbc import JdbcConnectionOptions, JdbcSink
from millstream.datastream.connectors.kafka import KafkaOffsetsInitializer, KafkaSource
from millstream.datastream.window import TumblingEventTimeWindows

TOTAL = Types.ROW_NAMED(
    ["region", "window_end_ms", "orders", "cents"],
    [Types.STRING(), Types.LONG(), Types.LONG(), Types.LONG()],
)


def parse(text: str) -> tuple[str, int, int, int]:
    """Return region, time, one, and cents of an order."""
    order = json.loads(text)
    return order["region"], order["at_ms"], 1, order["cents"]


class AtMs(TimestampAssigner):
    """An order's time is when it was placed."""

    def extract_timestamp(self, value, record_timestamp):
        """Return it."""
        return json.loads(value)["at_ms"]


def add(one: tuple, other: tuple) -> tuple:
    """Return two orders as one."""
    return one[0], max(one[1], other[1]), one[2] + other[2], one[3] + other[3]


class Total(ProcessWindowFunction):
    """Gives a window's total the window's end."""

    def process(self, key, context, elements):
        """Give the row."""
        for region, _, orders, cents in elements:
            yield region, context.window().end, orders, cents


def main() -> None:
    """Run the job."""
    env = StreamExecutionEnvironment.get_execution_environment()
    builder = (
        KafkaSource.builder()
        .set_bootstrap_servers(os.environ["KAFKA"])
        .set_topics("orders")
        .set_group_id("count-orders")
        .set_starting_offsets(KafkaOffsetsInitializer.earliest())
        .set_property("isolation.level", "read_committed")
        .set_value_only_deserializer(SimpleStringSchema())
    )
    if "BOUNDED" in os.environ:
        builder = builder.set_bounded(KafkaOffsetsInitializer.latest())
    connection = (
        JdbcConnectionOptions.JdbcConnectionOptionsBuilder()
        .with_url(os.environ["DATABASE"])
        .with_user_name(os.environ["DATABASE_USER"])
        .with_password(os.environ["DATABASE_PASSWORD"])
        .build()
    )
    sink = (
        JdbcSink.table("totals")
        .with_type_info(TOTAL)
        .with_key_columns("region", "window_end_ms")
        .build_exactly_once(connection)
    )
    # Where it is read: each partition has a watermark of its own, so none makes the orders of another late.
    times = WatermarkStrategy.for_bounded_out_of_orderness(Duration.of_seconds(5)).with_timestamp_assigner(
        AtMs()
    )
    messages = env.from_source(builder.build(), times.with_idleness(Duration.of_seconds(30)), "kafka").uid(
        "kafka"
    )
    orders = messages.map(parse).uid("parse")
    windows = orders.key_by(lambda order: order[0]).window(TumblingEventTimeWindows.of(Time.seconds(10)))
    windows.reduce(add, Total(), TOTAL).uid("totals").sink_to(sink).uid("postgres")
    env.execute("count-orders")


if __name__ == "__main__":
    main()
