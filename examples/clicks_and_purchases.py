"""Which click led to a purchase within five minutes? An interval join.

millstream run --target local examples/clicks_and_purchases.py
"""

from millstream.common import Time, WatermarkStrategy
from millstream.common.watermark_strategy import TimestampAssigner
from millstream.datastream import StreamExecutionEnvironment
from millstream.datastream.functions import ProcessJoinFunction

CLICKS = [("ada", "tea", 0), ("bob", "pot", 60), ("ada", "cup", 200), ("cid", "tea", 220)]
PURCHASES = [("ada", "tea", 120), ("bob", "pot", 500), ("ada", "cup", 320)]


class SecondsOf(TimestampAssigner):
    """The last field is the event time in seconds."""

    def extract_timestamp(self, value, record_timestamp):
        """Return milliseconds."""
        return value[2] * 1000


class SameItem(ProcessJoinFunction):
    """Keeps pairs of the same item."""

    def process_element(self, left, right, ctx):
        """Write one line."""
        if left[1] == right[1]:
            yield f"{left[0]} bought {left[1]} {right[2] - left[2]} s after the click"


def main() -> None:
    """Print clicks that led to a purchase."""
    env = StreamExecutionEnvironment.get_execution_environment()
    strategy = WatermarkStrategy.for_monotonous_timestamps().with_timestamp_assigner(SecondsOf())
    clicks = env.from_collection(CLICKS).assign_timestamps_and_watermarks(strategy)
    purchases = env.from_collection(PURCHASES).assign_timestamps_and_watermarks(strategy)
    (
        clicks.key_by(lambda click: click[0])
        .interval_join(purchases.key_by(lambda purchase: purchase[0]))
        .between(Time.seconds(0), Time.minutes(5))
        .process(SameItem())
        .print()
    )
    env.execute("clicks and purchases")


if __name__ == "__main__":
    main()
