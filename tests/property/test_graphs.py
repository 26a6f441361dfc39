"""Random graphs give what plain lists give: on any executor, parallelism, cut of epochs, order of arrival and form of
batches.

The programs and the oracle are in `graph_programs.py`. What fails is printed as a program to paste.
"""

from __future__ import annotations

import os
import time
from collections import Counter, defaultdict
from random import Random

import pytest
from graph_programs import BOUND_MS, Program, Step, event_time_programs, ordered_programs, outcome
from hypothesis import HealthCheck, assume, given, settings

from batch_forms import in_each_form

MAX_RESULTS = 1_500
SHRINK_S = 40
common = settings(
    deadline=None,
    derandomize="CI" in os.environ,
    suppress_health_check=[HealthCheck.filter_too_much, HealthCheck.too_slow],
)


class Shrinking:
    """Ends the search for a smaller program in time to tell of the one that was found.

    Some time after the first failure only programs that have failed already are run.
    """

    def __init__(self) -> None:
        self.failed: set[str] = set()
        self.until = float("inf")

    def skips(self, text: str) -> bool:
        return time.monotonic() > self.until and text not in self.failed

    def failure(self, text: str) -> None:
        self.until = min(self.until, time.monotonic() + SHRINK_S)
        self.failed.add(text)


SHRINKING = defaultdict(Shrinking)


def check(program: Program, expected: Counter, arrival: int, *run) -> None:
    """Run the program's text as a script would be."""
    shrinking = SHRINKING[os.environ["PYTEST_CURRENT_TEST"]]  # one for each test
    text = program.text(arrival, *run)
    if shrinking.skips(text):
        return
    try:
        script: dict = {"__name__": "__main__"}
        exec(compile(text, "<program>", "exec"), script)
        seen = outcome(program, script["results"])
        assert {"too much": seen - expected, "missing": expected - seen} == {"too much": {}, "missing": {}}
    except Exception as error:
        shrinking.failure(text)
        error.add_note(f"The program:\n\n{text}print(sorted(results))\n")
        raise


@settings(common, max_examples=60)
@given(event_time_programs())
@in_each_form
def test_event_time_graph_gives_the_same_for_any_parallelism_epochs_and_arrival(program):
    expected = program.expected()
    assume(sum(expected.values()) <= MAX_RESULTS)
    check(program, expected, 0, 1, 1000)
    check(program, expected, 1, 1, 7)
    check(program, expected, 0, 2, 1)
    check(program, expected, 1, 3, 7)
    check(program, expected, 1, 2, 16, "local", 3)  # most of what is read is held for later epochs


@settings(common, max_examples=40)
@given(ordered_programs())
@in_each_form
def test_graph_that_depends_on_the_order_of_a_key_gives_the_same_for_any_parallelism_and_epochs(program):
    expected = program.expected()
    assume(sum(expected.values()) <= MAX_RESULTS)
    check(program, expected, 0, 1, 1000)
    check(program, expected, 0, 2, 1)
    check(program, expected, 0, 3, 7)
    check(program, expected, 0, 2, 16, "local", 3)


def some_records(seed: int, count: int = 40) -> list:
    random = Random(seed)
    records = [(random.choice("abc"), random.randrange(400), random.randrange(10)) for _ in range(count)]
    return sorted(records, key=lambda record: record[1] + random.randrange(BOUND_MS))


GRAPHS = {
    "fork of windows and timers": [
        Step("flat_map", (0,)),
        Step("tumbling process", (2,), (100,)),
        Step("totals", (2,), (30, True)),
        Step("union", (3, 4)),
        Step("rebalance", (5,)),
        Step("sliding aggregate", (6,), (90, 40)),
        Step("connect map", (7, 1)),
    ],
    "interval join of redistributed streams": [
        Step("shuffle", (0,)),
        Step("rescale", (1,)),
        Step("join", (2, 3), (-40, 25)),
        Step("rekey", (4,), (4,)),
        Step("session reduce", (5,), (20,)),
    ],
    "side outputs under one keyed co-process function": [
        Step("union", (0, 1)),
        Step("even", (2,)),
        Step("odd", (2,)),
        Step("difference", (3, 4), (17,)),
        Step("totals", (5,), (0, False)),
    ],
    "windows of windows": [
        Step("rekey", (0,), (5,)),
        Step("tumbling reduce", (2,), (30,)),
        Step("session process", (3,), (60,)),
        Step("filter", (4,), (3,)),
        Step("sliding reduce", (5,), (60, 30)),
        Step("union", (6, 1)),
    ],
    "rows and columns": [
        Step("column filter", (0,), (3,)),
        Step("union", (1, 2)),
        Step("sliding columns", (3,), (90, 30)),
        Step("difference", (2, 4), (17,)),
        Step("tumbling columns", (5,), (100,)),
        Step("column add", (6,), (2,)),
    ],
    "order of each key": [
        Step("chain", (0,)),
        Step("columns", (1,)),
        Step("flat_map", (2,)),
        Step("number", (3,)),
        Step("count window", (4,), (3, 2)),
        Step("max_by", (5,)),
    ],
}


@pytest.mark.spark
@pytest.mark.parametrize("name", GRAPHS)
def test_graph_gives_the_same_on_spark_as_on_the_local_executor(name):
    ordered = name == "order of each key"
    sources = [some_records(seed) for seed in ((1,) if ordered else (1, 2))]
    program = Program((sources, sources), GRAPHS[name], ordered=ordered)
    expected = program.expected()
    assert sum(expected.values()) > 10
    check(program, expected, 0, 2, 7)
    check(program, expected, 0, 2, 31, "local[2]")
