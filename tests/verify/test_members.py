"""Functions that keep what they know in themselves: verify names the variable, and no other."""

from __future__ import annotations

import pytest
from verify_jobs import captured

from millstream.common.functions import CheckpointedFunction, MapFunction, ReduceFunction
from millstream.common.state import ListStateDescriptor
from millstream.datastream.functions import KeyedProcessFunction
from millstream.verify.members import Variable, find_culprits
from millstream.verify.verifier import Verifier

SEEDS = range(12)
NUMBERS = list(range(60))


class Counting(KeyedProcessFunction):
    """Two attributes change beside the one that matters."""

    def __init__(self):
        self.counts = {}
        self.cache = {}
        self.calls = 0

    def process_element(self, value, ctx):
        key = value % 3
        self.calls += 1
        self.cache[value] = value
        self.counts[key] = self.counts.get(key, 0) + 1
        yield key, self.counts[key]


class Numbering(MapFunction):
    """Only both together give the number."""

    def __init__(self):
        self.high = self.low = 0

    def map(self, value):
        self.low += 1
        if self.low == 5:
            self.high, self.low = self.high + 1, 0
        return value, self.high, self.low


class Restored(MapFunction, CheckpointedFunction):
    """Keeps its count in state; what is in between is no one's business."""

    def __init__(self):
        self.count = 0
        self.last = None

    def map(self, value):
        self.count += 1
        self.last = value
        return value, self.count

    def snapshot_state(self, context):
        self.state.update([self.count])

    def initialize_state(self, context):
        self.state = context.get_operator_state_store().get_list_state(ListStateDescriptor("count"))
        self.count = sum(self.state.get())


class Latest(ReduceFunction):
    def __init__(self):
        self.calls = 0

    def reduce(self, a, b):
        self.calls += 1
        return a[0], self.calls


def numbers(environment):
    return environment.from_collection(NUMBERS)


def member(environment):
    numbers(environment).key_by(lambda n: n % 3).process(Counting()).print()


def members(environment):
    numbers(environment).map(Numbering()).print()


def closure(environment):
    count = [0]

    def number(value):
        count[0] += 1
        return value, count[0]

    numbers(environment).map(number).print()


def reduced(environment):
    pairs = numbers(environment).map(lambda n: (n % 3, 0))
    pairs.key_by(lambda pair: pair[0]).reduce(Latest()).print()


def restored(environment):
    numbers(environment).map(Restored()).print()


def blamed(build):
    results = [result for result in Verifier(captured(build)).run(SEEDS) if result.failed]
    return len(results), {tuple(map(str, result.culprits)) for result in results if result.culprits}


@pytest.mark.parametrize(
    ("build", "names"),
    [
        (member, ['attribute "Counting.counts"']),
        (members, ['attribute "Numbering.high"', 'attribute "Numbering.low"']),
        (closure, ['variable "count" of "closure.<locals>.number"']),
        (reduced, ['attribute "Latest.calls"']),
    ],
)
def test_what_is_lost_is_named_and_nothing_else(build, names):
    failed, told = blamed(build)
    assert failed
    assert all(len(each) <= len(names) for each in told)
    assert {name for each in told for name in (text.partition(" in operator")[0] for text in each)} == set(
        names
    )


def test_nobody_is_blamed_where_state_is_restored():
    assert blamed(restored) == (0, set())


def test_suspects_that_do_not_explain_the_failure_are_not_blamed():
    suspects = {Variable("op", "F", name, "attribute") for name in "abc"}
    assert find_culprits(suspects, lambda chosen: False) == ()
    assert find_culprits(suspects, lambda chosen: {each.name for each in chosen} >= {"b"}) == (
        Variable("op", "F", "b", "attribute"),
    )
