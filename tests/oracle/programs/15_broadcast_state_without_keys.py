"""A broadcast stream without keys; either side waits in the function for the other, so the order does not matter."""

from pyflink.common import Types
from pyflink.datastream import BroadcastProcessFunction, OutputTag, StreamExecutionEnvironment
from pyflink.datastream.state import MapStateDescriptor

NAMES = MapStateDescriptor("names", Types.INT(), Types.STRING())
SEEN = OutputTag("seen", Types.STRING())


class Name(BroadcastProcessFunction):
    def open(self, runtime_context):
        self.waiting = []

    def process_element(self, value, ctx):
        yield SEEN, f"saw {value}"
        name = ctx.get_broadcast_state(NAMES).get(value)
        if name is None:
            self.waiting.append(value)
        else:
            yield f"{value} {name}"

    def process_broadcast_element(self, value, ctx):
        state = ctx.get_broadcast_state(NAMES)
        state.put(value[0], value[1])
        yield SEEN, f"told {len(list(state.items()))}"
        for number in [number for number in self.waiting if number == value[0]]:
            self.waiting.remove(number)
            yield f"{number} {value[1]}"


env = StreamExecutionEnvironment.get_execution_environment()
env.set_parallelism(2)
numbers = env.from_collection([1, 2, 3, 2, 9, 1], Types.INT())
names = env.from_collection(
    [(1, "one"), (2, "two"), (3, "three"), (4, "four")], Types.TUPLE([Types.INT(), Types.STRING()])
)
named = numbers.connect(names.broadcast(NAMES)).process(Name(), Types.STRING())
named.print()
named.get_side_output(SEEN).print("side")
env.execute()
