"""Which slots have changed since a checkpoint."""

from __future__ import annotations

from typing import Any

import numpy as np

__all__ = ["TouchedSlots"]


class TouchedSlots:
    """Slots that may have changed since the last checkpoint.

    Args:
        known: Whether all changes since then are noted here: not before the first checkpoint.
    """

    def __init__(self, *, known: bool) -> None:
        self.known = known
        self._touched = np.zeros(0, bool)

    def note(self, slots: Any, count: int) -> None:
        """Add the slots of a batch.

        Args:
            slots: The slot of each row.
            count: How many slots there are.
        """
        if not self.known:
            return
        if count > len(self._touched):
            self._touched = np.append(self._touched, np.zeros(count, bool))
        self._touched[slots] = True

    def slots(self) -> Any:
        """Return the slots."""
        return np.flatnonzero(self._touched)

    def forget(self) -> None:
        """Begin anew."""
        self._touched[:] = False
        self.known = True
