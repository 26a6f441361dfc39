"""The watermark between records: what process functions see of it, and timers that fire in between.

oracle: watermark after each record
"""

import os
import time

from pyflink.common import Configuration, Types, WatermarkStrategy
from pyflink.common.watermark_strategy import TimestampAssigner
from pyflink.datastream import KeyedProcessFunction, ProcessFunction, StreamExecutionEnvironment

PACE_S = float(os.environ.get("ORACLE_PACE_S", 0))


class Stamp(TimestampAssigner):
    def extract_timestamp(self, value, record_timestamp):
        return value


class Watermarks(ProcessFunction):
    def process_element(self, value, ctx):
        yield f"{value} {ctx.timestamp()} after {ctx.timer_service().current_watermark()}"


class Count(KeyedProcessFunction):
    """Counts what came before each timer; timers of the past fire at once."""

    def open(self, runtime_context):
        self.count = 0

    def process_element(self, value, ctx):
        self.count += 1
        ctx.timer_service().register_event_time_timer(value + 30)
        if value == 80:
            ctx.timer_service().delete_event_time_timer(130)

    def on_timer(self, timestamp, ctx):
        yield f"{ctx.get_current_key()} {timestamp} after {self.count} at {ctx.timer_service().current_watermark()}"


def pace(value):
    """Ticks give the watermark time to follow the record before them; they are taken out behind it."""
    time.sleep(PACE_S if value == TICK else 0)
    return value


TICK = -1
ticking = [each for value in (10, 20, 100, 60, 80, 200, 150) for each in (value, TICK, TICK, TICK)]
configuration = Configuration()
configuration.set_string("pipeline.auto-watermark-interval", "10 ms")
configuration.set_string("python.fn-execution.bundle.size", "1")
env = StreamExecutionEnvironment.get_execution_environment(configuration)
env.set_parallelism(1)
strategy = WatermarkStrategy.for_monotonous_timestamps().with_timestamp_assigner(Stamp())
numbers = env.from_collection(ticking, Types.LONG()).map(pace, Types.LONG())
stamped = numbers.assign_timestamps_and_watermarks(strategy).filter(lambda value: value >= 0)
stamped.process(Watermarks(), Types.STRING()).print("watermark")
stamped.key_by(lambda value: value > 90, Types.BOOLEAN()).process(Count(), Types.STRING()).print("timer")
env.execute()
