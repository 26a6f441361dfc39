"""Process functions that are written into the loop over their records do what they say, whatever they say.

Functions are made of random statements, also of such as cannot be written into a loop. The oracle calls the function
for one record after the other, with state that is a dict, and copies what it yields at once.
"""

from __future__ import annotations

import linecache
import os
import traceback
import warnings
from collections.abc import Iterable
from copy import deepcopy
from dataclasses import dataclass, field
from itertools import count, repeat
from operator import itemgetter
from typing import Any, NamedTuple

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from millstream.base.errors import TypeMismatchError, shorten
from millstream.base.time import MIN_TIMESTAMP
from millstream.common import Types
from millstream.datastream import OutputTag
from millstream.datastream.functions import KeyedProcessFunction
from millstream.datastream.state import ListStateDescriptor, ValueStateDescriptor
from millstream.operators.process import KeyedProcessSpec
from millstream.operators.user_code import attached_element
from millstream.testing import OperatorHarness

common = settings(
    deadline=None,
    derandomize="CI" in os.environ,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.function_scoped_fixture],
)
TYPE = Types.PICKLED_BYTE_ARRAY()
SIDE = OutputTag("side")
STATES = ("one", "other")

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
WRAPPED = (
    "({0}, {1})",
    "[{0}, {1}]",
    "{{'it': {0}}}",
    "({0} or {1})",
    "({0} if {1} else 1)",
    "({0} == {1})",
    "({0} is None)",
    "({0} + {1})",
    "len({0})",
    "str({0})",
    "(SIDE, {0})",
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

expressions = st.recursive(
    st.sampled_from(ATOMS),
    lambda inner: st.builds(lambda form, *parts: form.format(*parts), st.sampled_from(WRAPPED), inner, inner),
    max_leaves=3,
)
statements = st.builds(
    lambda form, *parts: [form.format(*parts)], st.sampled_from(SIMPLE), expressions, expressions
)


def indented(lines: list[str]) -> list[str]:
    return ["    " + line for line in lines]


def branch(test: str, yes: list[list[str]], no: list[list[str]]) -> list[str]:
    lines = [f"if {test}:", *indented(sum(yes, []))]
    return [*lines, "else:", *indented(sum(no, []))] if no else lines


blocks = st.recursive(
    statements,
    lambda inner: st.builds(
        branch, expressions, st.lists(inner, min_size=1, max_size=3), st.lists(inner, max_size=2)
    ),
    max_leaves=5,
)
bodies = st.builds(
    lambda first, parts: indented(indented(first + sum(parts, []))),
    st.sampled_from([["a = b = value[1]"], ["a, b = value[0], None"], []]),
    st.lists(blocks, min_size=1, max_size=5),
)
values = st.tuples(
    st.integers(0, 2), st.sampled_from([0, 1, 5, "a", None, (1, 2)]), st.lists(st.integers(0, 3), max_size=2)
)
records = st.lists(values, min_size=1, max_size=12)

_numbers = count()


def function_of(body: list[str], *, known: bool) -> KeyedProcessFunction:
    """Make a function; its text can be found if it is `known`."""
    text = HEAD + "\n".join(body) + "\n"
    filename = f"<made {next(_numbers)}>"
    if known:
        linecache.cache[filename] = (len(text), None, text.splitlines(keepends=True), filename)
    names = {
        "Base": KeyedProcessFunction,
        "ValueStateDescriptor": ValueStateDescriptor,
        "ListStateDescriptor": ListStateDescriptor,
        "TYPE": TYPE,
        "SIDE": SIDE,
        "LIMIT": 3,
        "__name__": "made",
    }
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of what is said strangely
        exec(compile(text, filename, "exec"), names)
    return names["Made"]()


# The oracle


@dataclass
class Model:
    """State and context of a function, as plain Python has them."""

    key: Any = None
    stamp: int = MIN_TIMESTAMP
    values: dict[str, dict[Any, Any]] = field(default_factory=dict)

    def get_state(self, descriptor: Any) -> ModelValue:
        return ModelValue(self, self.values.setdefault(descriptor.name, {}))

    def get_list_state(self, descriptor: Any) -> ModelList:
        return ModelList(self, self.values.setdefault(descriptor.name, {}))

    def timestamp(self) -> int:
        return self.stamp

    def get_current_key(self) -> Any:
        return self.key


@dataclass
class ModelValue:
    model: Model
    held: dict[Any, Any]

    def value(self) -> Any:
        return self.held.get(self.model.key)

    def update(self, value: Any) -> None:
        self.held[self.model.key] = value
        if value is None:
            self.clear()

    def clear(self) -> None:
        self.held.pop(self.model.key, None)


@dataclass
class ModelList:
    model: Model
    held: dict[Any, list[Any]]

    def get(self) -> list[Any]:
        return list(self.held.get(self.model.key, []))

    def add(self, value: Any) -> None:
        self.held.setdefault(self.model.key, []).append(value)


class Outcome(NamedTuple):
    """What came of a function, as text: what it holds may hold itself."""

    results: str
    side: str
    state: str
    error: str | None
    frames: list[tuple[str, int]]


def frames_of(error: BaseException) -> list[tuple[str, int]]:
    """Return in which lines of the function an error came up; none for results that are refused when it is done."""
    if isinstance(error, TypeMismatchError):
        return []
    while error.__cause__ is not None:
        error = error.__cause__
    stack = traceback.extract_tb(error.__traceback__)
    return [(each.name, each.lineno) for each in stack if each.filename.startswith("<made")]


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
    state = {name: held for name, held in model.values.items() if held}
    return Outcome(repr(results), repr(side), text_of(state), *failed)


def done(function: Any, given: list[Any], stamps: list[int] | None) -> Outcome:
    harness = OperatorHarness(KeyedProcessSpec(function, lambda value: value[0]))
    failed: tuple[str | None, list[tuple[str, int]]] = (None, [])
    try:
        harness.push_batch(given, stamps)
    except Exception as error:
        failed = f"{name_of(error)} at {attached_element(error)}", frames_of(error)
    side = harness.take_side(SIDE)
    results = [(each.value, each.timestamp) for each in harness.take_records()]
    state: dict[str, dict[Any, Any]] = {}
    for groups in harness.operators[0].context.keyed_state.snapshot().groups.values():
        for name, entries in groups.items():
            state.setdefault(name, {}).update((key, entry) for _, key, entry in entries)
    return Outcome(repr(results), repr(side), text_of(state), *failed)


def name_of(error: Exception) -> str:
    return (
        type(error).__name__ if isinstance(error, TypeMismatchError) else f"{type(error).__name__}: {error}"
    )


def text_of(state: dict[str, dict[Any, Any]]) -> str:
    return repr(sorted((name, sorted(held.items(), key=itemgetter(0))) for name, held in state.items()))


@common
@given(bodies, records, st.booleans(), st.sampled_from([True, True, True, False]))
def test_a_function_gives_what_it_gives_record_by_record(body, given_records, stamped, known):
    stamps = [10 * place for place in range(len(given_records))] if stamped else None
    wanted = expected(function_of(body, known=False), deepcopy(given_records), stamps)
    assert done(function_of(body, known=known), deepcopy(given_records), stamps) == wanted
