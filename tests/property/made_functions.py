"""Functions made of random statements, for tests of functions that are written into loops; and what state is to them.

Some of the statements cannot be written into a loop.
"""

from __future__ import annotations

import linecache
import os
import traceback
import warnings
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from itertools import count
from operator import itemgetter
from typing import Any, NamedTuple

from hypothesis import HealthCheck, settings
from hypothesis import strategies as st

from millstream.base.errors import TypeMismatchError
from millstream.base.time import MIN_TIMESTAMP
from millstream.common import Types
from millstream.datastream import OutputTag
from millstream.datastream.state import ListStateDescriptor, MapStateDescriptor, ValueStateDescriptor
from millstream.operators.user_code import attached_element
from millstream.testing import OperatorHarness

common = settings(
    deadline=None,
    derandomize="CI" in os.environ,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.function_scoped_fixture],
)
TYPE = Types.PICKLED_BYTE_ARRAY()
SIDE = OutputTag("side")
RULES, OTHER_RULES, UNASKED_RULES = (
    MapStateDescriptor(name, TYPE, TYPE) for name in ("rules", "other", "none")
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


def indented(lines: list[str]) -> list[str]:
    return ["    " + line for line in lines]


def branch(test: str, yes: list[list[str]], no: list[list[str]]) -> list[str]:
    lines = [f"if {test}:", *indented(sum(yes, []))]
    return [*lines, "else:", *indented(sum(no, []))] if no else lines


def bodies(
    atoms: Sequence[str], simple: Sequence[str], first: Sequence[list[str]]
) -> st.SearchStrategy[list[str]]:
    """Return bodies of functions.

    Args:
        atoms: The smallest expressions.
        simple: Statements, with places for expressions.
        first: Of which one begins the body.
    """
    expressions = st.recursive(
        st.sampled_from(atoms),
        lambda inner: st.builds(
            lambda form, *parts: form.format(*parts), st.sampled_from(WRAPPED), inner, inner
        ),
        max_leaves=3,
    )
    statements = st.builds(
        lambda form, *parts: [form.format(*parts)], st.sampled_from(simple), expressions, expressions
    )
    blocks = st.recursive(
        statements,
        lambda inner: st.builds(
            branch, expressions, st.lists(inner, min_size=1, max_size=3), st.lists(inner, max_size=2)
        ),
        max_leaves=5,
    )
    return st.builds(
        lambda first, parts: indented(indented(first + sum(parts, []))),
        st.sampled_from(first),
        st.lists(blocks, min_size=1, max_size=5),
    )


_numbers = count()


def function_of(head: str, body: list[str], base: type, *, known: bool) -> Any:
    """Make a function; its text can be found if it is `known`.

    Args:
        head: A class `Made` of `Base`, up to the body.
        body: Lines.
        base: What `Base` is.
        known: Whether its text can be found.
    """
    text = head + "\n".join(body) + "\n"
    filename = f"<made {next(_numbers)}>"
    if known:
        linecache.cache[filename] = (len(text), None, text.splitlines(keepends=True), filename)
    names = {
        "Base": base,
        "ValueStateDescriptor": ValueStateDescriptor,
        "ListStateDescriptor": ListStateDescriptor,
        "TYPE": TYPE,
        "SIDE": SIDE,
        "RULES": RULES,
        "OTHER_RULES": OTHER_RULES,
        "UNASKED_RULES": UNASKED_RULES,
        "LIMIT": 3,
        "__name__": "made",
    }
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of what is said strangely
        exec(compile(text, filename, "exec"), names)
    return names["Made"]()


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


def outcome_of(harness: OperatorHarness, push: Callable[[], None]) -> Outcome:
    """Return what came of a function in an operator, to which `push` gives records."""
    failed: tuple[str | None, list[tuple[str, int]]] = (None, [])
    try:
        push()
    except Exception as error:
        failed = f"{name_of(error)} at {attached_element(error)}", frames_of(error)
    sides = harness.take_side(SIDE)
    results = [(each.value, each.timestamp) for each in harness.take_records()]
    return Outcome(repr(results), repr(sides), state_in(harness.operators[0]), *failed)


def frames_of(error: BaseException) -> list[tuple[str, int]]:
    """Return in which lines of the function an error came up; none for results that are refused when it is done."""
    if isinstance(error, TypeMismatchError):
        return []
    while error.__cause__ is not None:
        error = error.__cause__
    stack = traceback.extract_tb(error.__traceback__)
    return [(each.name, each.lineno) for each in stack if each.filename.startswith("<made")]


def state_in(operator: Any) -> str:
    """Return what an operator has in keyed state, as `text_of`."""
    state: dict[str, dict[Any, Any]] = {}
    for groups in operator.context.keyed_state.snapshot().groups.values():
        for name, entries in groups.items():
            state.setdefault(name, {}).update((key, entry) for _, key, entry in entries)
    return text_of(state)


def name_of(error: Exception) -> str:
    return (
        type(error).__name__ if isinstance(error, TypeMismatchError) else f"{type(error).__name__}: {error}"
    )


def text_of(state: dict[str, dict[Any, Any]]) -> str:
    return repr(
        sorted((name, sorted(held.items(), key=itemgetter(0))) for name, held in state.items() if held)
    )
