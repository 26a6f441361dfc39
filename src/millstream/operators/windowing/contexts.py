"""What assigners, triggers and evictors may ask: time, timers, and state of a key and window."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from millstream.common.functions import RuntimeContext
from millstream.common.state import StateDescriptor
from millstream.operators.windowing.assigner import WindowAssigner
from millstream.operators.windowing.evictors import Evictor
from millstream.operators.windowing.trigger import Trigger
from millstream.state.keyed import KeyedStateBackend

if TYPE_CHECKING:
    from millstream.operators.base import Operator

__all__ = ["AssignerContext", "EvictingContext", "WindowTriggerContext"]


class AssignerContext(WindowAssigner.WindowAssignerContext):
    """One for all records of an operator."""

    def __init__(self, operator: Operator, runtime_context: RuntimeContext) -> None:
        self._time = operator.context.time
        self._runtime_context = runtime_context

    def get_current_processing_time(self) -> int:
        """Return the epoch's processing time."""
        return self._time.now_ms

    def get_runtime_context(self) -> RuntimeContext:
        """Return the operator's runtime context."""
        return self._runtime_context


class EvictingContext(Evictor.EvictorContext):
    """One for all firings of an operator."""

    def __init__(self, operator: Operator, runtime_context: RuntimeContext) -> None:
        self._operator = operator
        self._runtime_context = runtime_context

    def get_current_processing_time(self) -> int:
        """Return the epoch's processing time."""
        return self._operator.context.time.now_ms

    def get_metric_group(self) -> Any:
        """Return the operator's metric group."""
        return self._runtime_context.get_metrics_group()

    def get_current_watermark(self) -> int:
        """Return the watermark."""
        return self._operator.watermark_ms


class WindowTriggerContext(Trigger.OnMergeContext):
    """One for all calls of an operator's trigger; acts on the current window and the backend's current key.

    Attributes:
        window: The current window.
        merged: While windows merge, those that become the current one.
    """

    def __init__(
        self, operator: Operator, runtime_context: RuntimeContext, keyed_state: KeyedStateBackend
    ) -> None:
        self._operator = operator
        self._time = operator.context.time
        self._runtime_context = runtime_context
        self._backend = keyed_state
        self._states: dict[Any, dict[str, Any]] = {}
        self.window: Any = None
        self.merged: list[Any] = []

    def get_current_processing_time(self) -> int:
        """Return the epoch's processing time."""
        return self._time.now_ms

    def get_metric_group(self) -> Any:
        """Return the operator's metric group."""
        return self._runtime_context.get_metrics_group()

    def get_current_watermark(self) -> int:
        """Return the watermark."""
        return self._operator.watermark_ms

    def register_processing_time_timer(self, time: int) -> None:
        """Add a timer of the current key and window."""
        self._backend.processing_timers.register(time, (self._backend.current_key, self.window))

    def register_event_time_timer(self, time: int) -> None:
        """Add a timer of the current key and window."""
        self._backend.event_timers.register(time, (self._backend.current_key, self.window))

    def delete_processing_time_timer(self, time: int) -> None:
        """Remove a timer of the current key and window."""
        self._backend.processing_timers.delete(time, (self._backend.current_key, self.window))

    def delete_event_time_timer(self, time: int) -> None:
        """Remove a timer of the current key and window."""
        self._backend.event_timers.delete(time, (self._backend.current_key, self.window))

    def get_partitioned_state(self, state_descriptor: StateDescriptor) -> Any:
        """Return the state of that name of the current key and window."""
        # State objects act on the backend's current key: one does for all keys of a window.
        states = self._states.get(self.window)
        if states is None:
            states = self._states[self.window] = {}
        state = states.get(state_descriptor.name)
        if state is None:
            state = self._backend.get_state(state_descriptor, self.window)
            states[state_descriptor.name] = state
        return state

    def merge_partitioned_state(self, state_descriptor: StateDescriptor) -> None:
        """Merge the state of that name of the windows that merge into that of the current one."""
        if self.merged:
            self._backend.merge_namespaces(state_descriptor, self.window, self.merged)

    def forget(self, window: Any) -> None:
        """Remove all state that the current key has under a window."""
        self._states.pop(window, None)
        self._backend.clear_namespace(window, self._backend.current_key)
