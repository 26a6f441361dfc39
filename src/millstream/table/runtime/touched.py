"""Which slots changed since a checkpoint, also when slots are numbered anew."""

from __future__ import annotations

from typing import Any

import numpy as np

from millstream.operators.columnar.touched_slots import TouchedSlots

__all__ = ["Touched"]


class Touched(TouchedSlots):
    """Slots that may have changed since the last checkpoint."""

    def __init__(self) -> None:
        super().__init__(known=False)

    def keep(self, slots: Any) -> None:
        """Have some slots only, numbered anew in the order given."""
        if not self.known:
            return
        touched = np.zeros(max(len(slots), 1), bool)
        there = slots < len(self._touched)
        touched[: len(slots)][there] = self._touched[slots[there]]
        self._touched = touched

    def begin_again(self) -> None:
        """Have the next checkpoint be whole."""
        self.known = False
        self._touched = np.zeros(0, bool)
