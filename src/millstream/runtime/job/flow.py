"""How much each source is asked for in an epoch, and how long subtasks may take: one decision for each region.

A region is what exchanges records, directly or not. A slow function holds back the sources whose records come to it;
those of other regions of the job go on at their own pace, in the same epochs::

    region    pressure high?   its sources             its epoch size
    1         yes              wait                    as it was
    2         no               are asked for `budget`  learns from what the epoch took without the other regions

Functions import modules when they first need them, in the first epochs: what those took says nothing of the next.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence

from millstream.graph.epoch_plan import EpochPlan
from millstream.operators.budget import EpochLimits
from millstream.runtime.job.pacing import EpochSizer
from millstream.runtime.job.pressure import Pressure
from millstream.runtime.job.settings import JobSettings
from millstream.runtime.protocol.report import SlotReport

__all__ = ["FlowControl"]

_MOST_IMPORTING = 10


class FlowControl:
    """The sizes and the pressure of the regions of one attempt; the job master's thread calls it.

    Args:
        plan: What runs.
        settings: How long and how large epochs are.
        restored: Whether the attempt begins with a checkpoint: it may hold records, and nothing is read before they
            are processed.
    """

    def __init__(self, plan: EpochPlan, settings: JobSettings, *, restored: bool) -> None:
        self._settings = settings
        self._region_of_source = {
            vertex.head.id: plan.region_of(vertex.id)
            for vertex in plan.job_graph.vertices
            if vertex.is_source
        }
        self._pressure = [Pressure(unknown=restored) for _ in plan.regions]
        self._sizers = [
            EpochSizer(
                settings.epoch_target_ms,
                settings.epoch_min_records,
                settings.epoch_max_records,
                settings.epoch_fixed_records,
            )
            for _ in plan.regions
        ]
        self._importing = 0

    def budgets(self) -> Mapping[int, int | None]:
        """Return how many records each subtask of a source is to read, by node id; None if the source waits."""
        return {
            node_id: None if self._pressure[region].is_high else self._sizers[region].budget
            for node_id, region in self._region_of_source.items()
        }

    def limits(self) -> tuple[EpochLimits, ...]:
        """Return what limits the work of each subtask, by region."""
        settings = self._settings
        return tuple(
            EpochLimits(sizer.limit_ms, settings.epoch_max_bytes, settings.epoch_hold_after)
            for sizer in self._sizers
        )

    def learn(self, reports: Sequence[SlotReport], *, took_ms: float, backlogged: Collection[int]) -> None:
        """Learn how an epoch went.

        Args:
            reports: Of all slots.
            took_ms: How long it took, milliseconds, without the writing of a checkpoint.
            backlogged: Node ids of the sources that had more to read; what did not read says nothing of sizes.
        """
        before = self._pressure
        slots = [report.backlogs or (None,) * len(before) for report in reports]
        self._pressure = [
            Pressure.of([each for each in of_slots if each is not None])
            for of_slots in zip(*slots, strict=True)
        ]
        if any(report.imported for report in reports) and self._importing < _MOST_IMPORTING:
            self._importing += 1
            return
        for region, (was, now) in enumerate(zip(before, self._pressure, strict=True)):
            if was.is_high:
                continue
            others_ms = sum(each.busy_ms for other, each in enumerate(self._pressure) if other != region)
            self._sizers[region].observe(
                took_ms=max(took_ms - others_ms, now.busy_ms),
                backlog=any(self._region_of_source[node_id] == region for node_id in backlogged),
                begun=now.begun,
                held=now.held,
                busy_ms=now.busy_ms,
            )

    @property
    def is_busy(self) -> bool:
        """Whether there is something to go on with, though nothing is read."""
        return any(each.is_busy for each in self._pressure)

    @property
    def is_suspended(self) -> bool:
        """Whether anything was left in the middle of a record: no slot can write its state then."""
        return any(each.suspended is not None for each in self._pressure)

    @property
    def has_ended(self) -> bool:
        """Whether all input has come and is processed."""
        return all(each.ended for each in self._pressure)
