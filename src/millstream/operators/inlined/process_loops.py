"""Process functions written into the loop over their records.

A generator is made and asked for each record, and each use of state is a call, where the function says no more than::

    largest = self.largest.value()
    if largest is None or value[2] > largest:
        self.largest.update(value[2])
        yield value[2]

Of a function that goes forward only (`bodies`) the loop is made that does the same. It is compiled in the function's
file, with the function's lines: tracebacks and breakpoints are where they were. What it yields is looked at as the
loops of `operators.calls` do it. Value state in memory is used as the dict that it is, as long as the function's
attribute is still that state::

    for value, _ms_key in _ms_records:
        largest = _ms_get0(_ms_key) if self.largest is _ms_state0 else _ms_select(_ms_key, self.largest).value()
        ...

Functions that may reach anything else find the current key and the timestamp as always.
"""

from __future__ import annotations

import ast
import inspect
from collections.abc import Callable, Iterable
from operator import length_hint
from types import FunctionType, MethodType
from typing import Any

from millstream.base.time import MIN_TIMESTAMP
from millstream.operators.calls import Emission, Process, Produced, taking
from millstream.operators.inlined.bodies import fits_into_loop
from millstream.operators.inlined.definitions import compiled, definition_of
from millstream.operators.inlined.process_writer import parameters, used_state, write_loop
from millstream.operators.timer_service import KeyedContext
from millstream.operators.user_code import attach_element
from millstream.operators.values import ATOMIC, protect_produced
from millstream.state.heap import entries_of_value_state
from millstream.state.keyed import NO_KEY, KeyedStateBackend

__all__ = ["ProcessLoop", "process_loop"]


class ProcessLoop:
    """Does what calls of a process function for each record do.

    Args:
        process: The function, a bound method of record and context.
        definition: Its definition, which fits into a loop.
        backend: State of the operator.
        context: What the function gets beside a record.
    """

    def __init__(
        self,
        process: MethodType,
        definition: ast.FunctionDef,
        backend: KeyedStateBackend,
        context: KeyedContext,
    ) -> None:
        function = process.__func__
        assert isinstance(function, FunctionType)
        self._function = function
        self._code = function.__code__
        self._object = process.__self__
        self._definition = definition
        self._backend = backend
        self._context = context
        self._loops: dict[bool, Callable[..., None]] = {}

    def stands_for(self, process: Process) -> bool:
        """Return whether a function is still the one that this was made of."""
        function = getattr(process, "__func__", None)
        return (
            function is self._function
            and function.__code__ is self._code
            and getattr(process, "__self__", None) is self._object
        )

    def run(
        self,
        portions: Iterable[tuple[list[Any], list[Any]]],
        timestamps: list[int] | None,
        emission: Emission,
    ) -> Produced:
        """Do what the function does for each record; return what it yielded and was not emitted.

        Args:
            portions: Records, and the key of each.
            timestamps: Of all records; None if they have none.
            emission: Hands on what comes in large numbers of one record.
        """
        loop = self._loop(stamped=timestamps is not None)
        context = self._context
        context.stamp = MIN_TIMESTAMP
        made = Produced([], None if timestamps is None else [], [])
        given = {
            "_ms_append": made.results.append,
            "_ms_stamp_append": None if made.timestamps is None else made.timestamps.append,
            "_ms_tagged": made.tagged,
            "_ms_take": taking(self._function.__name__, context, made, emission),
        }
        stamps = () if timestamps is None else (iter(timestamps),)
        for portion, keys in portions:
            remaining = iter(portion)
            try:
                loop(self._object, context, _ms_records=zip(remaining, keys, *stamps, strict=False), **given)
            except BaseException as error:
                raised = self._stopped(error)
                attach_element(raised, portion[len(portion) - length_hint(remaining) - 1])
                if raised is error:
                    raise
                raise raised from error
        self._backend.current_key = NO_KEY
        return made

    def _stopped(self, error: BaseException) -> BaseException:
        """Return what a generator would have raised."""
        if isinstance(error, StopIteration) and self._code.co_flags & inspect.CO_GENERATOR:
            return RuntimeError("generator raised StopIteration")
        return error

    def _loop(self, *, stamped: bool) -> Callable[..., None]:
        """Return the loop for records with timestamps, or for records without."""
        loop = self._loops.get(stamped)
        if loop is None:
            loop = self._loops[stamped] = self._build(stamped=stamped)
        return loop

    def _build(self, *, stamped: bool) -> Callable[..., None]:
        function, backend = self._function, self._backend
        constants: dict[str, Any] = {
            "atomic": ATOMIC,
            "backend": backend,
            "protect": protect_produced,
            "select": _select,
            "tuple": tuple,
            "type": type,
        }
        states: dict[str, int] = {}
        for name, state, entries in _states_of(self._definition, self._object, backend):
            number = states[name] = len(states)
            for what, each in (
                ("state", state),
                ("entries", entries),
                ("get", entries.get),
                ("pop", entries.pop),
            ):
                constants[f"{what}{number}"] = each
        written = write_loop(function, self._definition, states, stamped=stamped)
        loop = FunctionType(compiled(written, self._code), function.__globals__)
        loop.__kwdefaults__ = {f"_ms_{name}": value for name, value in constants.items()}
        return loop


def process_loop(process: Process, backend: KeyedStateBackend, context: KeyedContext) -> ProcessLoop | None:
    """Return what does the same as calls of a process function for each record; None where that cannot be told.

    Args:
        process: The function.
        backend: State of the operator.
        context: What the function gets beside a record.
    """
    if not isinstance(process, MethodType) or not isinstance(process.__func__, FunctionType):
        return None
    definition = definition_of(process.__func__)
    if not isinstance(definition, ast.FunctionDef) or definition.decorator_list:
        return None
    names = parameters(definition)
    if len(names) != 3 or not fits_into_loop(definition, kept=(names[0], names[2])):
        return None
    return ProcessLoop(process, definition, backend, context)


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
