"""Which keys have changed since a checkpoint, as long as they are worth knowing."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

__all__ = ["TouchedKeys", "pays"]


class TouchedKeys(set[Any]):
    """Keys that may have changed since a checkpoint, as long as they are worth knowing.

    Attributes:
        too_many: Whether they are most of those that there are: then they are not kept, and everything is written.
    """

    too_many = False

    def note(self, keys: Iterable[Any], held: int) -> None:
        """Add the keys of a batch.

        Args:
            keys: The keys.
            held: How many keys have something.
        """
        if not self.too_many:
            self.update(keys)
            if not pays(len(self), held):
                self.clear()
                self.too_many = True

    def forget(self) -> None:
        """Begin anew."""
        self.clear()
        self.too_many = False


def pays(touched: int, held: int) -> bool:
    """Return whether to write changes and not everything.

    If much of it changed, the whole is hardly longer, and a restore then reads no older files.

    Args:
        touched: How many entries the changes hold, about.
        held: How many there are.
    """
    return touched <= _ALWAYS_CHANGES or 2 * touched <= held


_ALWAYS_CHANGES = 1_000
