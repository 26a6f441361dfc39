"""Average of each three prices of a share that follow each other: a sliding count window.

millstream run --target local examples/moving_average.py
"""

from millstream.datastream import StreamExecutionEnvironment
from millstream.datastream.functions import WindowFunction

PRICES = [("mill", 10.0), ("mill", 12.0), ("rush", 5.0), ("mill", 14.0), ("rush", 7.0), ("mill", 10.0)]


class Average(WindowFunction):
    """Averages what is in the window."""

    def apply(self, key, window, inputs):
        """Write one line."""
        prices = [price for _, price in inputs]
        yield f"{key}: {sum(prices) / len(prices):.1f} of {len(prices)}"


def main() -> None:
    """Print an average for each three prices."""
    env = StreamExecutionEnvironment.get_execution_environment()
    env.from_collection(PRICES).key_by(lambda price: price[0]).count_window(3, 1).apply(Average()).print()
    env.execute("moving average")


if __name__ == "__main__":
    main()
