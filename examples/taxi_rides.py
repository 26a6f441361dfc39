"""Which taxi rides take longer than two hours? Starts and ends come as events of their own, and not in order.

millstream run --target local examples/taxi_rides.py
"""

from millstream.common import Types, WatermarkStrategy
from millstream.common.watermark_strategy import TimestampAssigner
from millstream.datastream import StreamExecutionEnvironment
from millstream.datastream.functions import KeyedProcessFunction, RuntimeContext
from millstream.datastream.state import ValueStateDescriptor

MINUTE_MS = 60_000
EVENTS = [  # ride, START or END, minute
    (1, "START", 0),
    (2, "START", 10),
    (1, "END", 40),
    (4, "END", 90),
    (3, "START", 60),
    (4, "START", 80),
    (5, "START", 150),
    (3, "END", 200),
    (5, "END", 160),
]


class MinutesOf(TimestampAssigner):
    """The last field is the event time in minutes."""

    def extract_timestamp(self, value, record_timestamp):
        """Return milliseconds."""
        return value[2] * MINUTE_MS


class LongRides(KeyedProcessFunction):
    """Waits for the end of each ride, two hours at most."""

    def open(self, runtime_context: RuntimeContext):
        """Ask for the state: the event that came first."""
        self.first = runtime_context.get_state(ValueStateDescriptor("first", Types.STRING()))

    def process_element(self, value, ctx):
        """Remember the start, forget it with the end; ends may come first."""
        _, kind, minute = value
        due = (minute + 120) * MINUTE_MS
        if self.first.value() is None:
            self.first.update(kind)
            if kind == "START":
                ctx.timer_service().register_event_time_timer(due)
        else:
            self.first.clear()

    def on_timer(self, timestamp, ctx):
        """Tell of a ride that has not ended."""
        if self.first.value() == "START":
            self.first.clear()
            yield f"ride {ctx.get_current_key()} has not ended by minute {timestamp // MINUTE_MS}"


def main() -> None:
    """Print long rides."""
    env = StreamExecutionEnvironment.get_execution_environment()
    strategy = WatermarkStrategy.for_monotonous_timestamps().with_timestamp_assigner(MinutesOf())
    rides = env.from_collection(EVENTS).assign_timestamps_and_watermarks(strategy)
    rides.key_by(lambda event: event[0]).process(LongRides()).print()
    env.execute("long taxi rides")


if __name__ == "__main__":
    main()
