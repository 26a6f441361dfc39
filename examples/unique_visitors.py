"""Let each visitor through once a day: state that forgets by itself (time to live).

millstream run --target local examples/unique_visitors.py
"""

from millstream.common import Time, Types
from millstream.datastream import StreamExecutionEnvironment
from millstream.datastream.functions import FlatMapFunction, RuntimeContext
from millstream.datastream.state import StateTtlConfig, ValueStateDescriptor

VISITS = ["ada", "bob", "ada", "cid", "bob", "ada", "dan"]


class First(FlatMapFunction):
    """Gives a visitor who has not been seen for a day."""

    def open(self, runtime_context: RuntimeContext):
        """Ask for state that goes away a day behind its last update."""
        seen = ValueStateDescriptor("seen", Types.BOOLEAN())
        seen.enable_time_to_live(StateTtlConfig.new_builder(Time.days(1)).build())
        self.seen = runtime_context.get_state(seen)

    def flat_map(self, value):
        """Let the first visit through."""
        if self.seen.value() is None:
            self.seen.update(True)
            yield f"welcome, {value}"


def main() -> None:
    """Print each visitor once."""
    env = StreamExecutionEnvironment.get_execution_environment()
    env.from_collection(VISITS).key_by(lambda visitor: visitor).flat_map(First()).print()
    env.execute("unique visitors")


if __name__ == "__main__":
    main()
