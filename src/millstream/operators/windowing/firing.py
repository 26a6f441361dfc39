"""What happens to the contents of a window that fires: emitted as they are, or given to a window function."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable
from functools import partial
from typing import Any

from millstream.base.errors import StateAccessError
from millstream.common.functions import (
    AllWindowFunction,
    Function,
    KeyedStateStore,
    ProcessAllWindowFunction,
    ProcessWindowFunction,
    RuntimeContext,
    WindowFunction,
)
from millstream.common.windows import Window
from millstream.operators.base import Operator
from millstream.operators.functions_adapter import open_function
from millstream.operators.portions import LISTED, in_portions
from millstream.operators.user_code import check_results
from millstream.operators.values import ATOMIC, protect, take_all
from millstream.state.keyed import KeyedStateBackend
from millstream.state.keys import original_key
from millstream.state.store import NamespacedStore

__all__ = [
    "ApplyAllFiring",
    "ApplyFiring",
    "Firing",
    "PlainFiring",
    "ProcessAllFiring",
    "ProcessFiring",
]


_CALLS = 16
"""Calls of a quick function after which the clock is looked at."""


class Firing(ABC):
    """Makes results of a window's contents; one for each operator.

    Attributes:
        functions: User functions to open and close.
        clears: Whether `clear` does anything.
        plain: Whether it emits the contents, and nothing else.
        hand_on: Called between results of a window, with it; emits those that there are if it is time for it, and
            returns whether they come quickly.
    """

    functions: tuple[Function, ...] = ()
    clears: bool = False
    plain: bool = False
    hand_on: Callable[[Window], bool] = staticmethod(lambda window: True)

    def open(self, operator: Operator, runtime_context: RuntimeContext, *, merging: bool) -> None:
        """Open the functions; `merging` tells that windows merge, so they have no state of their own."""
        for function in self.functions:
            open_function(function, runtime_context)

    def close(self) -> None:
        """Close the functions."""
        for function in self.functions:
            function.close()

    @abstractmethod
    def fire(self, window: Window, contents: Iterable[tuple[Any, Any]], results: list[Any]) -> None:
        """Append the results of a window.

        Args:
            window: The window.
            contents: Keys and what the fold made of their records.
            results: Results so far.
        """

    def clear(self, window: Window, keys: Iterable[Any]) -> None:
        """Drop what was kept for a window that is being cleaned up."""


class PlainFiring(Firing):
    """Emits the contents."""

    plain = True

    def fire(self, window: Window, contents: Iterable[tuple[Any, Any]], results: list[Any]) -> None:
        """Append the contents themselves."""
        for _, content in contents:
            results.append(content if type(content) in ATOMIC else protect(content))


class _FunctionFiring(Firing, ABC):
    """Calls a window function with the records of a window (or the one value that they were folded into).

    Attributes:
        method: What is called.
    """

    method = "process"

    def __init__(self, function: Function, *, folded: bool) -> None:
        self.functions = (function,)
        self._folded = folded
        self._keyed_state: KeyedStateBackend | None = None
        self._calls_left = 1

    def open(self, operator: Operator, runtime_context: RuntimeContext, *, merging: bool) -> None:
        """Open the function."""
        self._keyed_state = operator.context.keyed_state
        super().open(operator, runtime_context, merging=merging)

    def fire(self, window: Window, contents: Iterable[tuple[Any, Any]], results: list[Any]) -> None:
        """Append what the function yields for each key."""
        for key, content in contents:
            self._select(key)
            made = self._call(original_key(key), window, [content] if self._folded else content)
            if made is not None:
                listed = type(made) in LISTED
                try:
                    take_all(made if listed else in_portions(made, partial(self.hand_on, window)), results)
                except BaseException:
                    check_results(self.method, made, (original_key(key), window))
                    raise
            self._calls_left -= 1
            if self._calls_left <= 0:
                self._calls_left = _CALLS if self.hand_on(window) else 1

    def _select(self, key: Any) -> None:
        state = self._keyed_state
        if state is not None:
            state.current_key = key
            if state.touched is not None:
                state.touched.add(key)

    @abstractmethod
    def _call(self, key: Any, window: Window, elements: list[Any]) -> Iterable[Any] | None: ...


class ApplyFiring(_FunctionFiring):
    """Calls a `WindowFunction`."""

    method = "apply"

    def __init__(self, function: WindowFunction, *, folded: bool) -> None:
        super().__init__(function, folded=folded)
        self._function = function

    def _call(self, key: Any, window: Window, elements: list[Any]) -> Iterable[Any] | None:
        return self._function.apply(key, window, elements)


class ApplyAllFiring(_FunctionFiring):
    """Calls an `AllWindowFunction`."""

    method = "apply"

    def __init__(self, function: AllWindowFunction, *, folded: bool) -> None:
        super().__init__(function, folded=folded)
        self._function = function

    def _call(self, key: Any, window: Window, elements: list[Any]) -> Iterable[Any] | None:
        return self._function.apply(window, elements)


class _ContextFiring(_FunctionFiring, ABC):
    """Calls a window function with a context; it may have state of its own for each window."""

    clears = True

    def __init__(self, function: Function, *, folded: bool, user_clears: bool) -> None:
        super().__init__(function, folded=folded)
        self._user_clears = user_clears

    def open(self, operator: Operator, runtime_context: RuntimeContext, *, merging: bool) -> None:
        """Open the function."""
        self._merging = merging
        self._context = _ProcessContext(operator, merging=merging)
        super().open(operator, runtime_context, merging=merging)

    def clear(self, window: Window, keys: Iterable[Any]) -> None:
        """Call the function's `clear` for each key, then drop the state of the window."""
        state = None if self._merging else self._keyed_state
        if not self._user_clears and state is None:
            return
        self._context.current_window = window
        for key in keys:
            if self._user_clears:
                self._select(key)
                self._call_clear()
            if state is not None:
                if state.touched is not None:
                    state.touched.add(key)
                state.clear_namespace(window, key)

    @abstractmethod
    def _call_clear(self) -> None: ...


class ProcessFiring(_ContextFiring):
    """Calls a `ProcessWindowFunction`."""

    def __init__(self, function: ProcessWindowFunction, *, folded: bool) -> None:
        user_clears = type(function).clear is not ProcessWindowFunction.clear
        super().__init__(function, folded=folded, user_clears=user_clears)
        self._function = function

    def _call(self, key: Any, window: Window, elements: list[Any]) -> Iterable[Any] | None:
        self._context.current_window = window
        return self._function.process(key, self._context, elements)

    def _call_clear(self) -> None:
        self._function.clear(self._context)


class ProcessAllFiring(_ContextFiring):
    """Calls a `ProcessAllWindowFunction`."""

    def __init__(self, function: ProcessAllWindowFunction, *, folded: bool) -> None:
        user_clears = type(function).clear is not ProcessAllWindowFunction.clear
        super().__init__(function, folded=folded, user_clears=user_clears)
        self._function = function

    def _call(self, key: Any, window: Window, elements: list[Any]) -> Iterable[Any] | None:
        self._context.current_window = window
        return self._function.process(self._context, elements)

    def _call_clear(self) -> None:
        self._function.clear(self._context)


class _ProcessContext(ProcessWindowFunction.Context, ProcessAllWindowFunction.Context):
    """What a firing comes with: one object for all firings of an operator."""

    current_window: Window

    def __init__(self, operator: Operator, *, merging: bool) -> None:
        self._operator = operator
        self._merging = merging

    def window(self) -> Window:
        """Return the window that fired."""
        return self.current_window

    def current_processing_time(self) -> int:
        """Return the epoch's processing time."""
        return self._operator.context.time.now_ms

    def current_watermark(self) -> int:
        """Return the watermark."""
        return self._operator.watermark_ms

    def window_state(self) -> KeyedStateStore:
        """Return state of this key and window."""
        if self._merging:
            raise StateAccessError(
                "per-window state was asked for in a window that may merge",
                detail="Sessions merge, and their state cannot be merged.",
                hint="Use global_state().",
            )
        return self._store(self.current_window)

    def global_state(self) -> KeyedStateStore:
        """Return state of this key over all windows."""
        return self._store(None)

    def _store(self, namespace: Any) -> KeyedStateStore:
        context = self._operator.context
        return NamespacedStore(context.keyed_state, namespace, context.name, context.subtask_index)
