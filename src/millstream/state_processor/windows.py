"""What operators keep beside keyed and operator state, as entries by key: contents of windows, buffers of joins.

Each operator writes it in the form that it works with, under a name of its own; this module knows these forms.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from operator import itemgetter
from typing import Any

from millstream.common.windows import CountWindow, TimeWindow
from millstream.operators.interval_join import LEFT, RIGHT
from millstream.operators.windowing.counts import COUNTS
from millstream.operators.windowing.general import CONTENTS, MERGED
from millstream.operators.windowing.panes import PANES
from millstream.operators.windowing.sessions import SESSIONS
from millstream.operators.windowing.slices import SLICES

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

OWN_NAMES = {
    "WindowSpec": (WINDOW_CONTENTS,),
    "ColumnWindowSpec": (WINDOW_CONTENTS,),
    "ColumnCountWindowSpec": (WINDOW_CONTENTS,),
    "ColumnAggregateSpec": ("aggregates",),
    "IntervalJoinSpec": (JOIN_LEFT, JOIN_RIGHT),
}
"""These names, by the class of the operator's declaration."""

OwnEntry = tuple[str, Any, Any, Any]
"""Name, key, namespace, value."""


@dataclass(frozen=True, order=True, slots=True)
class WindowStart:
    """A window, or a slice that several windows share, known by its start: its size is in the program only.

    Attributes:
        start: Epoch milliseconds.

    Example:
        >>> from millstream.state_processor import WindowStart
        >>> WindowStart(60_000).start
        60000
    """

    start: int

    def __repr__(self) -> str:
        return f"WindowStart({self.start})"


def own_entries(states: Mapping[str, Iterable[tuple[Any, Any, Any]]]) -> Iterator[OwnEntry]:
    """Return what an operator keeps by key in one key group, as programs see it.

    Args:
        states: Entries (namespace, key, entry) by the operator's name of them.
    """
    shown_as = dict(_windows_of_contents(states.get(MERGED, ())))
    for name, entries in states.items():
        show = _SHOWN.get(name)
        if name == CONTENTS:
            for _, key, windows in entries:
                names = shown_as.get(key, {})
                for window, accumulator in windows.items():
                    yield WINDOW_CONTENTS, key, names.get(window, window), accumulator
        elif name in _BUFFERS:
            kept = list(entries)
            if any(namespace is None for namespace, _, _ in kept):  # a join of SQL, which has no buckets
                yield from ((name, key, None, entry) for _, key, entry in kept)
            else:
                yield from _buffered(_BUFFERS[name], kept)
        elif name != MERGED:
            for namespace, key, entry in entries:
                yield from [(name, key, namespace, entry)] if show is None else show(namespace, key, entry)


def _windows_of_contents(entries: Iterable[tuple[Any, Any, Any]]) -> Iterator[tuple[Any, dict[Any, Any]]]:
    """Yield by key which window contents belong to: windows that have merged go by their own name."""
    for _, key, merged in entries:
        yield key, {state_window: window for window, state_window in merged.items()}


def _pane(start: int, key: Any, accumulator: Any) -> Iterator[OwnEntry]:
    yield WINDOW_CONTENTS, key, WindowStart(start), accumulator


def _sessions(_: None, key: Any, sessions: list[tuple[int, int, Any, bool]]) -> Iterator[OwnEntry]:
    for start, end, accumulator, _fired in sessions:
        yield WINDOW_CONTENTS, key, TimeWindow(start, end), accumulator


def _counted(_: None, key: Any, entry: Any) -> Iterator[OwnEntry]:
    """Show [number, records, accumulator], or (records, accumulators of the open windows).

    Of the latter it is not known how many came before: they are numbered from the oldest that is open, 0.
    """
    if isinstance(entry, tuple):
        for place, accumulator in enumerate(entry[1]):
            yield WINDOW_CONTENTS, key, place, accumulator
    elif entry[1]:
        yield WINDOW_CONTENTS, key, CountWindow(entry[0]), entry[2]


def _buffered(name: str, entries: Iterable[tuple[Any, Any, Any]]) -> Iterator[OwnEntry]:
    """Show what a join waits with for each key: it is kept in buckets, which say nothing to a program."""
    by_key: defaultdict[Any, list[tuple[int, Any]]] = defaultdict(list)
    for _, key, cell in sorted(entries, key=itemgetter(0)):
        by_key[key] += cell
    for key, records in by_key.items():
        yield name, key, None, records


_BUFFERS = {LEFT: JOIN_LEFT, RIGHT: JOIN_RIGHT}
"""How buffers of interval joins are shown, by name."""
_SHOWN: dict[str, Callable[[Any, Any, Any], Iterator[OwnEntry]]] = {
    PANES: _pane,
    SLICES: _pane,
    SESSIONS: _sessions,
    COUNTS: _counted,
}
"""How entries are shown, by name; those of windows of any kind need `MERGED` besides."""
