"""Allowed lateness and late records, with a watermark after each record.

oracle: watermark after each record
"""

import os
import time

from pyflink.common import Configuration, Duration, Types, WatermarkStrategy
from pyflink.common.time import Time
from pyflink.common.watermark_strategy import TimestampAssigner
from pyflink.datastream import OutputTag, ProcessWindowFunction, StreamExecutionEnvironment
from pyflink.datastream.window import EventTimeSessionWindows, TumblingEventTimeWindows

PACE_S = float(os.environ.get("ORACLE_PACE_S", 0))


class Stamp(TimestampAssigner):
    def extract_timestamp(self, value, record_timestamp):
        return value[1]


class Span(ProcessWindowFunction):
    def process(self, key, context, elements):
        watermark = context.current_watermark()
        values = sorted(value for _, _, value in elements)
        yield f"{key} {context.window().start} {context.window().end} {values} at {watermark}"


def late():
    return OutputTag("late", Types.TUPLE([Types.STRING(), Types.LONG(), Types.INT()]))


def pace(record):
    """Ticks give the watermark time to follow the record before them; they are taken out behind it."""
    time.sleep(PACE_S if record == TICK else 0)
    return record


TICK = ("tick", -1_000_000, 0)
RECORDS = [
    ("a", 100, 1),
    ("a", 1200, 2),
    ("b", 900, 3),
    ("a", 500, 4),
    ("a", 2050, 5),
    ("a", 600, 6),
    ("a", 1900, 7),
    ("b", 2600, 8),
    ("a", 1999, 9),
    ("a", 700, 10),
    ("b", 3400, 11),
    ("a", 3300, 12),
    ("b", 1, 13),
    ("a", 2950, 14),
]

configuration = Configuration()
configuration.set_string("pipeline.auto-watermark-interval", "10 ms")
configuration.set_string("python.fn-execution.bundle.size", "1")
env = StreamExecutionEnvironment.get_execution_environment(configuration)
env.set_parallelism(1)
strategy = WatermarkStrategy.for_bounded_out_of_orderness(Duration.of_millis(50)).with_timestamp_assigner(
    Stamp()
)
kind = late().type_info
ticking = [each for record in RECORDS for each in (record, TICK, TICK, TICK)]
records = env.from_collection(ticking, kind).map(pace, kind)
stamped = records.assign_timestamps_and_watermarks(strategy).filter(lambda record: record[0] != "tick")
keyed = stamped.key_by(lambda record: record[0], Types.STRING())
second = TumblingEventTimeWindows.of(Time.seconds(1))
plain = keyed.window(second).side_output_late_data(late()).process(Span(), Types.STRING())
plain.print("plain")
plain.get_side_output(late()).print("plain late")
patient = (
    keyed.window(second).allowed_lateness(1000).side_output_late_data(late()).process(Span(), Types.STRING())
)
patient.print("patient")
patient.get_side_output(late()).print("patient late")
sessions = keyed.window(EventTimeSessionWindows.with_gap(Time.milliseconds(300)))
sessions.allowed_lateness(500).process(Span(), Types.STRING()).print("session")
env.execute()
