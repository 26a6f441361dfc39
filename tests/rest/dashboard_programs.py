"""Programs whose jobs the dashboard's tests look at; run as `python dashboard_programs.py NAME DIRECTORY`."""

from __future__ import annotations

import sys
import time
from pathlib import Path

from millstream.common import Duration, Types, WatermarkStrategy
from millstream.common.watermark_strategy import TimestampAssigner
from millstream.datastream import KeyedProcessFunction, StreamExecutionEnvironment
from millstream.datastream.connectors.datagen import DataGeneratorSource, RateLimiterStrategy
from millstream.datastream.state import ValueStateDescriptor

HOSTILE = "count <img src=x onerror=alert(1)>"


class At(TimestampAssigner):
    """The third field."""

    def extract_timestamp(self, value, record_timestamp):  # type: ignore[no-untyped-def]
        return value[2]


class Count(KeyedProcessFunction):
    """Counts by key, until a file says that it is to fail."""

    def __init__(self, fails_if: str) -> None:
        self.fails_if = fails_if

    def open(self, runtime_context):  # type: ignore[no-untyped-def]
        self.count = runtime_context.get_state(ValueStateDescriptor("count", Types.LONG()))
        self.orders = runtime_context.get_int_counter("orders <b>seen</b>")

    def process_element(self, value, ctx):  # type: ignore[no-untyped-def]
        if Path(self.fails_if).exists():
            raise ValueError("a broken <b>order</b>")
        count = (self.count.value() or 0) + 1
        self.count.update(count)
        self.orders.add(1)
        yield (value[0], count, value[2])


def main(name: str, directory: str) -> None:
    env = StreamExecutionEnvironment.get_execution_environment()
    env.set_parallelism(2)
    env.enable_checkpointing(300)
    began_ms = int(time.time() * 1000)
    orders = DataGeneratorSource(
        lambda index: (index % 5, index, began_ms + index), None, RateLimiterStrategy.per_second(500)
    )
    strategy = WatermarkStrategy.for_bounded_out_of_orderness(Duration.of_seconds(1))
    stream = env.from_source(orders, strategy.with_timestamp_assigner(At()), "orders").uid("orders")
    counted = (
        stream.key_by(lambda value: value[0]).process(Count(f"{directory}/fail")).uid("count").name(HOSTILE)
    )
    counted.filter(lambda value: value[1] < 0).print()
    env.execute(name)


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2])
