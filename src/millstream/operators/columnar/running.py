"""What sliding windows come to, window after window, in a few merges of slices, whatever size / slide.

As for rows (`operators/windowing/running.py`), with whole slices instead of accumulators. The slices of a window are
cut in two at the **turn**. Before it there are merges of "from this slice up to the turn", behind it one of "from the
turn to the end"::

    slices        a   b   c  |  d   e         turn behind c
    before       abc  bc  c
    behind                     de             window b..e = bc + de

When a window begins behind the turn, the turn moves to its end. So a slice is merged about three times in its life.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from millstream.operators.columnar.groups import Groups

__all__ = ["RunningGroups"]


class RunningGroups:
    """Merges of slices; derived from them, not part of snapshots.

    Args:
        make: Makes groups without keys.
    """

    def __init__(self, make: Callable[[], Groups]) -> None:
        self._make = make
        self.forget()

    def forget(self) -> None:
        """Merge anew for the next window."""
        self._before: dict[int, Groups] = {}
        self._behind: Groups | None = None
        self._turn: int | None = None
        self._last = 0

    def touch(self, start: int) -> None:
        """Learn that a slice is to get records, or is new."""
        if self._turn is not None and start <= self._last:
            self.forget()

    def window(self, slices: Sequence[tuple[int, Groups]]) -> Groups:
        """Return what a window comes to; only to be read.

        Args:
            slices: Starts and contents of its slices, at least one, in order of time. Windows are asked for in order
                of time.
        """
        first = slices[0][0]
        if self._turn is None or first > self._turn:
            self._move_turn(slices)
            return self._before[first]
        for start, groups in slices:
            if start > self._last:
                if self._behind is None:
                    self._behind = self._make()
                self._behind.merge(groups)
        self._last = slices[-1][0]
        if self._behind is None:
            return self._before[first]
        merged = self._make()
        merged.merge(self._before[first])
        merged.merge(self._behind)
        return merged

    def _move_turn(self, slices: Sequence[tuple[int, Groups]]) -> None:
        """Let the turn be behind the last slice."""
        self._behind = None
        self._turn = self._last = slices[-1][0]
        merged = slices[-1][1]
        self._before = {self._turn: merged}
        for start, groups in reversed(slices[:-1]):
            longer = self._make()
            longer.merge(groups)
            longer.merge(merged)
            self._before[start] = merged = longer
