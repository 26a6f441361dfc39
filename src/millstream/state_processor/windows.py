"""What operators keep beside keyed and operator state, as entries by key: contents of windows, buffers of joins.

Each operator writes it in the form that it works with; this module knows these forms. They are told apart by
their shape, as several operators stand behind one declaration (the fastest for assigner and trigger).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

from millstream.common.windows import CountWindow, TimeWindow

__all__ = [
    "JOIN_LEFT",
    "JOIN_RIGHT",
    "OWN_NAMES",
    "WINDOW_CONTENTS",
    "OwnEntry",
    "WindowStart",
    "own_entries",
]

WINDOW_CONTENTS = "window-contents"
"""Name under which contents of windows are shown."""
JOIN_LEFT = "join-left"
JOIN_RIGHT = "join-right"
"""Names under which buffers of interval joins are shown."""

OWN_NAMES = {"WindowSpec": (WINDOW_CONTENTS,), "IntervalJoinSpec": (JOIN_LEFT, JOIN_RIGHT)}
"""These names, by the class of the operator's declaration."""

OwnEntry = tuple[str, Any, Any, Any]
"""Name, key, namespace, value."""


@dataclass(frozen=True, order=True, slots=True)
class WindowStart:
    """A window, or a slice that several windows share, known by its start: its size is in the program only.

    Attributes:
        start: Epoch milliseconds.
    """

    start: int

    def __repr__(self) -> str:
        return f"WindowStart({self.start})"


def own_entries(kind: str, snapshot: Any) -> Iterator[OwnEntry] | None:
    """Return what an operator keeps, as entries by key; None if it is of no known form, or has no keys.

    Args:
        kind: Class of the operator's spec.
        snapshot: What `Operator.snapshot_state` gave.
    """
    read = _FORMS.get(kind)
    return None if read is None else read(snapshot)


def _window_entries(snapshot: Any) -> Iterator[OwnEntry] | None:
    if isinstance(snapshot, dict):
        return _counted(snapshot)
    if not isinstance(snapshot, tuple) or not snapshot:
        return None
    if isinstance(snapshot[0], bool):  # a sliding reduce: whether slices are kept, and they or the panes
        return _window_entries(snapshot[1])
    if len(snapshot) == 3:
        return _general(snapshot[1], snapshot[2])
    return _by_time(snapshot[1])


def _by_time(contents: dict[Any, Any]) -> Iterator[OwnEntry]:
    """Read panes and slices (start -> key -> accumulator), or sessions (key -> [(start, end, accumulator, fired)])."""
    for outer, inner in contents.items():
        if isinstance(inner, dict):
            for key, accumulator in inner.items():
                yield WINDOW_CONTENTS, key, WindowStart(outer), accumulator
        else:
            for start, end, accumulator, _ in inner:
                yield WINDOW_CONTENTS, outer, TimeWindow(start, end), accumulator


def _general(contents: dict[Any, dict[Any, Any]], merged: dict[Any, dict[Any, Any]]) -> Iterator[OwnEntry]:
    """Read key -> state window -> accumulator; windows that have merged go by their own name, not the state's."""
    for key, windows in contents.items():
        seen_as = {state_window: window for window, state_window in merged.get(key, {}).items()}
        for state_window, accumulator in windows.items():
            yield WINDOW_CONTENTS, key, seen_as.get(state_window, state_window), accumulator


def _counted(contents: dict[Any, Any]) -> Iterator[OwnEntry]:
    """Read key -> [number, records, accumulator], or key -> (records, accumulators of the open windows).

    Of the latter it is not known how many came before: they are numbered from the oldest that is open, 0.
    """
    for key, entry in contents.items():
        if isinstance(entry, tuple):
            for place, accumulator in enumerate(entry[1]):
                yield WINDOW_CONTENTS, key, place, accumulator
        elif entry[1]:
            yield WINDOW_CONTENTS, key, CountWindow(entry[0]), entry[2]


def _join_entries(snapshot: Any) -> Iterator[OwnEntry] | None:
    return _buffers(snapshot["keys"]) if isinstance(snapshot, dict) and "keys" in snapshot else None


def _buffers(keys: dict[Any, Any]) -> Iterator[OwnEntry]:
    for key, (_, *sides) in keys.items():
        for name, (stamps, values) in zip((JOIN_LEFT, JOIN_RIGHT), sides, strict=True):
            if values:
                yield name, key, None, list(zip(stamps, values, strict=True))


_FORMS: dict[str, Callable[[Any], Iterator[OwnEntry] | None]] = {
    "WindowSpec": _window_entries,
    "IntervalJoinSpec": _join_entries,
}
