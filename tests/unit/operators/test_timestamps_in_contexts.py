"""What `ctx.timestamp()` gives in every kind of process function: -2**63 without a timestamp, as in PyFlink."""

from __future__ import annotations

import pytest

from millstream.common.state import MapStateDescriptor
from millstream.datastream import ProcessFunction, StreamExecutionEnvironment
from millstream.datastream.functions import (
    BroadcastProcessFunction,
    CoProcessFunction,
    KeyedBroadcastProcessFunction,
    KeyedCoProcessFunction,
    KeyedProcessFunction,
)

NONE = -9223372036854775808
RULES = MapStateDescriptor("rules")


def tell(self, value, ctx):
    yield value, ctx.timestamp()


def tell_both(self, value, ctx):
    """Tell what the function before told, and the timestamp that its result came with."""
    yield *value, ctx.timestamp()


def made(base, *methods):
    return type(f"Told{base.__name__}", (base,), dict.fromkeys(methods, tell))()


Second = type("Second", (ProcessFunction,), {"process_element": tell_both})
PLAIN = made(ProcessFunction, "process_element")
KEYED = made(KeyedProcessFunction, "process_element")
TWO = made(CoProcessFunction, "process_element1", "process_element2")
KEYED_TWO = made(KeyedCoProcessFunction, "process_element1", "process_element2")
BROADCAST = made(BroadcastProcessFunction, "process_element", "process_broadcast_element")
KEYED_BROADCAST = made(KeyedBroadcastProcessFunction, "process_element", "process_broadcast_element")


def key(value):
    return value % 2


GRAPHS = {
    "process": lambda a, b: a.union(b).process(PLAIN),
    "keyed process": lambda a, b: a.union(b).key_by(key).process(KEYED),
    "connected": lambda a, b: a.connect(b).process(TWO),
    "keyed connected": lambda a, b: a.connect(b).key_by(key, key).process(KEYED_TWO),
    "broadcast": lambda a, b: a.connect(b.broadcast(RULES)).process(BROADCAST),
    "keyed broadcast": lambda a, b: a.key_by(key).connect(b.broadcast(RULES)).process(KEYED_BROADCAST),
}


@pytest.mark.parametrize("graph", GRAPHS.values(), ids=GRAPHS)
def test_a_record_without_timestamp_has_the_smallest_and_so_has_what_it_gives(graph):
    env = StreamExecutionEnvironment.get_execution_environment()
    env.set_parallelism(1)
    told = graph(env.from_collection([1, 2, 3]), env.from_collection([4, 5])).process(Second())
    with told.execute_and_collect() as results:
        assert sorted(results) == [(number, NONE, NONE) for number in (1, 2, 3, 4, 5)]
