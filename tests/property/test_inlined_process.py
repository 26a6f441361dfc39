"""Process functions that are written into the loop over their records do what they say, whatever they say.

Functions are made of random statements, also of such as cannot be written into a loop. The oracle calls the function
for one record after the other, with state that is a dict, and copies what it yields at once.
"""

from __future__ import annotations

from collections.abc import Iterable
from copy import deepcopy
from itertools import repeat
from typing import Any

from hypothesis import given
from hypothesis import strategies as st
from made_functions import (
    SIDE,
    Model,
    Outcome,
    bodies,
    common,
    frames_of,
    function_of,
    name_of,
    outcome_of,
    text_of,
)

from millstream.base.errors import TypeMismatchError, shorten
from millstream.base.time import MIN_TIMESTAMP
from millstream.datastream.functions import KeyedProcessFunction
from millstream.operators.process import KeyedProcessSpec
from millstream.testing import OperatorHarness

HEAD = """
class Made(Base):
    def open(self, context):
        self.one = context.get_state(ValueStateDescriptor("one", TYPE))
        self.other = context.get_state(ValueStateDescriptor("other", TYPE))
        self.many = context.get_list_state(ListStateDescriptor("many", TYPE))
        self.kept = [0]

    def look(self):
        return self.one.value()

    def swap(self):
        self.one, self.other = self.other, self.one

    def process_element(self, value, ctx):
"""

ATOMS = (
    "value",
    "value[0]",
    "value[1]",
    "value[2]",
    "a",
    "b",
    "None",
    "2",
    "LIMIT",
    "self.one.value()",
    "self.other.value()",
    "self.look()",
    "self.kept",
    "list(self.many.get())",
    "ctx.timestamp()",
    "ctx.get_current_key()",
)
SIMPLE = (
    "a = {0}",
    "b = {0}",
    "a, b = {0}, {1}",
    "value = {0}",
    "a += {0}",
    "yield {0}",
    "yield {0}, {1}",
    "yield value[0], ctx.get_current_key(), ctx.timestamp()",
    "yield self.one.value(), list(self.many.get())",
    "yield",
    "return",
    "return {0}",
    "pass",
    "self.one.update({0})",
    "self.other.update({0})",
    "self.one.update((self.one.value() or 0) + {0})",
    "self.one.clear()",
    "self.many.add({0})",
    "self.kept.append({0})",
    "self.kept = [{0}]",
    "self.swap()",
    "value[2].append({0})",
    "_ = self.other.update({0})",
    "assert {0}",
    "raise StopIteration",
    "for a in (1, 2): yield a",
)

FIRST = (["a = b = value[1]"], ["a, b = value[0], None"], [])

values = st.tuples(
    st.integers(0, 2), st.sampled_from([0, 1, 5, "a", None, (1, 2)]), st.lists(st.integers(0, 3), max_size=2)
)
records = st.lists(values, min_size=1, max_size=12)


def expected(function: Any, given: list[Any], stamps: list[int] | None) -> Outcome:
    model = Model()
    function.open(model)
    results: list[Any] = []
    side: list[Any] = []
    failed: tuple[str | None, list[tuple[str, int]]] = (None, [])
    for value, stamp in zip(given, stamps or repeat(None), strict=False):
        model.key, model.stamp = value[0], MIN_TIMESTAMP if stamp is None else stamp
        try:
            produced = function.process_element(value, model)
            if produced is not None and not isinstance(produced, Iterable):
                raise TypeMismatchError("a number is no results")
            for result in () if produced is None else produced:
                if type(result) is tuple and len(result) == 2 and result[0] is SIDE:
                    side.append(deepcopy(result[1]))
                else:
                    results.append((deepcopy(result), stamp))
        except Exception as error:
            failed = f"{name_of(error)} at {shorten(value)}", frames_of(error)
            results, side = [], []  # the batch is lost
            break
    return Outcome(repr(results), repr(side), text_of(model.values), *failed)


def done(function: Any, given: list[Any], stamps: list[int] | None) -> Outcome:
    harness = OperatorHarness(KeyedProcessSpec(function, lambda value: value[0]))
    return outcome_of(harness, lambda: harness.push_batch(given, stamps))


@common
@given(bodies(ATOMS, SIMPLE, FIRST), records, st.booleans(), st.sampled_from([True, True, True, False]))
def test_a_function_gives_what_it_gives_record_by_record(body, given_records, stamped, known):
    stamps = [10 * place for place in range(len(given_records))] if stamped else None
    made, called = (function_of(HEAD, body, KeyedProcessFunction, known=each) for each in (known, False))
    wanted = expected(called, deepcopy(given_records), stamps)
    assert done(made, deepcopy(given_records), stamps) == wanted
