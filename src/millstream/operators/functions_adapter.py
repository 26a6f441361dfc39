"""User functions as plain callables: what a hot loop calls, whether the user gave a callable or a Function.

`as_…` is called when the program is built, to refuse what does not fit, and again in the slot, where
`open_function` and `close_function` frame the calls.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

from millstream.base.declared import as_declared
from millstream.base.errors import TypeMismatchError, shorten
from millstream.common.functions import (
    FilterFunction,
    FlatMapFunction,
    Function,
    KeyedProcessFunction,
    KeySelector,
    MapFunction,
    ReduceFunction,
    RuntimeContext,
)
from millstream.operators.checkpointed import initialize_checkpointed

__all__ = [
    "as_filter",
    "as_flat_map",
    "as_key_selector",
    "as_keyed_process",
    "as_map",
    "as_reduce",
    "close_function",
    "open_function",
]


def as_map(function: MapFunction | Callable[[Any], Any]) -> Callable[[Any], Any]:
    """Return what maps one record.

    Raises:
        TypeMismatchError: If it is neither a MapFunction nor a callable.
    """
    return _as_callable(function, MapFunction, "map")


def as_flat_map(
    function: FlatMapFunction | Callable[[Any], Iterable[Any] | None],
) -> Callable[[Any], Iterable[Any] | None]:
    """Return what turns one record into any number of them, None for none.

    Raises:
        TypeMismatchError: If it is neither a FlatMapFunction nor a callable.
    """
    return _as_callable(function, FlatMapFunction, "flat_map")


def as_filter(function: FilterFunction | Callable[[Any], bool]) -> Callable[[Any], bool]:
    """Return what tells whether to keep a record.

    Raises:
        TypeMismatchError: If it is neither a FilterFunction nor a callable.
    """
    return _as_callable(function, FilterFunction, "filter")


def as_reduce(function: ReduceFunction | Callable[[Any, Any], Any]) -> Callable[[Any, Any], Any]:
    """Return what combines two records; builtins such as `max` are fine.

    Raises:
        TypeMismatchError: If it is neither a ReduceFunction nor a callable.
    """
    return _as_callable(function, ReduceFunction, "reduce")


def as_key_selector(selector: KeySelector | Callable[[Any], Any]) -> Callable[[Any], Any]:
    """Return what gives a record's key, as it is now; pickles by cloudpickle. A KeySelector's `open` is not called.

    Raises:
        TypeMismatchError: If it is neither a KeySelector nor a callable.
    """
    return as_declared(_as_callable(selector, KeySelector, "get_key"))


def _as_callable(function: Any, kind: type[Function], method: str) -> Callable[..., Any]:
    if isinstance(function, kind):
        bound: Callable[..., Any] = getattr(function, method)
        return bound
    if callable(function) and not isinstance(function, (Function, type)):
        plain: Callable[..., Any] = function
        return plain
    if isinstance(function, type) and not issubclass(function, Function):
        return function  # a constructor such as str, or a dataclass
    given = function.__name__ if isinstance(function, type) else type(function).__name__
    hint = f"Give it an instance: {given}(...)." if isinstance(function, type) else None
    raise TypeMismatchError(
        f"{shorten(function)} is not a {kind.__name__}",
        detail=f"A {kind.__name__} or a callable is wanted, a {given} was given.",
        hint=hint,
    )


def open_function(function: object, runtime_context: RuntimeContext) -> None:
    """Open a Function, after the state of a CheckpointedFunction; nothing happens for a plain callable."""
    initialize_checkpointed(function, runtime_context)
    if isinstance(function, Function):
        function.open(runtime_context)


def close_function(function: object) -> None:
    """Close a Function; nothing happens for a plain callable."""
    if isinstance(function, Function):
        function.close()


def as_keyed_process(function: MapFunction | FlatMapFunction | FilterFunction) -> KeyedProcessFunction:
    """Return a Function as one that runs under each record's key, so that it has keyed state."""
    if isinstance(function, MapFunction):
        return _KeyedMap(function)
    if isinstance(function, FlatMapFunction):
        return _KeyedFlatMap(function)
    return _KeyedFilter(function)


class _Keyed(KeyedProcessFunction):
    def __init__(self, function: Any) -> None:
        self._function = function

    def open(self, runtime_context: RuntimeContext) -> None:
        open_function(self._function, runtime_context)

    def close(self) -> None:
        self._function.close()


class _KeyedMap(_Keyed):
    def process_element(self, value: Any, ctx: KeyedProcessFunction.Context) -> Iterable[Any] | None:
        return (self._function.map(value),)


class _KeyedFlatMap(_Keyed):
    def process_element(self, value: Any, ctx: KeyedProcessFunction.Context) -> Iterable[Any] | None:
        produced: Iterable[Any] | None = self._function.flat_map(value)
        return produced


class _KeyedFilter(_Keyed):
    def process_element(self, value: Any, ctx: KeyedProcessFunction.Context) -> Iterable[Any] | None:
        return (value,) if self._function.filter(value) else None
