"""What process table functions may ask and do: time, timers, state, what their tables are.

A key's timers are in a map of its state: name -> time, and time -> time of those without a name; so a name finds its
timer, and all of a key are found. The queue of the backend fires them: `(key, name or time)`.
"""

from __future__ import annotations

import datetime
from collections.abc import Callable, Mapping
from typing import Any

from millstream.base.errors import ConfigurationError, StateAccessError, shorten
from millstream.base.time import MIN_TIMESTAMP, Instant
from millstream.common.state import MapState
from millstream.state.keyed import KeyedStateBackend
from millstream.table.changelog_mode import ChangelogMode
from millstream.table.process_functions import OnTimerContext, TableSemantics, TimeContext
from millstream.table.runtime.process.state_entries import KeptEntry

__all__ = ["ProcessContext", "Timers"]

_EPOCH = datetime.datetime(1970, 1, 1)
_MILLI = datetime.timedelta(milliseconds=1)


def _from_datetime(value: datetime.datetime) -> int:
    if value.tzinfo is not None:
        value = value.astimezone(datetime.UTC).replace(tzinfo=None)
    return (value - _EPOCH) // _MILLI


_TIMES: dict[Any, tuple[Callable[[int], Any], Callable[[Any], int]]] = {
    int: (int, int),
    datetime.datetime: (lambda millis: _EPOCH + millis * _MILLI, _from_datetime),
    Instant: (Instant.of_epoch_milli, Instant.to_epoch_milli),
}
"""What a class of times makes of epoch milliseconds, and back."""


class Timers:
    """Timers of the current key.

    Args:
        state: The operator's state.
        held: A key's timers: name or time -> time.
    """

    def __init__(self, state: KeyedStateBackend, held: MapState[Any, int]) -> None:
        self._state = state
        self._held = held

    def register(self, name: str | None, time_ms: int) -> None:
        """Add a timer, in the place of the one of that name."""
        mark: str | int = time_ms if name is None else name
        before = self._held.get(mark)
        if before == time_ms:
            return
        queue, key = self._state.event_timers, self._state.current_key
        if before is not None:
            queue.delete(before, (key, mark))
        self._held.put(mark, time_ms)
        queue.register(time_ms, (key, mark))

    def clear(self, mark: str | int) -> None:
        """Remove the timer of a name, or the one without a name at a time."""
        time_ms = self._held.get(mark)
        if time_ms is not None:
            self._held.remove(mark)
            self._state.event_timers.delete(time_ms, (self._state.current_key, mark))

    def clear_all(self) -> None:
        """Remove all timers."""
        for mark, time_ms in list(self._held.items()):
            self._state.event_timers.delete(time_ms, (self._state.current_key, mark))
        self._held.clear()

    def fired(self, mark: str | int) -> None:
        """Learn that a timer fires: it is no more."""
        self._held.remove(mark)


class ProcessContext(OnTimerContext):
    """One object for all rows and timers of an operator.

    Args:
        function: The function's name, for messages.
        semantics: What its tables are, by name.
        mode: Which kinds of change its rows have.
        entries: Its state entries.
        timers: Its timers; None if it has no state.
        no_timers: Why it can have none; empty if it can.

    Attributes:
        time_ms: Of the row or timer; None if it has none.
        watermark_ms: Of all tables.
        timer: Name of the timer that fires.
        in_timer: Whether one fires.
    """

    def __init__(
        self,
        function: str,
        semantics: Mapping[str, TableSemantics],
        mode: ChangelogMode,
        entries: list[KeptEntry],
        timers: Timers | None,
        no_timers: str,
    ) -> None:
        self._function = function
        self._semantics = semantics
        self._mode = mode
        self._entries = {each.name: each for each in entries}
        self._timers = timers
        self._no_timers = no_timers
        self._times: dict[Any, TimeContext[Any]] = {}
        self.time_ms: int | None = None
        self.watermark_ms = MIN_TIMESTAMP
        self.timer: str | None = None
        self.in_timer = False

    def time_context(self, time_type: Any = int) -> TimeContext[Any]:
        """Return time and timers."""
        found = self._times.get(time_type)
        if found is None:
            if time_type not in _TIMES:
                raise ConfigurationError(
                    f'function "{self._function}" asked for times of {time_type!r}',
                    hint="Use int, datetime.datetime or Instant.",
                )
            found = self._times[time_type] = _Time(self, time_type)
        return found

    def table_semantics_for(self, arg_name: str) -> TableSemantics:
        """Return what is known of a table argument."""
        found = self._semantics.get(arg_name)
        if found is None:
            raise ConfigurationError(
                f'function "{self._function}" has no table argument "{arg_name}"',
                detail=f"There are: {', '.join(self._semantics) or 'none'}.",
            )
        return found

    def clear_state(self, state_name: str) -> None:
        """Empty a state entry of the key."""
        found = self._entries.get(state_name)
        if found is None:
            raise ConfigurationError(
                f'function "{self._function}" has no state entry "{state_name}"',
                detail=f"There are: {', '.join(self._entries) or 'none'}.",
            )
        found.cleared = True

    def clear_all_state(self) -> None:
        """Empty all state entries of the key."""
        for each in self._entries.values():
            each.cleared = True

    def clear_all_timers(self) -> None:
        """Remove all timers of the key."""
        if self._timers is not None and not self._no_timers:
            self._timers.clear_all()

    def clear_all(self) -> None:
        """Empty all state entries and remove all timers of the key."""
        self.clear_all_state()
        self.clear_all_timers()

    def get_changelog_mode(self) -> ChangelogMode:
        """Return which kinds of change the function's rows have."""
        return self._mode

    def current_timer(self) -> str | None:
        """Return the name of the timer that fires."""
        return self.timer

    def timers(self) -> Timers:
        """Return the timers of the key.

        Raises:
            StateAccessError: If the function can have none.
        """
        if self._timers is None or self._no_timers:
            raise StateAccessError(f'function "{self._function}" used a timer', detail=self._no_timers)
        return self._timers


class _Time(TimeContext[Any]):
    """Time and timers with times of one class."""

    def __init__(self, context: ProcessContext, time_type: Any) -> None:
        self._context = context
        self._type = time_type
        self._make, self._millis = _TIMES[time_type]

    def time(self) -> Any:
        """Return the row's time, or the timer's."""
        return self._shown(self._context.time_ms)

    def table_watermark(self) -> Any:
        """Return the watermark of the row's table."""
        return None if self._context.in_timer else self.current_watermark()

    def current_watermark(self) -> Any:
        """Return the watermark of all tables together."""
        return self._shown(self._context.watermark_ms)

    def _shown(self, time_ms: int | None) -> Any:
        if time_ms is None or time_ms == MIN_TIMESTAMP:
            return None
        try:
            return self._make(time_ms)
        except OverflowError:  # the watermark of the end
            return datetime.datetime.max

    def _time(self, value: Any) -> int:
        if not isinstance(value, self._type) or isinstance(value, bool):
            raise ConfigurationError(
                f"a timer was given {shorten(value)}",
                detail=f"The time context has times of {self._type.__name__}.",
            )
        return self._millis(value)

    def register_on_time(self, name_or_time: Any, time: Any = None) -> None:
        """Add a timer."""
        timers = self._context.timers()
        if time is None:
            timers.register(None, self._time(name_or_time))
        elif isinstance(name_or_time, str):
            timers.register(name_or_time, self._time(time))
        else:
            raise ConfigurationError(
                f"a timer was given the name {shorten(name_or_time)}", detail="A name is a str."
            )

    def clear_timer(self, name_or_time: Any) -> None:
        """Remove a timer."""
        mark = name_or_time if isinstance(name_or_time, str) else self._time(name_or_time)
        self._context.timers().clear(mark)

    def clear_all_timers(self) -> None:
        """Remove all timers of the key."""
        self._context.timers().clear_all()
