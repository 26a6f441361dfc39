"""All that list and map state can do, but put_all of maps, which PyFlink 2.3 takes wrongly."""

from pyflink.common import Types
from pyflink.datastream import KeyedProcessFunction, StreamExecutionEnvironment
from pyflink.datastream.state import ListStateDescriptor, MapStateDescriptor


class Commands(KeyedProcessFunction):
    def open(self, runtime_context):
        self.items = runtime_context.get_list_state(ListStateDescriptor("items", Types.INT()))
        self.index = runtime_context.get_map_state(MapStateDescriptor("index", Types.STRING(), Types.INT()))

    def process_element(self, value, ctx):
        key, command, number = value
        name = f"n{number % 3}"
        if command == "add":
            self.items.add(number)
            self.index.put(name, (self.index.get(name) or 0) + number)
        elif command == "all":
            self.items.add_all([number, number + 1])
            self.index[name] = number
            self.index["extra"] = -number
        elif command == "update":
            self.items.update([number])
            self.index[name] = number
        elif command == "remove":
            self.items.update([item for item in self.items if item != number])
            if name in self.index:
                del self.index[name]
        elif command == "clear":
            self.items.clear()
            self.index.clear()
        entries = sorted(self.index.items())
        yield (
            f"{key} {command} {number}: {list(self.items.get())} {entries} {sorted(self.index.keys())} "
            f"{sorted(self.index.values())} {self.index.is_empty()} "
            f"{self.index.contains('extra')} {self.index.get('no')}"
        )


COMMANDS = [
    ("a", "add", 1),
    ("a", "add", 2),
    ("b", "all", 4),
    ("a", "add", 4),
    ("a", "remove", 2),
    ("b", "update", 9),
    ("a", "all", 7),
    ("a", "clear", 0),
    ("b", "remove", 4),
    ("a", "add", 5),
    ("b", "clear", 0),
    ("c", "remove", 1),
]

env = StreamExecutionEnvironment.get_execution_environment()
env.set_parallelism(1)
stream = env.from_collection(COMMANDS, Types.TUPLE([Types.STRING(), Types.STRING(), Types.INT()]))
stream.key_by(lambda command: command[0], Types.STRING()).process(Commands(), Types.STRING()).print()
env.execute()
