"""How large an epoch is, and how long it may take: pure decisions, no clock.

Small while little is known or pending (latency), larger under backlog (throughput)::

    backlog?   last epoch                 budget becomes
    yes        took less than the goal    scaled up to the goal, at most x8
    yes        more than 2x the goal      scaled down to the goal
    any        left records behind        scaled down to what was done of it
    no         -                          unchanged: sources give what they have

The goal is the target duration. What an epoch costs however small it is, Spark's stages above all, is no measure of
the records: sizes follow from the time in which subtasks worked. For a job so slow that the fixed cost of an epoch
does not matter it is a quarter of that, and so is the time after which its subtasks hold what they have not come to
(`operators.budget`).
"""

from __future__ import annotations

import math
from dataclasses import dataclass

__all__ = ["EpochSizer"]

_FIRST_BUDGET = 500
_SLOW_PER_MS = 1.0
_MOST_GROWTH = 8.0


@dataclass(slots=True)
class EpochSizer:
    """Adapts the budget of records for each source subtask and epoch, and an epoch's time.

    Attributes:
        target_ms: How long an epoch shall take under backlog.
        min_records: The budget is never smaller.
        max_records: The budget is never larger: it bounds memory.
        fixed_records: Always this budget, if set.
    """

    target_ms: int
    min_records: int
    max_records: int
    fixed_records: int | None = None
    _budget: int = _FIRST_BUDGET
    _slow: bool = True

    @property
    def budget(self) -> int:
        """Records for each source subtask in the next epoch."""
        if self.fixed_records is not None:
            return self.fixed_records
        return min(max(self._budget, self.min_records), self.max_records)

    @property
    def limit_ms(self) -> int | None:
        """When subtasks begin nothing more, milliseconds after they began; None for never: the budget is fixed."""
        return None if self.fixed_records is not None else round(self._goal_ms)

    @property
    def _goal_ms(self) -> float:
        return self.target_ms / 4 if self._slow else self.target_ms

    def observe(
        self,
        *,
        took_ms: float,
        backlog: bool,
        begun: int | None = None,
        held: int = 0,
        busy_ms: float | None = None,
    ) -> None:
        """Learn how an epoch went that was planned with the present budget.

        Args:
            took_ms: How long it took, milliseconds, without the writing of a checkpoint.
            backlog: Whether sources had more to read.
            begun: Records that the subtask with the most to do has begun; None if that is not known.
            held: Records that it did not come to.
            busy_ms: How much of that time subtasks worked; None for all of it. The rest does not grow with the
                records, so it takes from the goal, half of it at most.

        >>> sizer = EpochSizer(target_ms=200, min_records=100, max_records=1_000_000)
        >>> sizer.observe(took_ms=25, backlog=True); sizer.budget
        4000
        >>> sizer.observe(took_ms=800, backlog=True); sizer.budget
        1000
        >>> sizer.observe(took_ms=200, backlog=True, begun=200, held=600); sizer.budget
        250
        >>> sizer.observe(took_ms=120, backlog=True, busy_ms=20); sizer.budget
        1250
        """
        done = self.budget if begun is None else begun
        worked_ms = took_ms if busy_ms is None else min(busy_ms, took_ms)
        self._slow = done < worked_ms * _SLOW_PER_MS
        if held:
            self._budget = int(self.budget * done / (done + held))
        elif backlog:
            goal_ms = self._goal_ms
            ratio = max(goal_ms - (took_ms - worked_ms), goal_ms / 2) / max(worked_ms, 1.0)
            if ratio > 1.0:
                self._budget = math.ceil(self.budget * min(ratio, _MOST_GROWTH))
            elif ratio < 0.5:
                self._budget = int(self.budget * ratio)
        self._budget = min(max(self._budget, self.min_records), self.max_records)
