"""What the slots' reports of an epoch say, handed on to whom it concerns, and summed up."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from millstream.graph.launcher import EpochProgress
from millstream.operators.base import OperatorReport
from millstream.runtime.control.console import JobOutput
from millstream.runtime.control.views import EpochBound
from millstream.runtime.job.accumulators import JobAccumulators
from millstream.runtime.job.metrics import JobMetrics
from millstream.runtime.job.results import CollectedResults
from millstream.runtime.job.sinks import SinkCoordinator
from millstream.runtime.job.sources import EpochWork, SourceCoordinator
from millstream.runtime.protocol.report import SlotReport

__all__ = ["EpochReports", "most_held", "slowest_levels", "what_bounds"]


@dataclass(slots=True)
class _Totals:
    records_in: int = 0
    event_time_ms: int | None = None
    watermark_ms: int | None = None
    counters: dict[tuple[str, str], int] = field(default_factory=dict)


class EpochReports:
    """Takes the reports of one attempt's epochs; the job master's thread calls it.

    Args:
        names: Names of the operators by node id.
        sources: Told how far they have been read.
        sinks: Given what is to be committed.
        results: Given what is collected.
        output: Given lines and logs.
        metrics: Given what is measured.
        accumulators: Given what functions accumulated.

    Attributes:
        has_read: Whether sources have read anything since this was set to False.
        next_timer_ms: When the next processing-time timer is due; None if there is none.
        records_in: Records that sources have read.
        watermark_ms: Lowest watermark of the subtasks that have one; None before the first.
    """

    def __init__(
        self,
        names: Mapping[int, str],
        *,
        sources: SourceCoordinator,
        sinks: SinkCoordinator,
        results: CollectedResults,
        output: JobOutput,
        metrics: JobMetrics,
        accumulators: JobAccumulators,
    ) -> None:
        self._names = names
        self._sources = sources
        self._sinks = sinks
        self._results = results
        self._output = output
        self._metrics = metrics
        self._accumulators = accumulators
        self._totals = _Totals()
        self.has_read = False
        self.next_timer_ms: int | None = None

    @property
    def records_in(self) -> int:
        """Records that sources have read."""
        return self._totals.records_in

    @property
    def watermark_ms(self) -> int | None:
        """Lowest watermark of the subtasks that have one; None before the first."""
        return self._totals.watermark_ms

    def record(self, reports: Sequence[SlotReport]) -> None:
        """Take the reports of an epoch.

        Raises:
            ConfigurationError: If two operators use one name for accumulators of different classes.
        """
        for report in sorted(reports, key=lambda report: report.slot):
            self._output.logs(report.logs)
            for node_id, operator in report.operators:
                self._record_operator(node_id, operator)
                if operator.ranges_left_early:
                    self.has_read = True
                    self._sources.left_early(node_id, report.slot)
                self._metrics.record(node_id, report.slot, operator)
                self._accumulators.record(node_id, report.slot, self._names[node_id], operator)
        timers = [report.next_timer_ms for report in reports if report.next_timer_ms is not None]
        self.next_timer_ms = min(timers, default=None)
        marks = [report.watermark_ms for report in reports if report.watermark_ms is not None]
        self._totals.watermark_ms = min(marks, default=self._totals.watermark_ms)

    def _record_operator(self, node_id: int, report: OperatorReport) -> None:
        totals = self._totals
        if report.range_ends:
            self._sources.advance(node_id, report.range_ends)
            totals.records_in += sum(end.records for end in report.range_ends)
            # A source function is asked again and again; it has no position, so it shows whether there was anything.
            if any(end.records or end.finished or end.position is not None for end in report.range_ends):
                self.has_read = True
        if report.max_timestamp_ms is not None:
            totals.event_time_ms = max(
                totals.event_time_ms or report.max_timestamp_ms, report.max_timestamp_ms
            )
        if report.committables:
            self._sinks.stage(node_id, report.committables)
        if report.lines:
            self._output.lines(report.lines, stderr=report.stderr)
        if report.collected:
            self._results.add(node_id, report.collected)
        for name, count in report.counters.items():
            key = (self._names[node_id], name)
            totals.counters[key] = totals.counters.get(key, 0) + count

    def progress(self, epoch: int, *, elapsed_s: float, epoch_s: float) -> EpochProgress:
        """Return how far the attempt is."""
        totals = self._totals
        return EpochProgress(
            epoch=epoch,
            records_in=totals.records_in,
            event_time_ms=totals.event_time_ms,
            watermark_ms=totals.watermark_ms,
            elapsed_s=elapsed_s,
            epoch_s=epoch_s,
            counters=dict(totals.counters),
        )


def most_held(reports: Sequence[SlotReport]) -> int:
    """Return how many records wait in the subtask with the most of them."""
    return max((each.held for report in reports for each in report.backlogs), default=0)


def slowest_levels(reports: Sequence[SlotReport]) -> tuple[float, ...]:
    """Return how long the slowest slot worked on each level, milliseconds."""
    return tuple(map(max, zip(*(report.levels_ms for report in reports), strict=False)))


def what_bounds(work: EpochWork, *, held: int, last: bool) -> EpochBound:
    """Return why an epoch held no more."""
    if last:
        return "END"
    if any(each.waits for of_slot in work.by_slot.values() for each in of_slot.values()):
        return "PRESSURE"
    if held:
        return "SUBTASK_BUDGET"
    return "SOURCE_BUDGET" if work.backlogged else "INPUT"
