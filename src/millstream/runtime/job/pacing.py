"""How large an epoch is, and when the next one begins: pure decisions, no clock.

Small while little is pending (latency), larger under backlog (throughput)::

    backlog?   last epoch took      budget becomes
    yes        less than target     x2 (at most x target / took)
    yes        more than 2x target  scaled down to the target
    no         -                    unchanged: sources give what they have
"""

from __future__ import annotations

from dataclasses import dataclass

__all__ = ["EpochSizer"]


@dataclass(slots=True)
class EpochSizer:
    """Adapts the budget of records for each source subtask and epoch.

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
    _budget: int = 0

    @property
    def budget(self) -> int:
        """Records for each source subtask in the next epoch."""
        if self.fixed_records is not None:
            return self.fixed_records
        return min(max(self._budget or 20_000, self.min_records), self.max_records)

    def observe(self, *, took_ms: float, backlog: bool) -> None:
        """Learn how long an epoch took with the present budget.

        >>> sizer = EpochSizer(target_ms=200, min_records=100, max_records=1_000_000)
        >>> sizer.observe(took_ms=50, backlog=True); sizer.budget
        40000
        >>> sizer.observe(took_ms=800, backlog=True); sizer.budget
        10000
        """
        if not backlog:
            return
        ratio = self.target_ms / max(took_ms, 1.0)
        if ratio > 1.0:
            self._budget = int(self.budget * min(ratio, 2.0))
        elif ratio < 0.5:
            self._budget = int(self.budget * ratio)
        self._budget = min(max(self._budget, self.min_records), self.max_records) if self._budget else 0
