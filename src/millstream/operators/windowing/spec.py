"""The declared half of a window operator."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, cast

from millstream.base.errors import ConfigurationError, TypeMismatchError
from millstream.common.functions import (
    AggregateFunction,
    AllWindowFunction,
    Function,
    ProcessAllWindowFunction,
    ProcessWindowFunction,
    ReduceFunction,
    WindowFunction,
)
from millstream.operators.base import OperatorSpec
from millstream.operators.combining import Combiner
from millstream.operators.reduce import RollingAggregate
from millstream.operators.windowing.assigner import MergingWindowAssigner, WindowAssigner, check_assigner
from millstream.operators.windowing.assigners import (
    DynamicEventTimeSessionWindows,
    DynamicProcessingTimeSessionWindows,
    EventTimeSessionWindows,
    ProcessingTimeSessionWindows,
    SlidingEventTimeWindows,
    SlidingProcessingTimeWindows,
    TumblingEventTimeWindows,
    TumblingProcessingTimeWindows,
    WindowStagger,
)
from millstream.operators.windowing.base import WindowOperator
from millstream.operators.windowing.combining import RollingCombiner
from millstream.operators.windowing.count_assigners import (
    CountSlidingWindowAssigner,
    CountTumblingWindowAssigner,
    GlobalWindows,
)
from millstream.operators.windowing.counts import CountWindowOperator, SlidingCountWindowOperator
from millstream.operators.windowing.evictors import Evictor, check_evictor
from millstream.operators.windowing.firing import (
    ApplyAllFiring,
    ApplyFiring,
    Firing,
    PlainFiring,
    ProcessAllFiring,
    ProcessFiring,
)
from millstream.operators.windowing.folds import AggregateFold, Fold, ListFold, ReduceFold
from millstream.operators.windowing.general import GeneralWindowOperator
from millstream.operators.windowing.panes import PaneOperator
from millstream.operators.windowing.sessions import SessionOperator
from millstream.operators.windowing.slices import SliceOperator
from millstream.operators.windowing.sliding_reduce import SlidingReduceOperator
from millstream.operators.windowing.trigger import Trigger, check_trigger
from millstream.operators.windowing.triggers import (
    CountTrigger,
    EventTimeTrigger,
    ProcessingTimeTrigger,
    PurgingTrigger,
)
from millstream.types.typeinfo import TypeInformation

__all__ = [
    "AggregateWindow",
    "AnyWindowFunction",
    "ApplyWindow",
    "ProcessWindow",
    "ReduceWindow",
    "WindowFunctionSpec",
    "WindowSpec",
    "check_mergeable",
]

AnyWindowFunction = WindowFunction | ProcessWindowFunction | AllWindowFunction | ProcessAllWindowFunction


class WindowFunctionSpec(ABC):
    """Declares what is done with the records of a window.

    Attributes:
        contents: What is kept of them until the window fires, for checkpoints.
    """

    contents = "records"

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
    if isinstance(function, ProcessAllWindowFunction):
        return ProcessAllFiring(function, folded=folded)
    if isinstance(function, AllWindowFunction):
        return ApplyAllFiring(function, folded=folded)
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
    contents = "one reduced record"

    @property
    def fold_function(self) -> Function | None:
        """The reduce function, unless it is a plain callable."""
        return self.function if isinstance(self.function, Function) else None

    def fold(self) -> Fold:
        """Make a fold by the function."""
        function = self.function
        if isinstance(function, RollingAggregate):
            return ReduceFold(function.reducer(), associative=True)
        return ReduceFold(function.reduce if isinstance(function, ReduceFunction) else function)

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
    contents = "accumulators"

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
    """Gives all records of a window to a `WindowFunction` or `AllWindowFunction`."""

    function: WindowFunction | AllWindowFunction

    def fold(self) -> Fold:
        """Make a fold that keeps the records."""
        return ListFold()

    def firing(self) -> Firing:
        """Make a firing of all records."""
        return _firing(self.function, folded=False)


@dataclass(frozen=True)
class ProcessWindow(WindowFunctionSpec):
    """Gives all records of a window to a `ProcessWindowFunction` or `ProcessAllWindowFunction`."""

    function: ProcessWindowFunction | ProcessAllWindowFunction

    def fold(self) -> Fold:
        """Make a fold that keeps the records."""
        return ListFold()

    def firing(self) -> Firing:
        """Make a firing of all records."""
        return _firing(self.function, folded=False)


Shared = dict[str, Any]


def _build_tumbling(assigner: Any, shared: Shared) -> WindowOperator | None:
    if assigner.stagger is not WindowStagger.ALIGNED:
        return None
    return PaneOperator(size_ms=assigner.size, slide_ms=assigner.size, offset_ms=assigner.offset, **shared)


def _build_sliding(assigner: Any, shared: Shared) -> WindowOperator:
    fold: Fold = shared["fold"]
    kind: Callable[..., WindowOperator] = SliceOperator if fold.can_merge() else PaneOperator
    if isinstance(fold, ReduceFold) and not fold.can_merge() and assigner.slide < assigner.size:
        kind = SlidingReduceOperator
    return kind(size_ms=assigner.size, slide_ms=assigner.slide, offset_ms=assigner.offset, **shared)


def _build_sessions(assigner: Any, shared: Shared) -> WindowOperator:
    return SessionOperator(gap=assigner.session_gap, **shared)


def _build_dynamic_sessions(assigner: Any, shared: Shared) -> WindowOperator:
    return SessionOperator(gap=assigner.gap_ms, **shared)


_BY_TIME: dict[type[WindowAssigner], Callable[[Any, Shared], WindowOperator | None]] = {
    TumblingEventTimeWindows: _build_tumbling,
    TumblingProcessingTimeWindows: _build_tumbling,
    SlidingEventTimeWindows: _build_sliding,
    SlidingProcessingTimeWindows: _build_sliding,
    EventTimeSessionWindows: _build_sessions,
    ProcessingTimeSessionWindows: _build_sessions,
    DynamicEventTimeSessionWindows: _build_dynamic_sessions,
    DynamicProcessingTimeSessionWindows: _build_dynamic_sessions,
}
"""The operators of windows by time with their default triggers."""


def _build_by_time(assigner: WindowAssigner, trigger: Trigger, shared: Shared) -> WindowOperator | None:
    default = EventTimeTrigger if assigner.is_event_time() else ProcessingTimeTrigger
    if type(assigner) not in _BY_TIME or type(trigger) is not default:
        return None
    return _BY_TIME[type(assigner)](assigner, shared)


def _build_counting(assigner: WindowAssigner, trigger: Trigger, shared: Shared) -> WindowOperator | None:
    """Return an operator that counts, if the windows are full exactly when the trigger fires."""
    if type(trigger) is PurgingTrigger and type(assigner) is GlobalWindows:
        nested = trigger.nested_trigger
        if type(nested) is CountTrigger:
            return CountWindowOperator(size=nested.window_size, numbered=False, **shared)
    if type(trigger) is not CountTrigger:
        return None
    if type(assigner) is CountTumblingWindowAssigner and trigger.window_size == assigner.window_size:
        return CountWindowOperator(size=assigner.window_size, numbered=True, **shared)
    if type(assigner) is CountSlidingWindowAssigner and trigger.window_size == assigner.window_size:
        return SlidingCountWindowOperator(size=assigner.window_size, slide=assigner.window_slide, **shared)
    return None


def _form(operator: WindowOperator, spec: WindowSpec) -> str:
    """Return what of a spec decides whether the windows of another are read rightly."""
    assigner, trigger = cast(Any, spec.assigner), cast(Any, spec._trigger())
    if isinstance(operator, SessionOperator):
        return "sessions"  # each has its end, whatever the gap is now
    if isinstance(operator, (PaneOperator, SliceOperator, SlidingReduceOperator)):
        kept = "windows" if isinstance(operator, PaneOperator) else "slices of windows"
        if isinstance(operator, SlidingReduceOperator):  # either, as it finds out
            kept = "reduced windows"
        slide = getattr(assigner, "slide", assigner.size)
        return f"{kept} of {assigner.size} ms every {slide} ms, offset {assigner.offset} ms"
    if isinstance(operator, CountWindowOperator):
        numbered = ", numbered" if isinstance(assigner, CountTumblingWindowAssigner) else ""
        return f"windows of {(trigger.nested_trigger if not numbered else trigger).window_size} records{numbered}"
    if isinstance(operator, SlidingCountWindowOperator):
        return f"windows of {assigner.window_size} records every {assigner.window_slide}"
    merging = isinstance(assigner, MergingWindowAssigner)
    return f"windows of a custom kind{' that merge' if merging else ''}"  # contents are by window


def check_mergeable(assigner: WindowAssigner, trigger: Trigger) -> None:
    """Check that a trigger can be used with windows that merge.

    Raises:
        TypeMismatchError: If it cannot.
    """
    if isinstance(assigner, MergingWindowAssigner) and not trigger.can_merge():
        raise TypeMismatchError(
            f"{type(trigger).__name__} was given to windows that merge, {type(assigner).__name__}",
            detail="The state of such a trigger cannot be merged: its can_merge() returns False.",
            hint="Use EventTimeTrigger, or a trigger of your own with on_merge() and can_merge().",
        )


@dataclass(frozen=True)
class WindowSpec(OperatorSpec):
    """Declares windows of a keyed stream and what is done with them.

    Attributes:
        key_selector: Gives a record's key.
        assigner: Says which windows a record belongs to.
        function: What is done with the records of a window.
        trigger: Says when windows fire; None for the assigner's default.
        evictor: Takes records out of windows that fire; None for none.
        general: Whether to use the general operator even where there is a faster one.
        allowed_lateness_ms: How long a window is kept after its end.
        late_tag_id: Side output of late records; None drops and counts them.
        output_type: Type to check results against; None leaves them unchecked.

    Raises:
        TypeMismatchError: If assigner, trigger or evictor is none, or the trigger cannot merge such windows.
        ConfigurationError: If the lateness is negative.
    """

    key_selector: Callable[[Any], Any]
    assigner: WindowAssigner
    function: WindowFunctionSpec
    allowed_lateness_ms: int = 0
    late_tag_id: str | None = None
    output_type: TypeInformation | None = None
    trigger: Trigger | None = None
    evictor: Evictor | None = None
    general: bool = False
    is_keyed = True

    def __post_init__(self) -> None:
        check_assigner("a window operator", self.assigner)
        if self.trigger is not None:
            check_trigger("a window operator", self.trigger)
        if self.evictor is not None:
            check_evictor("a window operator", self.evictor)
        check_mergeable(self.assigner, self._trigger())
        if self.allowed_lateness_ms < 0:
            raise ConfigurationError(f"the allowed lateness of a window is {self.allowed_lateness_ms} ms")

    @property
    def waits_ms(self) -> int | None:
        """The size of the windows; sessions by their gap."""
        if not self.assigner.is_event_time():
            return None
        size = getattr(self.assigner, "size", None) or getattr(self.assigner, "session_gap", None)
        return size if isinstance(size, int) else 0

    def _trigger(self) -> Trigger:
        return self.assigner.get_default_trigger(None) if self.trigger is None else self.trigger

    @property
    def state_form(self) -> str:
        """Which windows by which time, and what is kept of their records."""
        time = "event time" if self.assigner.is_event_time() else "processing time"
        contents = self.function.contents if self.evictor is None else "records with timestamps"
        return f"{_form(self.build(), self)}, {time}, {contents}"

    def build_combiner(self) -> Combiner | None:
        """Make what begins sums, least and largest where records come from, if each late record need not be there."""
        assigner: Any = self.assigner
        function = self.function.fold_function
        late_matter = self.allowed_lateness_ms or self.late_tag_id is not None
        if type(assigner) not in (TumblingEventTimeWindows, SlidingEventTimeWindows) or late_matter:
            return None
        if self.evictor is not None or self.general or type(self._trigger()) is not EventTimeTrigger:
            return None
        slide_ms = getattr(assigner, "slide", assigner.size)
        aligned = getattr(assigner, "stagger", WindowStagger.ALIGNED) is WindowStagger.ALIGNED
        if not isinstance(function, RollingAggregate) or not aligned or slide_ms > assigner.size:
            return None
        return RollingCombiner(self.key_selector, function, assigner.size, slide_ms, assigner.offset)

    def build(self) -> WindowOperator:
        """Make the running half: the fastest operator that there is for the combination."""
        assigner, trigger = self.assigner, self._trigger()
        event_time = assigner.is_event_time()
        shared = {
            "key_selector": self.key_selector,
            "fold": self.function.fold(),
            "fold_function": self.function.fold_function,
            "firing": self.function.firing(),
            # Windows by the clock are cleaned up as they end, as in Flink.
            "allowed_lateness_ms": self.allowed_lateness_ms if event_time else 0,
            "late_tag_id": self.late_tag_id,
            "output_type": self.output_type,
            "event_time": event_time,
        }
        if self.evictor is None and not self.general:
            for build in (_build_by_time, _build_counting):
                operator = build(assigner, trigger, shared)
                if operator is not None:
                    return operator
        return GeneralWindowOperator(assigner=assigner, trigger=trigger, evictor=self.evictor, **shared)
