"""Writes what a function does with one record, or one pair, as statements of a loop."""

from __future__ import annotations

import ast
import inspect
from collections.abc import Callable, Iterable, Mapping
from copy import deepcopy
from textwrap import indent
from types import FunctionType

from millstream.operators.inlined.bodies import goes_its_own_way
from millstream.operators.inlined.definitions import Definition
from millstream.operators.inlined.templates import around, expression, statements
from millstream.operators.inlined.view_reads import VIEW_CONSTANTS, ViewReads, without_reads

__all__ = ["CONSTANTS", "STATE_CONSTANTS", "BodyWriter", "length_if_tuple", "parameters", "used_state"]

CONSTANTS = ("atomic", "backend", "protect", "select", "tuple", "type")
"""What every loop refers to, each name behind `_ms_`."""

STATE_CONSTANTS = ("state", "entries", "get", "pop")
"""What a loop refers to for each state that it uses directly: these names with the state's number."""

_LONGEST = 8
_METHODS = {"value": 0, "update": 1, "clear": 0}


def parameters(definition: Definition) -> list[str]:
    """Return the names of a function's parameters."""
    return [each.arg for each in definition.args.posonlyargs + definition.args.args]


def used_state(node: ast.AST, owner: str) -> str | None:
    """Return the attribute whose method a call calls, if it looks like one of a value state: `self.NAME.value()`.

    Args:
        node: Perhaps a call.
        owner: Name of the parameter `self`.
    """
    if not isinstance(node, ast.Call) or not isinstance(node.func, ast.Attribute) or node.keywords:
        return None
    if len(node.args) != _METHODS.get(node.func.attr) or any(
        isinstance(one, ast.Starred) for one in node.args
    ):
        return None
    held = node.func.value
    if isinstance(held, ast.Attribute) and isinstance(held.value, ast.Name) and held.value.id == owner:
        return held.attr
    return None


class BodyWriter:
    """Writes the body of one function.

    Args:
        function: A function of its object, what differs in each round of the loop, and a context.
        definition: Its definition, which fits into a loop.
        states: Attributes that hold value states in memory, with the numbers that they have in the loop.
        views: Descriptors of broadcast states that are read directly, with their numbers likewise.
        stay: Whether both are known to stay what they are as long as the loop runs; else it looks each time.

    Attributes:
        arguments: Names of what differs in each round.
        context: Name of the context.
        looks_around: Whether the function may ask for the current key, or look at the context.
    """

    def __init__(
        self,
        function: FunctionType,
        definition: ast.FunctionDef,
        states: Mapping[str, int],
        views: Mapping[str, int],
        *,
        stay: bool,
    ) -> None:
        self._definition = definition = deepcopy(definition)
        self._states, self._views = states, views
        self._stay = stay
        self._stamp: str | None = None
        self._self, *self.arguments, self.context = parameters(definition)
        self._is_generator = bool(function.__code__.co_flags & inspect.CO_GENERATOR)
        self._expressions = _Expressions(self._number_of, self._use_state)
        body = ast.Module(definition.body, [])
        set_here = {
            node.id
            for node in ast.walk(body)
            if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store)
        }
        self._variables = {
            name: f"_ms_given{number}" if name in set_here else name
            for number, name in enumerate(self.arguments)
        }
        plain = without_reads(deepcopy(body), self.context, views)
        plain = _Expressions(self._number_of, _leave_argument).visit(plain)
        self.looks_around = self._returns_results() or goes_its_own_way(
            plain, function, set_here.union(self.arguments)
        )
        ViewReads(self.context, views, stay=stay).visit(body)

    @property
    def needs_key(self) -> bool:
        """Whether the loop has to know each record's key."""
        return self.looks_around or bool(self._states)

    def variable(self, argument: str) -> str:
        """Return the loop's variable for an argument: one of its own, if the function sets the argument."""
        return self._variables[argument]

    def loop(self, text: str, given: Iterable[str], stamp: str | None) -> ast.FunctionDef:
        """Return a loop: a function of the object, its context and, by their names, all that it refers to.

        Args:
            text: The loop; where it has `pass`, the function's body comes.
            given: What it is given with each batch, each name behind `_ms_`.
            stamp: What gives the timestamp of a result; None if there are none.
        """
        at, self._stamp = self._definition, stamp
        body = [
            statement
            for name, variable in self._variables.items()
            if name != variable
            for statement in statements(f"{name} = {variable}", at)
        ]
        body += self._body(at.body)
        own = [f"{name}{number}" for number in self._states.values() for name in STATE_CONSTANTS]
        own += [f"{name}{number}" for number in self._views.values() for name in VIEW_CONSTANTS]
        names = ", ".join(f"_ms_{name}" for name in (*given, *CONSTANTS, *own))
        (made,) = statements(f"def loop({self._self}, {self.context}, *, {names}): pass", at)
        assert isinstance(made, ast.FunctionDef)
        made.body = around(text, at, body)
        return made

    def _returns_results(self) -> bool:
        return not self._is_generator and any(
            isinstance(node, ast.Return) and not _is_none(node.value) for node in ast.walk(self._definition)
        )

    def _body(self, body: list[ast.stmt]) -> list[ast.stmt]:
        return [made for statement in body for made in self._statement(statement)]

    def _statement(self, statement: ast.stmt) -> list[ast.stmt]:
        if isinstance(statement, ast.If):
            test: ast.expr = self._expressions.visit(statement.test)
            made = ast.If(test, self._body(statement.body), self._body(statement.orelse))
            return [ast.copy_location(made, statement)]
        if isinstance(statement, ast.Return):
            return [*self._return(statement), *statements("continue", statement)]
        if isinstance(statement, ast.Expr):
            if isinstance(statement.value, ast.Yield):
                return self._emit(statement.value)
            if self._number_of(statement.value) is not None and isinstance(statement.value, ast.Call):
                return self._write_state(statement.value)
        changed: ast.stmt = self._expressions.visit(statement)
        return [changed]

    def _return(self, statement: ast.Return) -> list[ast.stmt]:
        if _is_none(statement.value):
            return []
        assert statement.value is not None
        result: ast.expr = self._expressions.visit(statement.value)
        if self._is_generator:
            return [ast.copy_location(ast.Expr(result), statement)]
        record = self.variable(self.arguments[0])
        return statements(f"_ms_take(_ms_RESULT, {record})", statement, RESULT=result)

    def _emit(self, given: ast.Yield) -> list[ast.stmt]:
        """Write what is done with a result, as the loops of `operators.calls` do it."""
        result = given.value
        stamp = "" if self._stamp is None else f"; _ms_stamp_append({self._stamp})"
        if result is None:
            return statements(f"_ms_append(None){stamp}", given)
        protect = "_ms_append(_ms_protect(_ms_result, None, _ms_tagged))"
        length = length_if_tuple(result)
        if length is not None:
            atoms = " and ".join(f"_ms_type(_ms_result[{place}]) in _ms_atomic" for place in range(length))
            text = f"""
_ms_result = _ms_RESULT
if {atoms}:
    _ms_append(_ms_result)
else:
    {protect}
"""
        else:
            text = f"""
_ms_result = _ms_RESULT
if _ms_type(_ms_result) in _ms_atomic:
    _ms_append(_ms_result)
elif _ms_type(_ms_result) is _ms_tuple:
    for _ms_item in _ms_result:
        if _ms_type(_ms_item) not in _ms_atomic:
            _ms_item = None
            {protect}
            break
    else:
        _ms_append(_ms_result)
else:
    {protect}
"""
        return statements(text + stamp.lstrip("; "), given, RESULT=self._expressions.visit(result))

    def _number_of(self, node: ast.AST) -> int | None:
        """Return the number of the state whose method a call calls; None if that is not used directly."""
        attribute = used_state(node, self._self)
        return None if attribute is None else self._states.get(attribute)

    def _use_state(self, call: ast.Call, number: int) -> ast.expr:
        """Write a call of a state's method within an expression."""
        held = call.func
        assert isinstance(held, ast.Attribute)
        if held.attr != "value":
            held.value = expression("_ms_select(_ms_backend, _ms_key, _ms_HELD)", call, HELD=held.value)
            return call
        if self._stay:
            return expression(f"_ms_get{number}(_ms_key)", call)
        here, other = f"_ms_get{number}(_ms_key)", "_ms_select(_ms_backend, _ms_key, _ms_HELD).value()"
        return expression(f"{here} if _ms_HELD is _ms_state{number} else {other}", call, HELD=held.value)

    def _write_state(self, call: ast.Call) -> list[ast.stmt]:
        """Write a call of a state's method that is a statement."""
        number, held = self._number_of(call), call.func
        assert isinstance(held, ast.Attribute)
        if held.attr == "value":
            return [ast.copy_location(ast.Expr(self._expressions.visit(call)), call)]
        if held.attr == "clear":
            here, other = f"_ms_pop{number}(_ms_key, None)", "clear()"
            parts = {}
        else:
            here = f"""
_ms_new = _ms_NEW
if _ms_new is None:
    _ms_pop{number}(_ms_key, None)
else:
    _ms_entries{number}[_ms_key] = _ms_new
"""
            other = "update(_ms_NEW)"
            parts = {"NEW": self._expressions.visit(call.args[0])}
        if self._stay:
            return statements(here, call, **parts)
        text = f"""
if _ms_HELD is _ms_state{number}:
{indent(here, "    ")}
else:
    _ms_select(_ms_backend, _ms_key, _ms_HELD).{other}
"""
        return statements(text, call, HELD=held.value, **parts)


class _Expressions(ast.NodeTransformer):
    """Replaces calls of states' methods; statements and expressions without any stay as they are."""

    def __init__(
        self, number_of: Callable[[ast.AST], int | None], use: Callable[[ast.Call, int], ast.expr]
    ) -> None:
        self._number_of = number_of
        self._use = use

    def visit_Call(self, node: ast.Call) -> ast.expr:
        number = self._number_of(node)
        self.generic_visit(node)
        return node if number is None else self._use(node, number)


def _leave_argument(call: ast.Call, number: int) -> ast.expr:
    return call.args[0] if call.args else ast.copy_location(ast.Constant(None), call)


def _is_none(result: ast.expr | None) -> bool:
    return result is None or (isinstance(result, ast.Constant) and result.value is None)


def length_if_tuple(result: ast.expr) -> int | None:
    """Return how many items a result has that is written as a tuple; None if it is not, or has many."""
    if not isinstance(result, ast.Tuple) or not 0 < len(result.elts) <= _LONGEST:
        return None
    return None if any(isinstance(each, ast.Starred) for each in result.elts) else len(result.elts)
