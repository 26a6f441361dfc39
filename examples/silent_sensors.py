"""Tell when a sensor has been silent for a minute: a timer that each reading puts off.

millstream run --target local examples/silent_sensors.py
"""

from millstream.common import Types, WatermarkStrategy
from millstream.common.watermark_strategy import TimestampAssigner
from millstream.datastream import StreamExecutionEnvironment
from millstream.datastream.functions import KeyedProcessFunction, RuntimeContext
from millstream.datastream.state import ValueStateDescriptor

READINGS = [("a", 0), ("b", 10), ("a", 30), ("b", 40), ("a", 60), ("a", 110), ("b", 130), ("a", 150)]
SILENCE_MS = 60_000


class SecondsOf(TimestampAssigner):
    """The second field is the event time in seconds."""

    def extract_timestamp(self, value, record_timestamp):
        """Return milliseconds."""
        return value[1] * 1000


class Silence(KeyedProcessFunction):
    """Has one timer for each sensor."""

    def open(self, runtime_context: RuntimeContext):
        """Ask for the state."""
        self.due = runtime_context.get_state(ValueStateDescriptor("due", Types.LONG()))

    def process_element(self, value, ctx):
        """Put the timer off."""
        if self.due.value() is not None:
            ctx.timer_service().delete_event_time_timer(self.due.value())
        due = ctx.timestamp() + SILENCE_MS
        ctx.timer_service().register_event_time_timer(due)
        self.due.update(due)

    def on_timer(self, timestamp, ctx):
        """Tell of it."""
        self.due.clear()
        yield f"{ctx.get_current_key()} has been silent since {(timestamp - SILENCE_MS) // 1000} s"


def main() -> None:
    """Print silences."""
    env = StreamExecutionEnvironment.get_execution_environment()
    strategy = WatermarkStrategy.for_monotonous_timestamps(each_record=True)
    (
        env.from_collection(READINGS)
        .assign_timestamps_and_watermarks(strategy.with_timestamp_assigner(SecondsOf()))
        .key_by(lambda reading: reading[0])
        .process(Silence())
        .print()
    )
    env.execute("silent sensors")


if __name__ == "__main__":
    main()
