"""Drop what came before: deduplication by an id, with state for each id.

millstream run --target local examples/one_of_each.py
"""

from millstream.common import Types
from millstream.datastream import StreamExecutionEnvironment
from millstream.datastream.functions import FilterFunction, RuntimeContext
from millstream.datastream.state import ValueStateDescriptor

EVENTS = [(7, "paid"), (8, "paid"), (7, "paid"), (9, "sent"), (8, "paid"), (7, "paid")]


class NotSeen(FilterFunction):
    """Keeps the first event of each id."""

    def open(self, runtime_context: RuntimeContext):
        """Ask for the state."""
        self.seen = runtime_context.get_state(ValueStateDescriptor("seen", Types.BOOLEAN()))

    def filter(self, value):
        """Return whether it is the first one."""
        if self.seen.value():
            return False
        self.seen.update(True)
        return True


def main() -> None:
    """Print each event once."""
    env = StreamExecutionEnvironment.get_execution_environment()
    events = env.from_collection(EVENTS).key_by(lambda event: event[0]).filter(NotSeen())
    events.map(lambda event: f"{event[0]} {event[1]}").print()
    env.execute("one of each")


if __name__ == "__main__":
    main()
