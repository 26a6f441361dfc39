"""Rows of a key that wait until event time has passed them, to be given in the order of ORDER BY."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from millstream.common.state import MapStateDescriptor
from millstream.state.keyed import KeyedStateBackend
from millstream.table.expressions.rex import SortKey

__all__ = ["SortedRows", "is_sort_mark"]


def is_sort_mark(mark: Any) -> bool:
    """Whether a timer is one of rows that wait, not one of the function's."""
    return isinstance(mark, tuple)


class SortedRows:
    """Rows that wait, by time; in the operator's state, with a timer for each time.

    Args:
        place: The number of their table.
        order: ORDER BY; the first column is their time.
        state: The operator's state.
    """

    def __init__(self, place: int, order: Sequence[SortKey], state: KeyedStateBackend) -> None:
        self._rest = order[1:]
        self._state = state
        self._mark = ("$sort", place)
        self._held = state.get_state(MapStateDescriptor(f"$sort{place}"))

    def add(self, time_ms: int, row: tuple[Any, ...], stamp_ms: int | None) -> None:
        """Have a row of the current key wait.

        Args:
            time_ms: Its time by ORDER BY.
            row: Its values.
            stamp_ms: Its time by `on_time`; None if there is none.
        """
        waiting = self._held.get(time_ms)
        self._held.put(time_ms, [*(waiting or ()), (row, stamp_ms)])
        if waiting is None:
            self._state.event_timers.register(time_ms, (self._state.current_key, self._mark))

    def due(self, time_ms: int) -> list[tuple[tuple[Any, ...], int | None]]:
        """Return the rows of the current key whose time is not after another, in order, and have them wait no more."""
        times = sorted(each for each in self._held.keys() if each <= time_ms)  # noqa: SIM118  a state, no dict
        found = []
        for each in times:
            rows = self._held.get(each)
            self._held.remove(each)
            for key in reversed(self._rest):
                rows = _sorted(rows, key)
            found += rows
        return found


def _sorted(rows: list[Any], key: SortKey) -> list[Any]:
    """Return rows sorted by a column, those that are equal in the order that they have."""
    place = key.index
    some = [each for each in rows if each[0][place] is not None]
    none = [each for each in rows if each[0][place] is None]
    some.sort(key=lambda each: each[0][place], reverse=key.descending)
    return [*none, *some] if key.nulls_first else [*some, *none]
