"""What all loops into which a function of the user's was written have in common: what they refer to, and for how long
they stand for the function.
"""

from __future__ import annotations

import ast
import inspect
from collections.abc import Callable, Iterable
from types import FunctionType, MethodType
from typing import Any

from millstream.operators.inlined.bodies import fits_into_loop
from millstream.operators.inlined.body_writer import BodyWriter, parameters, used_state
from millstream.operators.inlined.definitions import compiled, definition_of
from millstream.operators.inlined.view_reads import Views, views_of
from millstream.operators.values import ATOMIC, protect_produced
from millstream.state.heap import entries_of_value_state
from millstream.state.keyed import KeyedStateBackend

__all__ = ["WrittenLoop", "method_definition"]


class WrittenLoop:
    """A function and what its loops refer to; made when the function has been opened.

    Args:
        process: The function, a bound method.
        definition: Its definition, which fits into a loop.
        backend: State of the operator.
        views: Broadcast states that the function may read, by name.

    Attributes:
        needs_key: Whether the loops have to know each record's key.
    """

    def __init__(
        self, process: MethodType, definition: ast.FunctionDef, backend: KeyedStateBackend, views: Views
    ) -> None:
        function = process.__func__
        assert isinstance(function, FunctionType)
        self._function = function
        self._code = function.__code__
        self._object = process.__self__
        self._definition = definition
        self._backend = backend
        self._states = list(_states_of(definition, self._object, backend))
        self._numbers = {name: number for number, (name, _, _) in enumerate(self._states)}
        self._views = dict(views_of(definition, function, self._object, views))
        self._view_numbers = {text: number for number, text in enumerate(self._views)}
        self._loops: dict[tuple[Any, bool], Callable[..., None]] = {}
        writer = self._writer(stay=False)
        self._looks_around, self.needs_key = writer.looks_around, writer.needs_key

    def stands_for(self, process: Callable[..., Any]) -> bool:
        """Return whether a function is still the one that this was made of."""
        function = getattr(process, "__func__", None)
        return (
            function is self._function
            and function.__code__ is self._code
            and getattr(process, "__self__", None) is self._object
        )

    def _loop(self, write: Callable[[BodyWriter], ast.FunctionDef]) -> Callable[..., None]:
        """Return a loop, compiled in the function's file.

        The function's own code cannot put another state into an attribute, or another descriptor into a variable, if
        it calls nothing, and looks at nothing else: then it is enough to look before the loop.

        Args:
            write: Writes it around the body.
        """
        held: dict[str, Any] = getattr(self._object, "__dict__", {})
        stay = not self._looks_around and (
            all(held.get(name) is each for name, each, _ in self._states)
            and all(view.stays for view in self._views.values())
        )
        loop = self._loops.get((write, stay))
        if loop is None:
            written = write(self._writer(stay=stay))
            loop = FunctionType(compiled(written, self._code), self._function.__globals__)
            loop.__kwdefaults__ = {f"_ms_{name}": value for name, value in self._constants().items()}
            self._loops[write, stay] = loop
        return loop

    def _writer(self, *, stay: bool) -> BodyWriter:
        numbers, views = self._numbers, self._view_numbers
        return BodyWriter(self._function, self._definition, numbers, views, stay=stay)

    def _constants(self) -> dict[str, Any]:
        """Return what loops refer to."""
        values: dict[str, Any] = {
            "atomic": ATOMIC,
            "backend": self._backend,
            "protect": protect_produced,
            "select": _select,
            "tuple": tuple,
            "type": type,
        }
        for number, (_, state, entries) in enumerate(self._states):
            for what, each in (
                ("state", state),
                ("entries", entries),
                ("get", entries.get),
                ("pop", entries.pop),
            ):
                values[f"{what}{number}"] = each
        for text, number in self._view_numbers.items():
            values.update({f"{what}{number}": each for what, each in self._views[text].constants.items()})
        return values

    def _stopped(self, error: BaseException) -> BaseException:
        """Return what a generator would have raised."""
        if isinstance(error, StopIteration) and self._code.co_flags & inspect.CO_GENERATOR:
            return RuntimeError("generator raised StopIteration")
        return error


def method_definition(method: Any, count: int) -> ast.FunctionDef | None:
    """Return the definition of a method if it fits into a loop; None if it does not, or cannot be told.

    Args:
        method: Perhaps a bound method of what differs in each round, and a context.
        count: How many parameters it has to have, with `self`.
    """
    if not isinstance(method, MethodType) or not isinstance(method.__func__, FunctionType):
        return None
    definition = definition_of(method.__func__)
    if not isinstance(definition, ast.FunctionDef) or definition.decorator_list:
        return None
    names = parameters(definition)
    if len(names) != count or not fits_into_loop(definition, kept=(names[0], names[-1])):
        return None
    return definition


def _states_of(
    definition: ast.FunctionDef, owner: Any, backend: KeyedStateBackend
) -> Iterable[tuple[str, Any, dict[Any, Any]]]:
    """Yield the value states in memory that an object has as attributes, and its function uses: name, state, dict."""
    me = parameters(definition)[0]
    held: dict[str, Any] = getattr(owner, "__dict__", {})
    used = {name for node in ast.walk(definition) if (name := used_state(node, me)) is not None}
    for name in sorted(used):
        state = held.get(name)
        entries = entries_of_value_state(state, backend)
        if entries is not None and not hasattr(type(owner), name):
            yield name, state, entries


def _select(backend: KeyedStateBackend, key: Any, state: Any) -> Any:
    """Return what a function uses as a state, which may look at the current key."""
    backend.current_key = key
    return state
