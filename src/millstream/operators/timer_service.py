"""Time and timers as functions see them, and the contexts that records and timers come with."""

from __future__ import annotations

from typing import Any

from millstream.base.errors import StateAccessError
from millstream.base.time import MIN_TIMESTAMP
from millstream.common.co_functions import CoProcessFunction, KeyedCoProcessFunction
from millstream.common.functions import TimeDomain, TimerService
from millstream.operators.base import Operator
from millstream.state.canonical_key import CanonicalKey
from millstream.state.keyed import KeyedStateBackend

__all__ = ["KeyedContext", "KeyedTimers", "NoTimers", "ProcessContext"]


class NoTimers(TimerService):
    """Time for functions on streams without keys: reading is allowed, timers are not."""

    def __init__(self, operator: Operator) -> None:
        self._operator = operator

    def current_processing_time(self) -> int:
        """Return the epoch's processing time."""
        return self._operator.context.time.now_ms

    def current_watermark(self) -> int:
        """Return the operator's watermark."""
        return self._operator.watermark_ms

    def _refuse(self, timestamp: int) -> None:
        raise StateAccessError(
            "a timer was used on a stream that is not keyed", hint="Call key_by(...) before process(...)."
        )

    register_processing_time_timer = _refuse
    register_event_time_timer = _refuse
    delete_processing_time_timer = _refuse
    delete_event_time_timer = _refuse


class KeyedTimers(TimerService):
    """Time and timers of the current key."""

    __slots__ = ("_operator", "_state")

    def __init__(self, operator: Operator, state: KeyedStateBackend) -> None:
        self._operator = operator
        self._state = state

    def current_processing_time(self) -> int:
        """Return the epoch's processing time."""
        return self._operator.context.time.now_ms

    def current_watermark(self) -> int:
        """Return the operator's watermark."""
        return self._operator.watermark_ms

    def register_processing_time_timer(self, timestamp: int) -> None:
        """Add a processing-time timer."""
        self._state.processing_timers.register(int(timestamp), self._state.current_key)

    def register_event_time_timer(self, timestamp: int) -> None:
        """Add an event-time timer."""
        self._state.event_timers.register(int(timestamp), self._state.current_key)

    def delete_processing_time_timer(self, timestamp: int) -> None:
        """Remove a processing-time timer."""
        self._state.processing_timers.delete(int(timestamp), self._state.current_key)

    def delete_event_time_timer(self, timestamp: int) -> None:
        """Remove an event-time timer."""
        self._state.event_timers.delete(int(timestamp), self._state.current_key)


class ProcessContext(CoProcessFunction.Context):
    """What a record of a stream without keys comes with: one object for all records of an operator.

    Attributes:
        stamp: The record's timestamp, -2**63 if it has none; the loops set it.
    """

    def __init__(self, timers: TimerService) -> None:
        self.timers = timers
        self.stamp = MIN_TIMESTAMP

    def timer_service(self) -> TimerService:
        """Return time."""
        return self.timers

    def timestamp(self) -> int:
        """Return the record's timestamp, -2**63 if it has none, as PyFlink does."""
        return self.stamp


class KeyedContext(KeyedCoProcessFunction.OnTimerContext):
    """What a record or timer of a key comes with: one object for all of an operator.

    Attributes:
        stamp: Timestamp of the record or timer, -2**63 of a record without one; the loops set it.
        domain: Which kind of timer fired.
    """

    def __init__(self, timers: TimerService, state: KeyedStateBackend) -> None:
        self.timers = timers
        self.state = state
        self.stamp = MIN_TIMESTAMP
        self.domain = TimeDomain.EVENT_TIME

    def timer_service(self) -> TimerService:
        """Return time and timers of the current key."""
        return self.timers

    def timestamp(self) -> int:
        """Return the timestamp of the record or timer, -2**63 of a record without one, as PyFlink does."""
        return self.stamp

    def get_current_key(self) -> Any:
        """Return the key of the record or timer."""
        key = self.state.current_key
        return key.original if type(key) is CanonicalKey else key

    def time_domain(self) -> TimeDomain:
        """Return which kind of timer fired."""
        return self.domain
