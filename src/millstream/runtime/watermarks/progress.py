"""Who makes the job's watermark, and who holds it back: facts gathered from the slots' reports.

Watermarks are made at **origins**: sources, and operators of `assign_timestamps_and_watermarks`, which hide the
origins above them. An origin's subtask combines its splits, the job combines all subtasks::

    source A   subtask 0   split 0  12:30:40        job's watermark = the lowest that is not idle: 12:05:00,
               subtask 1   split 1  12:30:41        held back by split 7 of source B
    source B   subtask 0   split 7  12:05:00

Only origins above an operator that waits for event time count, if any is known to wait (event-time windows);
else all do. Pure: no clock, no log, no file; the job master's thread calls it.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from millstream.base.time import MAX_TIMESTAMP, MIN_TIMESTAMP
from millstream.common.watermark_strategy import WatermarkStrategy
from millstream.graph.job_graph import JobGraph
from millstream.graph.stream_graph import StreamNode
from millstream.operators.base import OperatorReport
from millstream.operators.split_time import SplitTime
from millstream.runtime.control.views import WatermarkFact
from millstream.runtime.watermarks.advice import advise

__all__ = ["Origin", "OriginSubtask", "WatermarkMonitor"]


@dataclass(slots=True)
class OriginSubtask:
    """What one subtask of an origin has told.

    Attributes:
        watermark_ms: The watermark it emitted last.
        splits: Its open splits.
        had_split: Whether it ever had one.
        empty_since_ms: Processing time of the last record of its last split; None as long as it had none.
    """

    watermark_ms: int = MIN_TIMESTAMP
    splits: dict[str, SplitTime] = field(default_factory=dict)
    had_split: bool = False
    empty_since_ms: int | None = None

    @property
    def finished(self) -> bool:
        """Whether it has emitted the final watermark."""
        return self.watermark_ms == MAX_TIMESTAMP

    def mark(self, split: SplitTime) -> int:
        """Return the watermark that a split counts with: a new file begins where its subtask is."""
        return max(split.watermark_ms, self.watermark_ms) if split.sequential else split.watermark_ms


@dataclass(slots=True)
class Origin:
    """An operator that makes watermarks.

    Attributes:
        node: The operator.
        strategy: How it makes them.
        is_source: Whether it reads splits.
        subtasks: All its subtasks.
    """

    node: StreamNode
    strategy: WatermarkStrategy
    is_source: bool
    subtasks: list[OriginSubtask]


class WatermarkMonitor:
    """Keeps what the slots tell of watermarks, and explains it.

    Args:
        job_graph: The job.
        started_ms: Processing time of the start.
        stall_ms: Input without progress for so long is a stall; 0 never is.
    """

    def __init__(self, job_graph: JobGraph, *, started_ms: int = 0, stall_ms: int = 10_000) -> None:
        self._started_ms = started_ms
        self._stall_ms = stall_ms
        self.origins = {
            node.id: origin
            for vertex in job_graph.vertices
            for node in vertex.nodes
            if (origin := _origin(node)) is not None
        }
        self._window_sizes = _window_sizes(job_graph)
        self._counted = _counted_origins(job_graph, self.origins, self._window_sizes)
        self._event_timers = False
        self._held: Mapping[tuple[int, int], frozenset[str]] = {}
        self._watermark_ms = MIN_TIMESTAMP
        self._waiting_since_ms: int | None = None
        self._warned = False

    @property
    def watermark_ms(self) -> int:
        """The job's watermark: the lowest of the origins that count and are not idle."""
        return self._watermark_ms

    def record(self, subtask: int, node_id: int, report: OperatorReport) -> None:
        """Take what one operator of one subtask told at the end of an epoch."""
        origin = self.origins.get(node_id)
        if origin is None:
            return
        told = origin.subtasks[subtask]
        for split in report.splits:
            told.had_split = True
            if split.finished:
                told.splits.pop(split.split_id, None)
                told.empty_since_ms = split.last_record_ms
            else:
                told.splits[split.split_id] = split
        if report.made_watermark_ms is not None:
            told.watermark_ms = report.made_watermark_ms

    def hold(self, held: Mapping[tuple[int, int], frozenset[str]]) -> None:
        """Learn which splits, by node id and subtask, alignment holds back in the epoch that begins."""
        self._held = held

    def observe(self, now_ms: int, *, has_input: bool, event_timers: bool) -> WatermarkFact | None:
        """Look at the job's watermark after an epoch, all of whose reports were recorded.

        Args:
            now_ms: The epoch's processing time.
            has_input: Whether sources read anything.
            event_timers: Whether event-time timers wait.

        Returns:
            Who holds the watermark back, if records have come for the stall time while it stood still and
            somebody waits for it; once for each stall.
        """
        self._event_timers = event_timers
        watermark_ms = min((mark for mark, idle in self._marks(now_ms) if not idle), default=MIN_TIMESTAMP)
        if watermark_ms > self._watermark_ms:
            self._watermark_ms = watermark_ms
            self._waiting_since_ms, self._warned = None, False
            return None
        if not has_input:
            return None
        if self._waiting_since_ms is None:
            self._waiting_since_ms = now_ms
        stalled = self._stall_ms and now_ms - self._waiting_since_ms >= self._stall_ms
        if not stalled or self._warned or not self._is_waited_for():
            return None
        self._warned = True
        return next((fact for fact in self.explain(now_ms) if fact.holds_back), None)

    def explain(self, now_ms: int) -> list[WatermarkFact]:
        """Return a fact for each split (or subtask without any): those that hold the watermark back first.

        Args:
            now_ms: Processing time, to tell since when.
        """
        facts = list(self._facts(now_ms))
        active = [fact.at_ms for fact in facts if not fact.idle]
        lowest, highest = min(active, default=MIN_TIMESTAMP), max(active, default=MIN_TIMESTAMP)
        explained = [
            advise(
                fact,
                self.origins[fact.node_id].strategy,
                is_source=self.origins[fact.node_id].is_source,
                holds_back=not fact.idle and fact.at_ms == lowest and lowest != MAX_TIMESTAMP,
                ahead_ms=highest,
                smallest_window_ms=min(self._window_sizes.values(), default=None),
                started_ms=self._started_ms,
                now_ms=now_ms,
            )
            for fact in facts
        ]
        return sorted(explained, key=lambda fact: (not fact.holds_back, fact.idle, fact.at_ms))

    def _is_waited_for(self) -> bool:
        """Whether windows or timers wait, or a strategy is set for records that have timestamps."""
        if self._window_sizes or self._event_timers:
            return True
        return any(
            origin.strategy.generator is not None and split.stamped
            for origin in self._counting()
            for subtask in origin.subtasks
            for split in subtask.splits.values()
        )

    def _counting(self) -> Iterable[Origin]:
        return (self.origins[node_id] for node_id in self._counted)

    def _marks(self, now_ms: int) -> Iterable[tuple[int, bool]]:
        """Yield watermark and idleness of all splits, and of subtasks without any; called in every epoch."""
        for origin in self._counting():
            for subtask in origin.subtasks:
                if subtask.finished:
                    continue
                if not subtask.splits:
                    yield subtask.watermark_ms, self._is_idle(origin, subtask, now_ms)
                for split in subtask.splits.values():
                    yield subtask.mark(split), split.idle

    def _is_idle(self, origin: Origin, subtask: OriginSubtask, now_ms: int) -> bool:
        timeout_ms = origin.strategy.idle_timeout_ms
        since_ms = self._started_ms if subtask.empty_since_ms is None else subtask.empty_since_ms
        return timeout_ms is not None and now_ms - since_ms >= timeout_ms

    def _facts(self, now_ms: int) -> Iterable[WatermarkFact]:
        for origin in self._counting():
            for index, subtask in enumerate(origin.subtasks):
                if subtask.finished:
                    continue
                held = self._held.get((origin.node.id, index), frozenset())
                if not subtask.splits:
                    idle = self._is_idle(origin, subtask, now_ms)
                    yield _fact_without_split(origin, index, subtask, idle=idle)
                for split in subtask.splits.values():
                    yield _fact_of_split(origin, index, subtask, split, aligned=split.split_id in held)


def _fact_without_split(origin: Origin, index: int, subtask: OriginSubtask, *, idle: bool) -> WatermarkFact:
    return WatermarkFact(
        node_id=origin.node.id,
        operator=origin.node.name,
        subtask=index,
        split=None,
        watermark_ms=None if subtask.watermark_ms == MIN_TIMESTAMP else subtask.watermark_ms,
        idle=idle,
    )


def _fact_of_split(
    origin: Origin, index: int, subtask: OriginSubtask, split: SplitTime, *, aligned: bool
) -> WatermarkFact:
    watermark_ms = subtask.mark(split)
    return WatermarkFact(
        node_id=origin.node.id,
        operator=origin.node.name,
        subtask=index,
        split=split.split_id or None,
        watermark_ms=None if watermark_ms == MIN_TIMESTAMP else watermark_ms,
        event_time_ms=None if split.max_timestamp_ms == MIN_TIMESTAMP else split.max_timestamp_ms,
        last_record_ms=split.last_record_ms,
        advanced_ms=split.advanced_ms,
        idle=split.idle,
        stamped=split.stamped,
        held_by_alignment=aligned,
    )


def _origin(node: StreamNode) -> Origin | None:
    strategy = node.spec.watermark_strategy
    if strategy is None:
        return None
    subtasks = [OriginSubtask() for _ in range(node.parallelism)]
    return Origin(node, strategy, node.spec.is_source, subtasks)


def _window_sizes(job_graph: JobGraph) -> dict[int, int]:
    """Return the size of the windows of each operator with event-time windows; sessions by their gap, else 0."""
    return {
        node.id: node.spec.waits_ms
        for vertex in job_graph.vertices
        for node in vertex.nodes
        if node.spec.waits_ms is not None
    }


def _counted_origins(
    job_graph: JobGraph, origins: Mapping[int, Origin], waiting: Mapping[int, int]
) -> list[int]:
    """Return the origins whose watermarks reach an operator that waits, or the end of the graph."""
    inputs: dict[int, list[int]] = {}
    readers: set[int] = set()
    chained = [edge for vertex in job_graph.vertices for edge in vertex.chained]
    for edge in [*chained, *(exchange.edge for exchange in job_graph.edges)]:
        inputs.setdefault(edge.target, []).append(edge.source)
        readers.add(edge.source)
    nodes = [node.id for vertex in job_graph.vertices for node in vertex.nodes]
    ends = list(waiting) or [node_id for node_id in nodes if node_id not in readers]
    found, seen, todo = set(), set(ends), list(ends)
    while todo:
        node_id = todo.pop()
        if node_id in origins:
            found.add(node_id)
            continue
        for source in inputs.get(node_id, ()):
            if source not in seen:
                seen.add(source)
                todo.append(source)
    return sorted(found)
