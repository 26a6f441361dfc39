"""Average temperature of each sensor over the last minute, every thirty seconds: sliding windows.

millstream run --target local examples/sensor_averages.py
"""

from millstream.common import Duration, Time, WatermarkStrategy
from millstream.common.watermark_strategy import TimestampAssigner
from millstream.datastream import StreamExecutionEnvironment
from millstream.datastream.functions import AggregateFunction, ProcessWindowFunction
from millstream.datastream.window import SlidingEventTimeWindows

READINGS = [(f"sensor-{second % 2}", 20.0 + second % 7, second) for second in range(0, 150, 5)]


class SecondsOf(TimestampAssigner):
    """The third field is the event time in seconds."""

    def extract_timestamp(self, value, record_timestamp):
        """Return milliseconds."""
        return value[2] * 1000


class Average(AggregateFunction):
    """Keeps a sum and a count: nothing grows with the window."""

    def create_accumulator(self):
        """Begin."""
        return 0.0, 0

    def add(self, value, accumulator):
        """Add a reading."""
        return accumulator[0] + value[1], accumulator[1] + 1

    def get_result(self, accumulator):
        """Return the average."""
        return accumulator[0] / accumulator[1]

    def merge(self, a, b):
        """Put two together."""
        return a[0] + b[0], a[1] + b[1]


class Named(ProcessWindowFunction):
    """Puts sensor and window to the average."""

    def process(self, key, context, elements):
        """Write one line."""
        window = context.window()
        yield f"{key} {window.start // 1000}-{window.end // 1000} s: {elements[0]:.2f}"


def main() -> None:
    """Print an average for each sensor and window."""
    env = StreamExecutionEnvironment.get_execution_environment()
    strategy = WatermarkStrategy.for_bounded_out_of_orderness(Duration.of_seconds(5))
    (
        env.from_collection(READINGS)
        .assign_timestamps_and_watermarks(strategy.with_timestamp_assigner(SecondsOf()))
        .key_by(lambda reading: reading[0])
        .window(SlidingEventTimeWindows.of(Time.seconds(60), Time.seconds(30)))
        .aggregate(Average(), Named())
        .print()
    )
    env.execute("sensor averages")


if __name__ == "__main__":
    main()
