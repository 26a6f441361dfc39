"""Patterns that replace each other: the one that counts, and those whose time is to come."""

from __future__ import annotations

from bisect import insort
from typing import Any

import cloudpickle

from millstream.operators.patterns.parts import PatternSpec

__all__ = ["Replacements"]


class Replacements:
    """Which pattern counts when; every subtask is told the same.

    Args:
        first: The pattern to begin with; None for none.

    Attributes:
        current: The pattern that counts; None if there is none yet.
    """

    def __init__(self, first: PatternSpec | None) -> None:
        self.current = first
        # Conditions that are open may refer to what cannot be pickled, so checkpoints have patterns as they came.
        self._pickled: bytes | None = None
        self._coming: list[tuple[int, int, bytes]] = []
        self._count = 0

    def add(self, time_ms: int, pattern: PatternSpec) -> None:
        """Add a pattern that counts from a time on; the later one of the same time replaces the other."""
        self._count += 1
        insort(self._coming, (time_ms, self._count, cloudpickle.dumps(pattern)))

    def next_due(self, time_ms: int) -> tuple[int, PatternSpec] | None:
        """Return the next pattern and its time, if that is not after `time_ms`."""
        if not self._coming or self._coming[0][0] > time_ms:
            return None
        due_ms, _, pickled = self._coming[0]
        return due_ms, cloudpickle.loads(pickled)

    def pop(self) -> None:
        """Remove the next pattern: it counts now."""
        del self._coming[0]

    def take_over(self, pattern: PatternSpec) -> None:
        """Learn that a pattern counts now."""
        self._count += 1
        self._pickled = cloudpickle.dumps(pattern)
        self.current = cloudpickle.loads(self._pickled)

    def snapshot(self) -> Any:
        """Return all of it."""
        return self._count, self._pickled, list(self._coming)

    def restore(self, snapshot: Any) -> None:
        """Take over what a subtask had; of several that which had learned most."""
        count, pickled, coming = snapshot
        if count < self._count:
            return
        self._count, self._pickled, self._coming = count, pickled, list(coming)
        if pickled is not None:
            self.current = cloudpickle.loads(pickled)
