"""Driver's side of a job's sources: asks the enumerators, epoch by epoch, and tells them where ranges ended."""

from __future__ import annotations

import logging
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from millstream.base.interrupts import is_interruption
from millstream.graph.job_graph import JobGraph
from millstream.graph.stream_graph import StreamNode
from millstream.runtime.protocol.report import SourceWork
from millstream.runtime.watermarks.alignment import HeldBack, SplitAligner
from millstream.spi.source import Pending, PlanRequest, RangeEnd, SourcePlan, SplitEnumerator, SplitRange

__all__ = ["EpochWork", "SourceCoordinator"]

log = logging.getLogger(__name__)


@dataclass(slots=True)
class EpochWork:
    """What all sources do in one epoch.

    Attributes:
        by_slot: Slot -> node id -> work.
        has_ranges: Whether anything is read.
        newly_finished: Whether a source subtask learns that nothing follows.
        all_finished: Whether every source subtask has learnt that by the end of this epoch.
        backlogged: Node ids of the sources that could have read more.
        next_ms: When it is worth asking again, epoch milliseconds.
    """

    by_slot: dict[int, dict[int, SourceWork]] = field(default_factory=dict)
    has_ranges: bool = False
    newly_finished: bool = False
    all_finished: bool = True
    backlogged: set[int] = field(default_factory=set)
    next_ms: int | None = None


class SourceCoordinator:
    """The enumerators of one attempt; the job master's thread calls it.

    Args:
        job_graph: The job.
        aligner: Says what is held back by watermark alignment; None for nothing.

    Raises:
        SourceError: From the constructor, if a source is not there.
    """

    def __init__(
        self,
        job_graph: JobGraph,
        aligner: SplitAligner | None = None,
        restored: Mapping[int, Any] | None = None,
    ) -> None:
        self._aligner = aligner
        self._sources: list[_CoordinatedSource] = []
        for vertex in job_graph.vertices:
            if vertex.is_source:
                self._sources.append(_CoordinatedSource(vertex.head, (restored or {}).get(vertex.head.id)))

    def positions(self) -> dict[int, Any]:
        """Return how far every source has been read, by node id: its enumerator's snapshot."""
        return {source.node.id: source.enumerator.snapshot() for source in self._sources}

    def plan(self, budgets: Mapping[int, int | None], *, now_ms: int, drain: bool) -> EpochWork:
        """Plan one epoch of all sources.

        Args:
            budgets: How many records each subtask of a source is to read, by node id; None if nothing is planned for
                the source: what it gave before is not processed yet.
            now_ms: The epoch's processing time.
            drain: Whether nothing more is read, and all sources finish.
        """
        work = EpochWork()
        held = {} if self._aligner is None else self._aligner.held_back(now_ms)
        for source in self._sources:
            max_records = budgets[source.node.id]
            if max_records is None:
                source.wait_into(work)
            else:
                source.plan_into(
                    work,
                    max_records=max_records,
                    now_ms=now_ms,
                    drain=drain,
                    held=held.get(source.node.id, _NOTHING),
                )
        return work

    def pending(self) -> dict[int, Pending]:
        """Return what waits outside to be read, by node id."""
        return {source.node.id: source.enumerator.pending() for source in self._sources}

    def advance(self, node_id: int, ends: Sequence[RangeEnd]) -> None:
        """Tell a source's enumerator where its ranges were left."""
        self._source(node_id).enumerator.advance(ends)

    def left_early(self, node_id: int, subtask: int) -> None:
        """Learn that a subtask has not read all that was planned for it: it has not finished either."""
        self._source(node_id).left_early(subtask)

    def checkpoint_completed(self, checkpoint_id: int) -> None:
        """Tell every enumerator that a checkpoint with its last snapshot is complete.

        What one raises is logged: it tells others how far the source was read, which the next one does again.
        """
        for source in self._sources:
            try:
                source.enumerator.checkpoint_completed(checkpoint_id)
            except BaseException as error:
                if is_interruption(error):
                    raise
                log.warning(
                    'source "%s" could not do what it does when checkpoint %d is complete: %s: %s',
                    source.node.name,
                    checkpoint_id,
                    type(error).__name__,
                    error,
                )

    def _source(self, node_id: int) -> _CoordinatedSource:
        return next(source for source in self._sources if source.node.id == node_id)

    def close(self) -> None:
        """Close the enumerators."""
        for source in self._sources:
            source.enumerator.close()


class _CoordinatedSource:
    def __init__(self, node: StreamNode, restored: Any | None) -> None:
        source = node.spec.reads
        assert source is not None
        self.node = node
        self.enumerator: SplitEnumerator = source.build_enumerator(node.parallelism, restored)
        # Subtasks are told anew that nothing follows: those of another attempt do not know it.
        self._finished: set[int] = set()

    def plan_into(
        self, work: EpochWork, *, max_records: int, now_ms: int, drain: bool, held: HeldBack
    ) -> None:
        node, subtasks = self.node, range(self.node.parallelism)
        if len(self._finished) == node.parallelism:
            plan = SourcePlan()
        elif drain:
            plan = SourcePlan(finished=frozenset(subtasks))
        else:
            request = PlanRequest(node.parallelism, max_records, now_ms, paused=held.split_ids)
            plan = _without(self.enumerator.plan(request), held)
        for subtask in subtasks:
            ranges = plan.ranges.get(subtask, ())
            finishes = subtask in plan.finished and subtask not in self._finished
            silenced = held.splits.get(subtask, frozenset())
            if ranges or finishes or silenced:
                work.by_slot.setdefault(subtask, {})[node.id] = SourceWork(
                    ranges, subtask in plan.finished, silenced
                )
                work.has_ranges = work.has_ranges or bool(ranges)
                work.newly_finished = work.newly_finished or finishes
        self._finished |= plan.finished
        work.all_finished = work.all_finished and len(self._finished) == node.parallelism
        if plan.backlog:
            work.backlogged.add(node.id)
        if plan.next_ms is not None:
            work.next_ms = plan.next_ms if work.next_ms is None else min(work.next_ms, plan.next_ms)

    def wait_into(self, work: EpochWork) -> None:
        for subtask in range(self.node.parallelism):
            work.by_slot.setdefault(subtask, {})[self.node.id] = SourceWork((), False, waits=True)
        work.all_finished = work.all_finished and len(self._finished) == self.node.parallelism

    def left_early(self, subtask: int) -> None:
        self._finished.discard(subtask)


_NOTHING = HeldBack({}, frozenset())


def _without(plan: SourcePlan, held: HeldBack) -> SourcePlan:
    """Return a plan without the ranges that are held back, whether or not the enumerator left them out.

    A range is planned from where its split was left, so one that is taken out comes again.
    """
    if held is _NOTHING:
        return plan
    split_ids = held.split_ids
    ranges: dict[int, Sequence[SplitRange]] = {}
    cut: set[int] = set()
    for subtask, planned in plan.ranges.items():
        kept = [
            each
            for each in planned
            if not (subtask in held.subtasks if each.sequential else each.split_id in split_ids)
        ]
        if len(kept) < len(planned):
            cut.add(subtask)
        if kept:
            ranges[subtask] = kept
    return replace(plan, ranges=ranges, finished=plan.finished - cut)
