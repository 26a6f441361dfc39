"""How long state is kept: the processing time of the last access to each slot (`table.exec.state.ttl`)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from millstream.table.runtime.growing import Lane

__all__ = ["Expiry"]

_PARTS = 4


class Expiry:
    """Times of slots, or of rows; does nothing without a time to live.

    Args:
        ttl_ms: How long they are kept; None for ever.
    """

    def __init__(self, ttl_ms: int | None) -> None:
        self.ttl_ms = ttl_ms
        self._stamps = None if ttl_ms is None else Lane(np.int64)
        self._looked_ms: int | None = None

    @property
    def lane(self) -> Lane | None:
        """The times; None without a time to live."""
        return self._stamps

    def reach(self, count: int) -> None:
        """Make room for so many slots."""
        if self._stamps is not None:
            self._stamps.reach(count)

    def touch(self, slots: Any, now_ms: int) -> Any | None:
        """Note that slots are used now; return those that had expired before, None without a time to live."""
        if self._stamps is None or self.ttl_ms is None:
            return None
        stamps = self._stamps.array
        before = stamps[slots]
        stamps[slots] = now_ms
        return slots[before + self.ttl_ms <= now_ms]

    def alive(self, slots: Any, now_ms: int) -> Any | None:
        """Return whether slots have not expired; None without a time to live."""
        if self._stamps is None or self.ttl_ms is None:
            return None
        return self._stamps.array[slots] + self.ttl_ms > now_ms

    def is_due(self, now_ms: int) -> bool:
        """Return whether it is time to look for what has expired: four times in a time to live."""
        if self.ttl_ms is None:
            return False
        if self._looked_ms is not None and now_ms - self._looked_ms < max(self.ttl_ms // _PARTS, 1):
            return False
        first, self._looked_ms = self._looked_ms is None, now_ms
        return not first

    def expired(self, count: int, now_ms: int) -> Any:
        """Return the slots below a count that have expired."""
        assert self._stamps is not None and self.ttl_ms is not None
        return np.flatnonzero(self._stamps.array[:count] + self.ttl_ms <= now_ms)

    def keep(self, slots: Any) -> None:
        """Have some slots only, numbered anew in the order given."""
        if self._stamps is not None:
            self._stamps.keep(slots)

    def stamps(self, slots: Any) -> list[int | None]:
        """Return the times of slots for a checkpoint."""
        if self._stamps is None:
            return [None] * len(slots)
        return list(self._stamps.array[slots].tolist())

    def restore(self, slots: Any, stamps: Sequence[int | None]) -> None:
        """Take over times; what had none counts as used at the beginning of time, unless it never expires."""
        if self._stamps is not None:
            self._stamps.array[slots] = [0 if stamp is None else stamp for stamp in stamps]
