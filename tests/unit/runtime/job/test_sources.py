from __future__ import annotations

from collections import defaultdict
from typing import Any

import pytest

from millstream.common.watermark_strategy import WatermarkStrategy
from millstream.graph.job_graph import build_job_graph
from millstream.graph.stream_graph import build_stream_graph
from millstream.graph.transformation import Transformation
from millstream.operators.source import SourceSpec
from millstream.runtime.job.sources import SourceCoordinator
from millstream.spi.source import (
    Boundedness,
    PlanRequest,
    RangeEnd,
    Source,
    SourcePlan,
    SourceReader,
    SplitEnumerator,
    SplitRange,
)

SPLIT = SplitRange("s", None)


class Scripted(Source, SplitEnumerator):
    """Gives one plan after the other and writes down what it was told."""

    def __init__(self, *plans: SourcePlan) -> None:
        self.plans = list(plans)
        self.requests: list[PlanRequest] = []
        self.ends: list[RangeEnd] = []
        self.closed = 0

    def get_boundedness(self) -> Boundedness:
        return Boundedness.BOUNDED

    def build_enumerator(self, parallelism: int, restored: Any | None) -> SplitEnumerator:
        return self

    def build_reader(self, subtask_index: int, parallelism: int) -> SourceReader:
        raise NotImplementedError

    def plan(self, request: PlanRequest) -> SourcePlan:
        self.requests.append(request)
        return self.plans.pop(0)

    def advance(self, ends):
        self.ends += ends

    def snapshot(self) -> Any:
        return None

    def close(self) -> None:
        self.closed += 1


def coordinate(*sources: Scripted, parallelism: int = 2) -> SourceCoordinator:
    transformations = [
        Transformation(
            number, f"source {number}", SourceSpec(source, WatermarkStrategy.no_watermarks(), None)
        )
        for number, source in enumerate(sources, 1)
    ]
    graph = build_stream_graph(transformations, parallelism=parallelism, max_parallelism=128)
    return SourceCoordinator(build_job_graph(graph))


def plan(coordinator: SourceCoordinator, *, drain: bool = False):
    return coordinator.plan(defaultdict(lambda: 10), now_ms=7, drain=drain)


def test_a_source_without_a_budget_waits_and_others_read():
    sources = [Scripted(SourcePlan({0: [SPLIT]}, backlog=True)) for _ in range(2)]
    work = coordinate(*sources).plan({1: None, 2: 10}, now_ms=7, drain=False)
    assert (work.by_slot[0][1].waits, list(work.by_slot[0][1].ranges)) == (True, [])
    assert (work.by_slot[0][2].waits, list(work.by_slot[0][2].ranges)) == (False, [SPLIT])
    assert (work.backlogged, work.all_finished) == ({2}, False)


def test_ranges_go_to_the_slots_of_their_subtasks():
    source = Scripted(SourcePlan({1: [SPLIT]}, backlog=True, next_ms=50))
    work = plan(coordinate(source))
    assert list(work.by_slot) == [1]
    assert list(work.by_slot[1][1].ranges) == [SPLIT]
    assert (work.has_ranges, work.newly_finished, work.all_finished) == (True, False, False)
    assert (work.backlogged, work.next_ms) == ({1}, 50)
    assert source.requests == [PlanRequest(2, 10, 7)]


def test_subtasks_learn_once_that_they_are_finished_and_the_source_is_asked_no_more():
    """Subtask 0 finishes in the first epoch, subtask 1 in the third."""
    done = frozenset({0})
    source = Scripted(
        SourcePlan({1: [SPLIT]}, done), SourcePlan({1: [SPLIT]}, done), SourcePlan({}, frozenset({0, 1}))
    )
    coordinator = coordinate(source)
    told = [plan(coordinator) for _ in range(4)]
    assert [sorted(work.by_slot) for work in told] == [[0, 1], [1], [1], []]
    assert [work.newly_finished for work in told] == [True, False, True, False]
    assert [work.all_finished for work in told] == [False, False, True, True]
    assert len(source.requests) == 3


def test_job_is_finished_when_all_its_sources_are():
    everything = frozenset({0, 1})
    coordinator = coordinate(
        Scripted(SourcePlan({}, everything)), Scripted(SourcePlan(), SourcePlan({}, everything))
    )
    assert [plan(coordinator).all_finished for _ in range(2)] == [False, True]


def test_draining_reads_no_more_and_finishes_every_subtask():
    source = Scripted()
    work = plan(coordinate(source), drain=True)
    assert sorted(work.by_slot) == [0, 1]
    assert all(slot[1].finished and not slot[1].ranges for slot in work.by_slot.values())
    assert work.all_finished
    assert source.requests == []


@pytest.mark.parametrize(("times", "earliest"), [((None, None), None), ((30, None), 30), ((30, 20), 20)])
def test_next_time_is_the_earliest_that_any_source_names(times, earliest):
    coordinator = coordinate(*(Scripted(SourcePlan(next_ms=time)) for time in times))
    assert plan(coordinator).next_ms == earliest


def test_positions_go_to_the_enumerator_of_their_source_and_all_are_closed():
    sources = Scripted(), Scripted()
    coordinator = coordinate(*sources)
    end = RangeEnd("s", 5, finished=False, records=5)
    coordinator.advance(2, [end])
    coordinator.close()
    assert [source.ends for source in sources] == [[], [end]]
    assert [source.closed for source in sources] == [1, 1]
