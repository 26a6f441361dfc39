"""What sliding windows come to, window after window, without combining all their slices each time.

The slices of a window are cut in two at the **turn**. Before it, each key has a stack of accumulators of "from this
slice up to the turn", the oldest slice on top; behind it, one accumulator of "from the turn to the end"::

    slices        a   b   c  |  d   e         turn behind c
    stack             bc          top for the window b..e; a..c was dropped as the window left a
                       c
    behind                     de             window b..e = bc + de

The next window drops from the stacks and adds to what is behind. When it starts behind the turn, the turn moves to
its end and the stacks are built anew. So an accumulator of a slice is combined about three times in its life,
however many windows share the slice. It is the two-stack queue of functional programming, cut by time.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

from millstream.operators.values import copy_of
from millstream.operators.windowing.folds import Fold, Pane

__all__ = ["RunningWindows"]

SlicesIn = Callable[[int, int], Iterable[int]]
"""Starts of the slices with records in `[start, end)`, in order of time."""


class RunningWindows:
    """Accumulators of windows that are asked for in order of time; derived from the slices, not part of snapshots.

    Args:
        fold: Combines accumulators.
        slices: The slices by start; those that a window has been asked for change only with `touch`.
        slices_in: Finds them.
    """

    def __init__(self, fold: Fold, slices: dict[int, Pane], slices_in: SlicesIn) -> None:
        self._merge = fold.merge
        self._slices = slices
        self._slices_in = slices_in
        self._stacks: dict[Any, list[tuple[int, Any]]] = {}
        self._behind: Pane = {}
        self._turn: int | None = None
        self._oldest = self._end = 0
        self._keys: dict[Any, None] = {}

    def window(self, start: int, end: int) -> list[tuple[Any, Any]]:
        """Return keys and accumulators of a window; the accumulators share nothing with the slices."""
        if self._turn is None or start > self._turn:
            self._move_turn(start, end)
        else:
            for slice_start in self._slices_in(self._end, end):
                self._add_behind(self._slices[slice_start])
        self._end = end
        contents = []
        gone = []
        stacks, behind, merge = self._stacks, self._behind, self._merge
        for key in self._keys:
            stack = stacks.get(key)
            while stack and stack[-1][0] < start:
                stack.pop()
            if stack:
                accumulator = copy_of(stack[-1][1])
                if key in behind:
                    accumulator = merge(accumulator, copy_of(behind[key]))
            elif key in behind:
                accumulator = copy_of(behind[key])
            else:
                gone.append(key)
                continue
            contents.append((key, accumulator))
        for key in gone:
            del self._keys[key]
            stacks.pop(key, None)
        return contents

    def touch(self, slice_start: int, key: Any) -> None:
        """Learn that a record of a key came late into a slice."""
        if self._turn is None or slice_start >= self._end:
            return
        self._keys[key] = None
        if slice_start >= self._turn:
            self._behind.pop(key, None)
            for start in self._slices_in(self._turn, self._end):
                self._add_behind_of(key, self._slices[start])
            return
        # What the stack no longer holds has left the windows; the slice itself may be older than the stack.
        stack = self._stacks[key] = []
        for start in reversed(list(self._slices_in(self._oldest, self._turn))):
            self._push(stack, start, key)

    def _move_turn(self, start: int, end: int) -> None:
        self._turn = self._end = end
        self._oldest = start
        self._behind.clear()
        self._stacks.clear()
        keys: dict[Any, None] = {}
        starts = list(self._slices_in(start, end))
        for slice_start in starts:
            keys.update(dict.fromkeys(self._slices[slice_start]))
        self._keys = keys
        self._stacks.update((key, []) for key in keys)
        for slice_start in reversed(starts):
            for key in self._slices[slice_start]:
                self._push(self._stacks[key], slice_start, key)

    def _push(self, stack: list[tuple[int, Any]], slice_start: int, key: Any) -> None:
        pane = self._slices[slice_start]
        if key in pane:
            accumulator = copy_of(pane[key])
            if stack:
                accumulator = self._merge(accumulator, copy_of(stack[-1][1]))
            stack.append((slice_start, accumulator))

    def _add_behind(self, pane: Pane) -> None:
        for key in pane:
            self._keys[key] = None
            self._add_behind_of(key, pane)

    def _add_behind_of(self, key: Any, pane: Pane) -> None:
        if key in pane:
            accumulator = copy_of(pane[key])
            if key in self._behind:
                accumulator = self._merge(self._behind[key], accumulator)
            self._behind[key] = accumulator
