"""Join functions that are written into the loop over the pairs do what they say, whatever they say.

As in `test_inlined_process`: the oracle makes all pairs in two loops, and calls the function for one after the other.
"""

from __future__ import annotations

from collections.abc import Iterator
from copy import deepcopy
from operator import itemgetter
from typing import Any

from hypothesis import given
from hypothesis import strategies as st
from made_functions import (
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

from millstream.base.errors import shorten
from millstream.datastream import OutputTag
from millstream.datastream.functions import ProcessJoinFunction
from millstream.operators.interval_join import IntervalJoinSpec
from millstream.testing import OperatorHarness

HEAD = """
class Made(Base):
    def open(self, context):
        self.one = context.get_state(ValueStateDescriptor("one", TYPE))
        self.other = context.get_state(ValueStateDescriptor("other", TYPE))
        self.kept = [0]

    def look(self):
        return self.one.value()

    def process_element(self, left, right, ctx):
"""
ATOMS = (
    "left",
    "left[0]",
    "left[3]",
    "right",
    "right[2]",
    "right[3]",
    "a",
    "b",
    "None",
    "2",
    "LIMIT",
    "self.one.value()",
    "self.other.value()",
    "self.look()",
    "self.kept",
    "ctx.get_timestamp()",
    "ctx.get_left_timestamp()",
    "ctx.get_right_timestamp()",
)
SIMPLE = (
    "yield SIDE, {0}",
    "a = {0}",
    "a, b = {0}, {1}",
    "left = {0}",
    "right = {0}",
    "left, right = right, left",
    "a += {0}",
    "yield {0}",
    "yield {0}",
    "yield {0}, {1}",
    "yield left[2], right[2], ctx.get_left_timestamp(), ctx.get_right_timestamp()",
    "yield",
    "return",
    "return {0}",
    "pass",
    "self.one.update({0})",
    "self.one.update((self.one.value() or 0) + {0})",
    "self.one.clear()",
    "self.kept.append({0})",
    "left[3].append({0})",
    "right[3].append(2)",
    "assert {0}",
    "raise StopIteration",
    "for a in (1, 2): yield a",
)
FIRST = (
    ["yield left[2], right[2], ctx.get_left_timestamp(), ctx.get_right_timestamp()"],
    ["a = b = left[2]", "yield left[1] - right[1]"],
    ["a, b = right[2], None", "yield left[1]"],
    [],
)
LOWER_MS, UPPER_MS = -3, 5


def batches_of(last: st.SearchStrategy[Any]) -> st.SearchStrategy[list[tuple[int, list[Any]]]]:
    """Return batches of either side; `last` is in each record, and tells whether records can be changed."""
    records = st.tuples(st.sampled_from("xxy"), st.integers(0, 8), st.sampled_from([0, 1, "a", None]), last)
    batch = st.lists(records, min_size=2, max_size=6)
    more = st.lists(st.tuples(st.sampled_from([0, 1]), batch), max_size=3)
    return st.builds(lambda first, second, rest: [(0, first), (1, second), *rest], batch, batch, more)


batches = st.one_of(
    batches_of(st.just((1, 2))),
    batches_of(st.just((1, 2))),
    batches_of(st.lists(st.integers(0, 3), max_size=1)),
)


class PairModel(Model):
    """State, and the times of a pair."""

    stamps = (0, 0)

    def get_left_timestamp(self) -> int:
        return self.stamps[0]

    def get_right_timestamp(self) -> int:
        return self.stamps[1]

    def get_timestamp(self) -> int:
        return max(self.stamps)


def pairs_of(
    there: tuple[list[Any], list[Any]], side: int, batch: list[Any]
) -> Iterator[tuple[Any, Any, Any]]:
    """Yield the pairs of a batch with what is there of the other side: record, left, right."""
    for record in batch:
        for match in sorted(there[1 - side], key=itemgetter(1)):
            left, right = (record, match) if side == 0 else (match, record)
            if left[0] == right[0] and LOWER_MS <= right[1] - left[1] <= UPPER_MS:
                yield record, left, right


def expected(function: Any, given: list[tuple[int, list[Any]]]) -> Outcome:
    model = PairModel()
    function.open(model)
    there: tuple[list[Any], list[Any]] = ([], [])
    results: list[Any] = []
    sides: list[Any] = []
    failed: tuple[str | None, list[tuple[str, int]]] = (None, [])
    for side, batch in given:
        there[side].extend(batch)
        made: list[Any] = []
        for record, left, right in pairs_of(there, side, batch):
            model.key, model.stamps = left[0], (left[1], right[1])
            stamp = max(model.stamps)
            try:
                produced = function.process_element(deepcopy(left), deepcopy(right), model)
                made.extend((deepcopy(each), stamp) for each in (() if produced is None else produced))
            except Exception as error:
                failed = f"{name_of(error)} at {shorten(record)}", frames_of(error)
                break
        if failed[0] is not None:
            break  # the batch is lost
        for result, stamp in made:
            tagged = type(result) is tuple and len(result) == 2 and type(result[0]) is OutputTag
            (sides.append(result[1]) if tagged else results.append((result, stamp)))
    return Outcome(repr(results), repr(sides), text_of(model.values), *failed)


def done(function: Any, given: list[tuple[int, list[Any]]]) -> Outcome:
    spec = IntervalJoinSpec(function, itemgetter(0), itemgetter(0), LOWER_MS, UPPER_MS)
    harness = OperatorHarness(spec, inputs=2)

    def push() -> None:
        for side, batch in given:
            harness.push_batch(batch, [record[1] for record in batch], input=side)

    return outcome_of(harness, push)


@common
@given(bodies(ATOMS, SIMPLE, FIRST), batches, st.sampled_from([True, True, True, False]))
def test_a_join_function_gives_what_it_gives_pair_by_pair(body, given_batches, known):
    made, called = (function_of(HEAD, body, ProcessJoinFunction, known=each) for each in (known, False))
    assert done(made, deepcopy(given_batches)) == expected(called, deepcopy(given_batches))
