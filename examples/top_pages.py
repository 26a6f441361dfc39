"""The three most visited pages of each minute: count in windows, then compare the counts of a window.

millstream run --target local examples/top_pages.py
"""

from millstream.common import Time, WatermarkStrategy
from millstream.common.watermark_strategy import TimestampAssigner
from millstream.datastream import StreamExecutionEnvironment
from millstream.datastream.functions import ProcessAllWindowFunction, ProcessWindowFunction
from millstream.datastream.window import TumblingEventTimeWindows

PAGES = ["/", "/tea", "/cup", "/pot", "/cart"]
VISITS = [(PAGES[(second * second) % 5 if second % 3 else 0], second) for second in range(120)]


class SecondsOf(TimestampAssigner):
    """The second field is the event time in seconds."""

    def extract_timestamp(self, value, record_timestamp):
        """Return milliseconds."""
        return value[1] * 1000


class Count(ProcessWindowFunction):
    """Gives page, count."""

    def process(self, key, context, elements):
        """Count what is in the window."""
        yield key, sum(1 for _ in elements)


class Top(ProcessAllWindowFunction):
    """Gives the three best of a window."""

    def process(self, context, elements):
        """Sort by count, then by name."""
        best = sorted(elements, key=lambda page: (-page[1], page[0]))[:3]
        yield f"minute {context.window().start // 60_000}: " + ", ".join(f"{page} {n}" for page, n in best)


def main() -> None:
    """Print one line for each minute."""
    env = StreamExecutionEnvironment.get_execution_environment()
    strategy = WatermarkStrategy.for_monotonous_timestamps().with_timestamp_assigner(SecondsOf())
    minute = Time.minutes(1)
    (
        env.from_collection(VISITS)
        .assign_timestamps_and_watermarks(strategy)
        .key_by(lambda visit: visit[0])
        .window(TumblingEventTimeWindows.of(minute))
        .process(Count())
        .window_all(TumblingEventTimeWindows.of(minute))
        .process(Top())
        .print()
    )
    env.execute("top pages")


if __name__ == "__main__":
    main()
