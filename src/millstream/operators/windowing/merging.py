"""Which windows of a key have become one: the rules of Flink's merging window sets.

Contents stay where they are when a window grows: the window that users see is mapped to the window under which
its contents are kept, its **state window**::

    record at 0, gap 3     [0, 3) -> [0, 3)
    record at 2            [0, 5) -> [0, 3)       the contents did not move
    record at 9            [0, 5) -> [0, 3)       [9, 12) -> [9, 12)
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

from millstream.base.errors import JobDefinitionError
from millstream.operators.windowing.assigner import MergingWindowAssigner

__all__ = ["Merged", "WindowSet", "add_window"]

WindowSet = dict[Any, Any]
"""Windows of a key as users see them, each with its state window."""

Merged = Callable[[Any, list[Any], Any, list[Any]], None]
"""Told of a merger: the window that results, those that it replaces, its state window, theirs (without its)."""


class _Groups(MergingWindowAssigner.MergeCallback):
    """Collects what an assigner wants merged."""

    def __init__(self) -> None:
        self.groups: list[tuple[Any, list[Any]]] = []

    def merge(self, to_be_merged: Iterable[Any], merge_result: Any) -> None:
        self.groups.append((merge_result, list(dict.fromkeys(to_be_merged))))


def add_window(assigner: MergingWindowAssigner, windows: WindowSet, new: Any, merged: Merged) -> Any:
    """Add a window to those of a key, merge what the assigner wants merged, and return what it is part of.

    Args:
        assigner: Says what merges.
        windows: The key's windows; changed.
        new: The window.
        merged: Called for each merger of windows that were there.

    Raises:
        JobDefinitionError: If the assigner names windows that are not there.
    """
    found = _Groups()
    assigner.merge_windows([*windows, new], found)
    actual = new
    absorbed = False
    for result, group in found.groups:
        if new in group:
            absorbed, actual = True, result
            if new not in windows:
                group.remove(new)
        known = [window for window in group if window in windows]
        if len(known) < len(group) or not known:
            raise JobDefinitionError(
                f"{type(assigner).__name__} merged windows that are not there: {group!r}",
                detail="merge_windows may merge the windows it was given, each once.",
            )
        state_window = windows[known[0]]
        state_windows = [windows.pop(window) for window in known]
        windows[result] = state_window
        if known != [result]:
            merged(result, known, state_window, state_windows[1:])
    if not absorbed:
        windows.setdefault(new, new)
    return actual
