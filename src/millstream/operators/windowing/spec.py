"""The declared half of a window operator."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from millstream.common.errors import ConfigurationError, NotSupportedError
from millstream.common.functions import (
    AggregateFunction,
    Function,
    ProcessWindowFunction,
    ReduceFunction,
    WindowFunction,
)
from millstream.common.typeinfo import TypeInformation
from millstream.operators.base import OperatorSpec
from millstream.operators.windowing.assigners import (
    EventTimeSessionWindows,
    SlidingEventTimeWindows,
    TumblingEventTimeWindows,
    WindowAssigner,
)
from millstream.operators.windowing.base import WindowOperator
from millstream.operators.windowing.firing import ApplyFiring, Firing, PlainFiring, ProcessFiring
from millstream.operators.windowing.folds import AggregateFold, Fold, ListFold, ReduceFold
from millstream.operators.windowing.panes import EventTimePaneOperator
from millstream.operators.windowing.sessions import SessionOperator
from millstream.operators.windowing.slices import SliceOperator

__all__ = [
    "AggregateWindow",
    "ApplyWindow",
    "ProcessWindow",
    "ReduceWindow",
    "WindowFunctionSpec",
    "WindowSpec",
    "check_supported",
]

AnyWindowFunction = WindowFunction | ProcessWindowFunction


class WindowFunctionSpec(ABC):
    """Declares what is done with the records of a window."""

    @property
    def fold_function(self) -> Function | None:
        """The user's function that folds, where it has to be opened and closed."""
        return None

    @abstractmethod
    def fold(self) -> Fold:
        """Make the way in which panes take in records."""

    @abstractmethod
    def firing(self) -> Firing:
        """Make what becomes of contents that fire."""


def _firing(function: AnyWindowFunction | None, *, folded: bool) -> Firing:
    if function is None:
        return PlainFiring()
    if isinstance(function, ProcessWindowFunction):
        return ProcessFiring(function, folded=folded)
    return ApplyFiring(function, folded=folded)


@dataclass(frozen=True)
class ReduceWindow(WindowFunctionSpec):
    """Reduces the records of a window to one.

    Attributes:
        function: Combines two records.
        window_function: Gets the one record; None emits it.
    """

    function: ReduceFunction | Callable[[Any, Any], Any]
    window_function: AnyWindowFunction | None = None

    @property
    def fold_function(self) -> Function | None:
        """The reduce function, unless it is a plain callable."""
        return self.function if isinstance(self.function, Function) else None

    def fold(self) -> Fold:
        """Make a fold by the function."""
        return ReduceFold(
            self.function.reduce if isinstance(self.function, ReduceFunction) else self.function
        )

    def firing(self) -> Firing:
        """Make a firing of one record."""
        return _firing(self.window_function, folded=True)


@dataclass(frozen=True)
class AggregateWindow(WindowFunctionSpec):
    """Folds the records of a window into an accumulator.

    Attributes:
        function: Folds.
        window_function: Gets the one result; None emits it.
    """

    function: AggregateFunction
    window_function: AnyWindowFunction | None = None

    @property
    def fold_function(self) -> Function | None:
        """The aggregate function."""
        return self.function

    def fold(self) -> Fold:
        """Make a fold by the function."""
        return AggregateFold(self.function)

    def firing(self) -> Firing:
        """Make a firing of one result."""
        return _firing(self.window_function, folded=True)


@dataclass(frozen=True)
class ApplyWindow(WindowFunctionSpec):
    """Gives all records of a window to a `WindowFunction`."""

    function: WindowFunction

    def fold(self) -> Fold:
        """Make a fold that keeps the records."""
        return ListFold()

    def firing(self) -> Firing:
        """Make a firing of all records."""
        return _firing(self.function, folded=False)


@dataclass(frozen=True)
class ProcessWindow(WindowFunctionSpec):
    """Gives all records of a window to a `ProcessWindowFunction`."""

    function: ProcessWindowFunction

    def fold(self) -> Fold:
        """Make a fold that keeps the records."""
        return ListFold()

    def firing(self) -> Firing:
        """Make a firing of all records."""
        return _firing(self.function, folded=False)


def _build_tumbling(assigner: TumblingEventTimeWindows, shared: dict[str, Any]) -> WindowOperator:
    return EventTimePaneOperator(
        size_ms=assigner.size, slide_ms=assigner.size, offset_ms=assigner.offset, **shared
    )


def _build_sliding(assigner: SlidingEventTimeWindows, shared: dict[str, Any]) -> WindowOperator:
    fold: Fold = shared["fold"]
    kind = SliceOperator if fold.can_merge() else EventTimePaneOperator
    return kind(size_ms=assigner.size, slide_ms=assigner.slide, offset_ms=assigner.offset, **shared)


def _build_sessions(assigner: EventTimeSessionWindows, shared: dict[str, Any]) -> WindowOperator:
    return SessionOperator(gap_ms=assigner.session_gap, **shared)


_BUILDERS: dict[type[WindowAssigner], Callable[[Any, dict[str, Any]], WindowOperator]] = {
    TumblingEventTimeWindows: _build_tumbling,
    SlidingEventTimeWindows: _build_sliding,
    EventTimeSessionWindows: _build_sessions,
}
"""The operator of each kind of windows."""


def check_supported(assigner: WindowAssigner) -> None:
    """Check that there is an operator for an assigner.

    Raises:
        ConfigurationError: If it is no window assigner.
        NotSupportedError: If there is none yet.
    """
    if not isinstance(assigner, WindowAssigner):
        raise ConfigurationError(
            f"window() was given {assigner!r}",
            hint="Give it an assigner such as TumblingEventTimeWindows.of(...).",
        )
    if type(assigner) not in _BUILDERS:
        supported = ", ".join(kind.__name__ for kind in _BUILDERS)
        raise NotSupportedError(
            f"the window assigner {type(assigner).__name__} is not supported yet",
            detail=f"Supported: {supported}.",
        )


@dataclass(frozen=True)
class WindowSpec(OperatorSpec):
    """Declares windows of a keyed stream and what is done with them.

    Attributes:
        key_selector: Gives a record's key.
        assigner: Says which windows a record belongs to.
        function: What is done with the records of a window.
        allowed_lateness_ms: How long a window is kept after its end.
        late_tag_id: Side output of late records; None drops and counts them.
        output_type: Type to check results against; None leaves them unchecked.

    Raises:
        NotSupportedError: If there is no operator for the assigner yet.
        ConfigurationError: If the lateness is negative.
    """

    key_selector: Callable[[Any], Any]
    assigner: WindowAssigner
    function: WindowFunctionSpec
    allowed_lateness_ms: int = 0
    late_tag_id: str | None = None
    output_type: TypeInformation | None = None
    is_keyed = True

    def __post_init__(self) -> None:
        check_supported(self.assigner)
        if self.allowed_lateness_ms < 0:
            raise ConfigurationError(f"the allowed lateness of a window is {self.allowed_lateness_ms} ms")

    def build(self) -> WindowOperator:
        """Make the running half."""
        shared = {
            "key_selector": self.key_selector,
            "fold": self.function.fold(),
            "fold_function": self.function.fold_function,
            "firing": self.function.firing(),
            "allowed_lateness_ms": self.allowed_lateness_ms,
            "late_tag_id": self.late_tag_id,
            "output_type": self.output_type,
        }
        return _BUILDERS[type(self.assigner)](self.assigner, shared)
