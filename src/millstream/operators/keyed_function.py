"""What operators share that call a function under keys: state, timers of both time domains, the function's life."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from itertools import repeat
from types import MappingProxyType
from typing import Any

from millstream.common.functions import TimeDomain
from millstream.operators.base import Operator
from millstream.operators.calls import Emission, Process, Produced, call_each_keyed, emit_produced
from millstream.operators.functions_adapter import open_function
from millstream.operators.inlined.process_loops import ProcessLoop, process_loop
from millstream.operators.inlined.view_reads import Views
from millstream.operators.keys import key_portions, keys_of, unused_key_portions
from millstream.operators.portions import LISTED, PORTION, in_portions
from millstream.operators.runtime_context import OperatorRuntimeContext
from millstream.operators.timer_service import KeyedContext, KeyedTimers
from millstream.operators.user_code import attach_element
from millstream.operators.values import take_all
from millstream.state.keyed import NO_KEY, KeyedStateBackend
from millstream.state.timers import TimerQueue
from millstream.types.typeinfo import TypeInformation

__all__ = ["KeyedFunctionOperator"]


class KeyedFunctionOperator(Operator):
    """Sets the key, calls the function, fires timers.

    Args:
        function: Has `open`, `close` and `on_timer(timestamp, ctx)`.
        output_type: Type to check results against; None leaves them unchecked.
    """

    _views: Views = MappingProxyType({})
    """Broadcast states that the function may read, by name."""

    def __init__(self, function: Any, output_type: TypeInformation | None) -> None:
        self._function = function
        self._output_type = output_type

    def open(self) -> None:
        """Open the function."""
        state = self.context.keyed_state
        assert state is not None, "a keyed operator without keyed state"
        state.track()
        self._state = state
        self._context = self._build_context(KeyedTimers(self, state), state)
        self._loops: dict[str, ProcessLoop | None] = {}
        open_function(self._function, OperatorRuntimeContext(self.context))

    def _build_context(self, timers: KeyedTimers, state: KeyedStateBackend) -> KeyedContext:
        return KeyedContext(timers, state)

    def _call_keyed(
        self,
        process: Process,
        select: Callable[[Any], Any],
        values: list[Any],
        timestamps: list[int] | None,
    ) -> None:
        emission = Emission(self, self._output_type)
        loop = self._loop_of(process)
        if loop is not None:
            take = key_portions if loop.needs_key else unused_key_portions
            portions = take(select, values, self._state.touched)
            produced = loop.run(portions, timestamps, emission)
        else:
            keys = keys_of(select, values, self._state.touched)
            produced = call_each_keyed(
                process, self._context, self._state, keys, values, timestamps, emission
            )
        emit_produced(self, produced, self._output_type)

    def _loop_of(self, process: Process) -> ProcessLoop | None:
        """Return what does the same as calls of a function, if there is such a loop."""
        name = getattr(process, "__name__", "")
        if name not in self._loops:
            self._loops[name] = process_loop(process, self._state, self._context, self._views)
        loop = self._loops[name]
        return loop if loop is not None and loop.stands_for(process) else None

    def process_watermark(self, timestamp_ms: int) -> None:
        """Fire the event-time timers that are due, then hand the watermark on."""
        self.watermark_ms = timestamp_ms
        self._fire(self._state.event_timers, timestamp_ms, TimeDomain.EVENT_TIME)
        self.output.emit_watermark(timestamp_ms)

    def advance_watermark(self, timestamp_ms: int) -> bool:
        """Fire as many of the timers that are due as the epoch has room for; if that is all, hand the watermark on."""
        before_ms, self.watermark_ms = self.watermark_ms, timestamp_ms
        grant = self.context.budget.take_timers
        if not self._fire(self._state.event_timers, timestamp_ms, TimeDomain.EVENT_TIME, grant):
            self.watermark_ms = before_ms
            return False
        self.output.emit_watermark(timestamp_ms)
        return True

    def on_processing_time(self) -> None:
        """Fire the processing-time timers that are due, as many as the epoch has room for."""
        grant = None if self.context.batch else self.context.budget.take_timers
        self._fire(self._state.processing_timers, self.context.time.now_ms, TimeDomain.PROCESSING_TIME, grant)

    def next_processing_time(self) -> int | None:
        """Return when the next processing-time timer is due."""
        return self._state.processing_timers.next_timestamp()

    def _fire(
        self,
        timers: TimerQueue,
        time_ms: int,
        domain: TimeDomain,
        grant: Callable[[], int] | None = None,
    ) -> bool:
        """Fire what is due; return whether that is all of it.

        Args:
            timers: Of the domain.
            time_ms: What time it is.
            domain: Which time.
            grant: Says how many may be fired now; None for all.
        """
        next_ms = timers.next_timestamp()
        if next_ms is None or next_ms > time_ms:
            return True
        context, state, on_timer = self._context, self._state, self._function.on_timer
        results: list[Any] = []
        stamps: list[int] = []
        tagged: list[bool] = []
        touched = state.touched
        event_time = domain is TimeDomain.EVENT_TIME
        emission = Emission(self, self._output_type)
        hand_on = partial(emission.hand_on, context, results, stamps, tagged)
        if not event_time:
            hand_on = partial(emission.hand_on, context, results, None, tagged)

        def fire(timestamp_ms: int, key: Any) -> None:
            state.current_key = key
            if touched is not None:
                touched.add(key)
            context.stamp = timestamp_ms
            context.domain = domain
            produced = on_timer(timestamp_ms, context)
            if produced is not None:
                listed = type(produced) in LISTED
                take_all(produced if listed else in_portions(produced, hand_on), results, tagged)
                if event_time:
                    stamps.extend(repeat(timestamp_ms, len(results) - len(stamps)))
            if len(results) >= PORTION:
                emission.emit(results, stamps if event_time else None, tagged)

        try:
            fired = timers.fire_until(time_ms, fire, grant)
        except BaseException as error:
            attach_element(error, f"timer of key {state.current_key!r} at {context.stamp}")
            raise
        state.current_key = NO_KEY
        emit_produced(self, Produced(results, stamps if event_time else None, tagged), self._output_type)
        return fired

    def close(self) -> None:
        """Close the function."""
        self._function.close()
