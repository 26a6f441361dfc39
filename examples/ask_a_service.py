"""Ask a slow service for each record, with many questions under way at once: async I/O.

millstream run --target local examples/ask_a_service.py
"""

import asyncio

from millstream.common import Time, Types
from millstream.datastream import AsyncDataStream, AsyncFunction, StreamExecutionEnvironment

PRICES = {"tea": 4.5, "cup": 12.0, "pot": 30.0}


class PriceOf(AsyncFunction):
    """Stands for a call over the network that takes ten milliseconds."""

    async def async_invoke(self, value):
        """Wait, and give the answer."""
        await asyncio.sleep(0.01)
        return [(value, PRICES[value])]

    def timeout(self, value):
        """Go on without a price."""
        return [(value, None)]


def main() -> None:
    """Print a hundred prices, in the order of the questions, in much less than a hundred times ten milliseconds."""
    env = StreamExecutionEnvironment.get_execution_environment()
    items = env.from_collection([list(PRICES)[number % 3] for number in range(100)])
    priced = AsyncDataStream.ordered_wait(
        items, PriceOf(), Time.seconds(60), 50, Types.TUPLE([Types.STRING(), Types.DOUBLE()])
    )
    (
        priced.key_by(lambda pair: pair[0])
        .count_window(33)
        .reduce(lambda one, other: (one[0], one[1] + other[1]))
        .map(lambda pair: f"33 x {pair[0]}: {pair[1]}")
        .print()
    )
    env.execute("ask a service")


if __name__ == "__main__":
    main()
