"""Maps, filters and reduces whose functions are written into their loops give what the functions give.

Functions are random expressions. The oracle calls them for one record after the other, and copies what they give.
"""

from __future__ import annotations

import linecache
import os
import traceback
import warnings
from copy import deepcopy
from itertools import count
from typing import Any

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from millstream.base.errors import shorten
from millstream.operators.reduce import ReduceSpec
from millstream.operators.simple import FilterSpec, MapSpec
from millstream.operators.user_code import attached_element
from millstream.testing import OperatorHarness

common = settings(
    deadline=None,
    derandomize="CI" in os.environ,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.function_scoped_fixture],
)

ATOMS = (
    "{a}",
    "{a}[0]",
    "{a}[1]",
    "{a}[2]",
    "{b}",
    "{b}[1]",
    "{b}[2]",
    "{b}[-1]",
    "None",
    "2",
    "'x'",
    "LIMIT",
    "MANY",
)
WRAPPED = (
    "({0}, {1})",
    "({0}, {1}, 1)",
    "[{0}, {1}]",
    "({0} + {1})",
    "({0} or {1})",
    "({0} if {1} else 0)",
    "({0} == {1})",
    "len({0})",
    "max({0}, {1})",
)
expressions = st.recursive(
    st.sampled_from(ATOMS),
    lambda inner: st.builds(
        lambda form, *parts: form.replace("{0}", parts[0]).replace("{1}", parts[1]),
        st.sampled_from(WRAPPED),
        inner,
        inner,
    ),
    max_leaves=5,
)
triples = st.builds(
    lambda *parts: f"({', '.join(parts)})",
    st.just("{a}[0]"),
    st.sampled_from(["{b}[1]", "{a}[1] + {b}[1]", "{a}[1]"]),
    st.sampled_from(["{a}[2]", "{a}[2] + {b}[2]", "{b}[2]"]),
)
values = st.tuples(
    st.integers(0, 2),
    st.sampled_from([0, 1, 5, "a", None]),
    st.one_of(st.integers(0, 3), st.lists(st.integers(0, 3), max_size=2)),
)
records = st.lists(values, min_size=1, max_size=10)

_numbers = count()


def function_of(expression: str, arguments: str, *, known: bool, named: bool) -> Any:
    """Make a function; its text can be found if it is `known`."""
    body = expression.replace("{a}", "a").replace("{b}", arguments.split(", ")[-1])
    text = (
        f"def made({arguments}):\n    return {body}\n"
        if named
        else f"made = (\n    lambda {arguments}: {body}\n)\n"
    )
    filename = f"<made {next(_numbers)}>"
    if known:
        linecache.cache[filename] = (len(text), None, text.splitlines(keepends=True), filename)
    names: dict[str, Any] = {"LIMIT": 3, "MANY": [1], "__name__": "made"}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of what is said strangely
        exec(compile(text, filename, "exec"), names)
    return names["made"]


def failure(error: Exception, element: str | None) -> str:
    lines = [
        each.lineno for each in traceback.extract_tb(error.__traceback__) if each.filename.startswith("<made")
    ]
    return f"{type(error).__name__}: {error} at {element} in {lines}"


def done(spec: Any, given_records: list[Any]) -> str:
    harness = OperatorHarness(spec)
    try:
        harness.push_batch(given_records)
    except Exception as error:
        return failure(error, attached_element(error))
    return repr(harness.take())


def expected(step: Any, given_records: list[Any]) -> str:
    results: list[Any] = []
    for value in given_records:
        try:
            results += deepcopy(step(value))
        except Exception as error:
            return failure(error, shorten(value))
    return repr(results)


def reducing(function: Any) -> Any:
    table: dict[Any, Any] = {}

    def step(value: Any) -> list[Any]:
        table[value[0]] = function(table[value[0]], value) if value[0] in table else value
        return [table[value[0]]]

    return step


@common
@given(st.one_of(expressions, triples), records, st.booleans(), st.booleans())
def test_a_reduce_gives_what_the_function_gives_record_by_record(expression, given_records, known, named):
    wanted = expected(
        reducing(function_of(expression, "a, b", known=False, named=named)), deepcopy(given_records)
    )
    spec = ReduceSpec(function_of(expression, "a, b", known=known, named=named), lambda value: value[0])
    assert done(spec, deepcopy(given_records)) == wanted


@common
@given(expressions, records, st.booleans(), st.booleans())
def test_a_map_gives_what_the_function_gives_record_by_record(expression, given_records, known, named):
    function = function_of(expression, "a", known=False, named=named)
    wanted = expected(lambda value: [function(value)], deepcopy(given_records))
    spec = MapSpec(function_of(expression, "a", known=known, named=named))
    assert done(spec, deepcopy(given_records)) == wanted


@common
@given(expressions, records, st.booleans(), st.booleans())
def test_a_filter_keeps_what_the_function_wants(expression, given_records, known, named):
    function = function_of(expression, "a", known=False, named=named)
    wanted = expected(lambda value: [value] if function(value) else [], deepcopy(given_records))
    spec = FilterSpec(function_of(expression, "a", known=known, named=named))
    assert done(spec, deepcopy(given_records)) == wanted
