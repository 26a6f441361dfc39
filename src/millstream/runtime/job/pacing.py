"""How large an epoch is, and how long it may take: pure decisions, no clock.

Small while little is known or pending (latency), larger under backlog (throughput)::

    backlog?   last epoch                 budget becomes
    yes        took less than the aim     scaled up to the aim, at most x8
    yes        more than 2x the aim       scaled down to the aim
    any        left records behind        scaled down to what was done of it
    no         -                          unchanged: sources give what they have

The goal is the target duration. At the goal itself subtasks begin nothing more, and where one leaves a record in the
middle, the sources of all slots wait until it is done. So budgets aim at four fifths of it: else each epoch that is a
little slower than the one before would cost another.

What an epoch costs however small it is, Spark's stages above all, is no measure of the records: sizes follow from the
time in which subtasks worked. Subtasks too may take a time that does not fall with the records, such as a sink's to
flush to a server far away: two epochs of different size tell how much that is. Were it taken for the records', budgets
would fall to one record, and the job to one record for each flush.

For a job so slow that the fixed cost of an epoch does not matter the goal is a quarter of that, and so is the time
after which its subtasks hold what they have not come to (`operators.budget`).
"""

from __future__ import annotations

import math
from dataclasses import dataclass

__all__ = ["EpochSizer"]

_FIRST_BUDGET = 500
_SLOW_PER_MS = 1.0
_MOST_GROWTH = 8.0
_AIM = 0.8
_DOUBT = 0.9


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
    _last: tuple[int, float] | None = None
    _fixed_ms: float = 0.0

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
        >>> sizer.observe(took_ms=20, backlog=True); sizer.budget
        4000
        >>> sizer.observe(took_ms=800, backlog=True); sizer.budget
        800
        >>> sizer.observe(took_ms=200, backlog=True, begun=200, held=600); sizer.budget
        200
        >>> sizer.observe(took_ms=120, backlog=True, busy_ms=20); sizer.budget
        800
        """
        done = self.budget if begun is None else begun
        worked_ms = took_ms if busy_ms is None else min(busy_ms, took_ms)
        if not held:
            self._learn_fixed(done, worked_ms)
        of_records_ms = worked_ms - min(self._fixed_ms, worked_ms)
        self._slow = done < of_records_ms * _SLOW_PER_MS
        if held:
            self._budget = int(self.budget * done / (done + held))
        elif backlog:
            goal_ms = self._goal_ms * _AIM
            ratio = max(goal_ms - (took_ms - of_records_ms), goal_ms / 2) / max(of_records_ms, 1.0)
            if ratio > 1.0:  # what was begun is no measure: operators that take a whole batch begin none
                self._budget = math.ceil(self.budget * min(ratio, _MOST_GROWTH))
            elif ratio < 0.5:
                self._budget = int(self.budget * ratio)
        self._budget = min(max(self._budget, self.min_records), self.max_records)

    def _learn_fixed(self, done: int, worked_ms: float) -> None:
        """Learn how much of the work does not grow with the records, from two epochs of which one had twice as many."""
        if self._last is None:
            self._last = done, worked_ms
            return
        before, before_ms = self._last
        if done != before and (done >= 2 * before or before >= 2 * done):
            each_ms = max((worked_ms - before_ms) / (done - before), 0.0)
            self._fixed_ms = max(min(worked_ms, before_ms) - each_ms * min(done, before), 0.0)
            self._last = done, worked_ms
        else:  # doubted more and more, until the budget changes and it is seen again
            self._fixed_ms *= _DOUBT
        self._fixed_ms = min(self._fixed_ms, worked_ms)
