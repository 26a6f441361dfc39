"""Giving matches to the user's function, and taking what it makes of them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from millstream.operators.base import Operator
from millstream.operators.calls import Emission, Produced, emit_produced, taking
from millstream.operators.patterns.automaton import Found
from millstream.operators.timer_service import KeyedContext
from millstream.operators.user_code import attach_element
from millstream.operators.values import ATOMIC, copies
from millstream.state.keyed import NO_KEY, KeyedStateBackend

if TYPE_CHECKING:
    from millstream.operators.patterns.operator import PatternMatchSpec

__all__ = ["Handover"]


class Handover:
    """Gives the matches of some events to the function, and emits its results in the end.

    Args:
        operator: Emits.
        spec: Has the function.
        context: Of the function.
        state: The function's, by key.
    """

    def __init__(
        self, operator: Operator, spec: PatternMatchSpec, context: KeyedContext, state: KeyedStateBackend
    ) -> None:
        self._operator = operator
        self._function = spec.function
        self._output_type = spec.output_type
        self._context = context
        self._state = state
        emission = Emission(operator, spec.output_type)
        self._made = Produced([], [] if spec.event_time else None, [])
        self._take_match = taking("process_match", context, self._made, emission)
        self._take_timed_out = taking("process_timed_out_match", context, self._made, emission)

    def give(self, key: Any, found: list[Found], element: Any) -> None:
        """Give the function what was found of a key, and empty the list.

        Args:
            key: The key.
            found: Matches, and partial ones whose time is up.
            element: What messages name if the function raises.
        """
        function, context = self._function, self._context
        self._state.current_key = key
        try:
            for context.stamp, events, timed_out in found:
                _make_own(events)
                if timed_out:
                    self._take_timed_out(function.process_timed_out_match(events, context), element)
                else:
                    self._take_match(function.process_match(events, context), element)
        except BaseException as error:
            attach_element(error, element)
            raise
        finally:
            self._state.current_key = NO_KEY
            found.clear()

    def emit(self) -> None:
        """Emit the results."""
        emit_produced(self._operator, self._made, self._output_type)


def _make_own(events: dict[str, list[Any]]) -> None:
    """Copy events that the function may change: those that can be changed are held for other matches too."""
    for name, values in events.items():
        for value in values:
            if type(value) is tuple:
                for item in value:
                    if type(item) not in ATOMIC:
                        break
                else:
                    continue
            elif type(value) in ATOMIC:
                continue
            events[name] = copies(values)
            break
