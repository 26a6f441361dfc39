"""Functions of keyed records that read broadcast state do what they say where they are written into the loop.

The oracle is the operator that calls the function, as its text cannot be found.
"""

from __future__ import annotations

from copy import deepcopy
from operator import itemgetter
from typing import Any

from hypothesis import given
from hypothesis import strategies as st
from made_functions import OTHER_RULES, RULES, Outcome, bodies, common, function_of, outcome_of

from millstream.datastream.functions import KeyedBroadcastProcessFunction
from millstream.operators.broadcast_process import KeyedBroadcastProcessSpec
from millstream.testing import OperatorHarness

HEAD = """
class Made(Base):
    def open(self, context):
        self.one = context.get_state(ValueStateDescriptor("one", TYPE))
        self.rules = RULES
        self.kept = [0]

    def swap(self):
        self.rules = OTHER_RULES

    def process_broadcast_element(self, value, ctx):
        ctx.get_broadcast_state(value[0]).put(value[1], value[2])

    def process_element(self, value, ctx):
"""
ATOMS = (
    "value",
    "value[0]",
    "value[1]",
    "a",
    "None",
    "2",
    "self.one.value()",
    "ctx.get_broadcast_state(RULES).get(value[1])",
    "ctx.get_broadcast_state(RULES).get(a)",
    "ctx.get_broadcast_state(RULES).get(2)",
    "ctx.get_broadcast_state(RULES).get(ctx.get_broadcast_state(OTHER_RULES).get(1))",
    "ctx.get_broadcast_state(self.rules).get(1)",
    "ctx.get_broadcast_state(self.rules).contains(a)",
    "ctx.get_broadcast_state(OTHER_RULES).contains(self.one.value())",
    "len(ctx.get_broadcast_state(RULES).items())",
    "ctx.get_broadcast_state(RULES)[1]",
    "(1 in ctx.get_broadcast_state(self.rules))",
    "ctx.get_broadcast_state(UNASKED_RULES).get(1)",
    "ctx.get_broadcast_state(a)",
    "ctx.timestamp()",
    "ctx.get_current_key()",
)
SIMPLE = (
    "a = {0}",
    "value = {0}",
    "a += {0}",
    "rules = ctx.get_broadcast_state(RULES); yield rules.get(1)",
    "ctx.get_broadcast_state(self.rules).put(1, 1)",
    "yield {0}",
    "yield {0}",
    "yield {0}, {1}",
    "yield value[0], ctx.get_current_key(), ctx.timestamp()",
    "return",
    "return {0}",
    "self.one.update({0})",
    "self.rules = OTHER_RULES",
    "self.swap()",
    "assert {0}",
)
FIRST = (
    ["a = ctx.get_broadcast_state(RULES).get(value[1])"],
    ["a = ctx.get_broadcast_state(self.rules).get(2)", "yield a"],
    ["a = ctx.get_broadcast_state(self.rules).get(1)", "yield a", "self.swap()"],
    [
        "a = value[1]",
        "self.rules = OTHER_RULES if a else RULES",
        "yield ctx.get_broadcast_state(self.rules).contains(1)",
    ],
    ["a = value[1]"],
    [],
)
KEYS = st.sampled_from([0, 1, 1, 2, "a", None])
records = st.lists(
    st.tuples(st.integers(0, 2), KEYS | st.lists(st.integers(0, 1), max_size=1)), min_size=1, max_size=10
)
rules = st.lists(
    st.tuples(st.sampled_from([RULES, OTHER_RULES]), KEYS, st.none() | st.integers(0, 3) | st.just([1])),
    max_size=5,
)


def done(function: Any, given: list[tuple[list[Any], list[Any]]]) -> Outcome:
    spec = KeyedBroadcastProcessSpec(function, (RULES, OTHER_RULES), itemgetter(0))
    harness = OperatorHarness(spec, inputs=2)

    def push() -> None:
        for rules, batch in given:
            harness.push_batch(rules)
            harness.push_batch(batch, list(range(len(batch))), input=1)

    return outcome_of(harness, push)


@common
@given(bodies(ATOMS, SIMPLE, FIRST), st.lists(st.tuples(rules, records), min_size=1, max_size=3))
def test_a_function_of_rules_gives_what_it_gives_record_by_record(body, given_batches):
    made, called = (
        function_of(HEAD, body, KeyedBroadcastProcessFunction, known=each) for each in (True, False)
    )
    assert done(made, deepcopy(given_batches)) == done(called, deepcopy(given_batches))


def test_a_read_of_rules_is_written_into_the_loop():
    body = ["        if ctx.get_broadcast_state(RULES).get(value[1]):", "            yield value"]
    made = function_of(HEAD, body, KeyedBroadcastProcessFunction, known=True)
    spec = KeyedBroadcastProcessSpec(made, (RULES, OTHER_RULES), itemgetter(0))
    harness = OperatorHarness(spec, inputs=2)
    harness.push_batch([(RULES, 1, True)])
    harness.push_batch([("x", 1), ("y", 2)], [5, 6], input=1)
    assert harness.take_records() == [(("x", 1), 5)]
    (loop,) = harness.operators[0]._loops.values()
    assert not loop._looks_around
