"""Change the rules of a running job: a broadcast stream of limits, and a stream of orders that are held against them.

millstream run --target local examples/rules_on_the_fly.py
"""

from millstream.common import Types
from millstream.datastream import StreamExecutionEnvironment
from millstream.datastream.functions import KeyedBroadcastProcessFunction, RuntimeContext
from millstream.datastream.state import ListStateDescriptor, MapStateDescriptor

LIMITS = MapStateDescriptor("limits", Types.STRING(), Types.INT())
ORDERS = [("north", 30), ("south", 70), ("north", 120), ("south", 20)]
RULES = [("north", 100), ("south", 50)]


class Check(KeyedBroadcastProcessFunction):
    """Keeps orders of shops without a limit until there is one."""

    def open(self, runtime_context: RuntimeContext):
        """Ask for the state."""
        self.waiting = runtime_context.get_list_state(ListStateDescriptor("waiting", Types.INT()))

    def process_element(self, value, ctx):
        """Hold an order against its shop's limit."""
        shop, euros = value
        limit = ctx.get_broadcast_state(LIMITS).get(shop)
        if limit is None:
            self.waiting.add(euros)
        elif euros > limit:
            yield f"{shop}: {euros} is over {limit}"

    def process_broadcast_element(self, value, ctx):
        """Take a limit over, and look at what has waited for it."""
        shop, limit = value
        ctx.get_broadcast_state(LIMITS).put(shop, limit)
        over: list[str] = []

        def look(key, state):
            if key == shop:
                over.extend(
                    f"{shop}: {euros} is over {limit}" for euros in state.get() or [] if euros > limit
                )
                state.clear()

        ctx.apply_to_keyed_state(ListStateDescriptor("waiting", Types.INT()), look)
        yield from over


def main() -> None:
    """Print orders over the limit, whichever of the two comes first."""
    env = StreamExecutionEnvironment.get_execution_environment()
    rules = env.from_collection(RULES).broadcast(LIMITS)
    orders = env.from_collection(ORDERS, type_info=Types.TUPLE([Types.STRING(), Types.INT()]))
    orders.key_by(lambda order: order[0]).connect(rules).process(Check()).print()
    env.execute("rules on the fly")


if __name__ == "__main__":
    main()
