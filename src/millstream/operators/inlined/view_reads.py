"""Reads of broadcast state in loops: `ctx.get_broadcast_state(RULES).get(key)` is a look into a dict.

::

    least = ctx.get_broadcast_state(RULES).get(0)

    least = _ms_look0(0) if RULES is _ms_rules0 else ctx.get_broadcast_state(RULES).get(0)

The descriptor is a variable of the function's module, or an attribute of its object.
"""

from __future__ import annotations

import ast
from collections.abc import Callable, Iterator, Mapping
from functools import partial
from types import FunctionType
from typing import Any, NamedTuple

from millstream.common.state import MapStateDescriptor, ReadOnlyBroadcastState
from millstream.operators.inlined.templates import expression

__all__ = ["VIEW_CONSTANTS", "AskedView", "ReadView", "ViewReads", "Views", "views_of", "without_reads"]


class ReadView(NamedTuple):
    """A broadcast state as functions of other records see it.

    Attributes:
        state: What they get.
        entries: What is in it, the same dict for good.
    """

    state: ReadOnlyBroadcastState[Any, Any]
    entries: dict[Any, Any]


Views = Mapping[str, ReadView]

VIEW_CONSTANTS = ("rules", "view", "look", "has")
"""What a loop refers to for each state that it reads directly: these names with the state's number."""

_READS = {"get": "look", "contains": "has"}


class ViewReads(ast.NodeTransformer):
    """Writes the reads in another way.

    Args:
        context: Name of the function's context.
        numbers: The number of each descriptor in the loop, by its expression.
        stay: Whether the expressions are known to give those descriptors as long as the loop runs; else it looks each
            time.
    """

    def __init__(self, context: str, numbers: Mapping[str, int], *, stay: bool = False) -> None:
        self._context = context
        self._numbers = numbers
        self._stay = stay

    def visit_Call(self, node: ast.Call) -> ast.expr:
        """Return a call in another way if it reads a state that is known."""
        read = node.func
        if isinstance(read, ast.Attribute) and read.attr in _READS and _has_one_argument(node):
            number = self._number_of(read.value)
            if number is not None:
                assert isinstance(read.value, ast.Call)
                (key,) = (self.visit(each) for each in node.args)
                text = f"_ms_{_READS[read.attr]}{number}(_ms_KEY)"
                other = f"{self._context}.get_broadcast_state(_ms_DESCRIPTOR).{read.attr}(_ms_KEY)"
                return self._written(text, other, number, read.value, KEY=key)
        number = self._number_of(node)
        if number is None:
            self.generic_visit(node)
            return node
        other = f"{self._context}.get_broadcast_state(_ms_DESCRIPTOR)"
        return self._written(f"_ms_view{number}", other, number, node)

    def _written(self, text: str, other: str, number: int, call: ast.Call, **parts: ast.expr) -> ast.expr:
        if not self._stay:
            text = f"{text} if _ms_DESCRIPTOR is _ms_rules{number} else {other}"
        return expression(text, call, DESCRIPTOR=call.args[0], **parts)

    def _number_of(self, node: ast.expr) -> int | None:
        """Return the number of the state that a call asks for; None if it asks for none of those that are known."""
        descriptor = _descriptor_in(node, self._context)
        return None if descriptor is None else self._numbers.get(ast.unparse(descriptor))


def without_reads(tree: ast.AST, context: str, numbers: Mapping[str, int]) -> Any:
    """Return a tree, which is changed, with keys that are looked up in the place of the reads."""
    return _Leaving(context, numbers).visit(tree)


class _Leaving(ViewReads):
    def _written(self, text: str, other: str, number: int, call: ast.Call, **parts: ast.expr) -> ast.expr:
        return parts.get("KEY", ast.copy_location(ast.Constant(None), call))


class AskedView(NamedTuple):
    """A broadcast state that a function asks for.

    Attributes:
        constants: What a loop refers to.
        look: Returns what the function's expression for the descriptor gives now.
    """

    constants: dict[str, Any]
    look: Callable[[], object]

    @property
    def stays(self) -> bool:
        """Whether the expression still gives the state's descriptor."""
        return self.look() is self.constants["rules"]


def views_of(
    definition: ast.FunctionDef, function: FunctionType, owner: Any, views: Views
) -> Iterator[tuple[str, AskedView]]:
    """Yield the descriptors by which a function asks for broadcast states, as text, and the states.

    Args:
        definition: Of the function.
        function: The function.
        owner: Its object.
        views: The states, by name.
    """
    arguments = [each.arg for each in definition.args.posonlyargs + definition.args.args]
    own = {
        node.id
        for node in ast.walk(definition)
        if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store)
    }.union(arguments)
    asked: dict[str, ast.expr] = {}
    for node in ast.walk(definition):
        descriptor = _descriptor_in(node, arguments[-1])
        if descriptor is not None:
            asked[ast.unparse(descriptor)] = descriptor
    for text, descriptor in sorted(asked.items(), key=lambda each: each[0]):
        look = partial(_value_of, descriptor, function, owner, arguments[0], own)
        found = look()
        if isinstance(found, MapStateDescriptor) and found.name in views:
            state, entries = views[found.name]
            looks = {"look": entries.get, "has": entries.__contains__}
            yield text, AskedView({"rules": found, "view": state, **looks}, look)


def _value_of(
    descriptor: ast.expr, function: FunctionType, owner: Any, owner_name: str, own: set[str]
) -> object:
    if isinstance(descriptor, ast.Name):
        return None if descriptor.id in own else function.__globals__.get(descriptor.id)
    if not isinstance(descriptor, ast.Attribute) or not isinstance(descriptor.value, ast.Name):
        return None
    if descriptor.value.id != owner_name or hasattr(type(owner), descriptor.attr):
        return None
    held: dict[str, Any] = getattr(owner, "__dict__", {})
    return held.get(descriptor.attr)


def _descriptor_in(node: ast.AST, context: str) -> ast.expr | None:
    """Return what a call asks the context for, if it asks for broadcast state."""
    if (
        not isinstance(node, ast.Call)
        or not _has_one_argument(node)
        or not isinstance(node.func, ast.Attribute)
    ):
        return None
    held = node.func.value
    asks = node.func.attr == "get_broadcast_state" and isinstance(held, ast.Name) and held.id == context
    return node.args[0] if asks else None


def _has_one_argument(call: ast.Call) -> bool:
    return len(call.args) == 1 and not call.keywords and not isinstance(call.args[0], ast.Starred)
