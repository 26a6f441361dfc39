"""Each region of a job has its own epoch size and back pressure."""

from __future__ import annotations

from millstream.common import Configuration
from millstream.graph.epoch_plan import build_epoch_plan
from millstream.graph.job_graph import build_job_graph
from millstream.graph.stream_graph import build_stream_graph
from millstream.graph.transformation import Edge, Transformation
from millstream.operators.base import Operator, OperatorSpec
from millstream.operators.partitioners import Rebalance
from millstream.runtime.job.flow import FlowControl
from millstream.runtime.job.settings import JobSettings
from millstream.runtime.protocol.report import Backlog, SlotReport

SOURCES = {1, 3}


class Spec(OperatorSpec):
    is_source = False

    def build(self) -> Operator:
        raise NotImplementedError


class SourceSpec(Spec):
    is_source = True


def two_regions(restored=False):
    transformations = []
    for first in sorted(SOURCES):
        source = Transformation(first, f"source {first}", SourceSpec(), [])
        edge = Edge(source, partitioning=Rebalance())
        transformations += [source, Transformation(first + 1, f"map {first}", Spec(), [edge])]
    graph = build_stream_graph(transformations, parallelism=2, max_parallelism=8)
    return FlowControl(
        build_epoch_plan(build_job_graph(graph)), JobSettings.of(Configuration()), restored=restored
    )


def learn(flow, *backlogs, took_ms=100.0, backlogged=SOURCES, imported=False):
    """Have two slots report; each backlog is that of both in one region; the second may have imported modules."""
    reports = [SlotReport(slot, 1, backlogs=backlogs, imported=imported and slot == 1) for slot in range(2)]
    flow.learn(reports, took_ms=took_ms, backlogged=backlogged)


def test_a_source_waits_for_those_who_process_its_records_only():
    flow = two_regions()
    before = flow.budgets()
    learn(flow, Backlog(held=90, begun=10, ended=False), Backlog(begun=1_000, ended=False))
    budgets = flow.budgets()
    assert (before[1], budgets[1]) == (before[3], None)
    assert budgets[3] is not None
    assert flow.is_busy
    learn(flow, Backlog(begun=90), Backlog(begun=1_000))
    assert None not in flow.budgets().values()
    assert not flow.is_busy
    assert flow.has_ended


def test_an_epoch_that_others_made_long_does_not_make_a_region_small():
    slow, fast = Backlog(begun=10, busy_ms=3_000.0), Backlog(begun=500, busy_ms=10.0)
    flow = two_regions()
    before = flow.budgets()
    learn(flow, slow, fast, took_ms=3_020.0)
    after = flow.budgets()
    assert after[1] < before[1]
    assert after[3] > before[3]


def test_only_sources_that_had_more_to_read_grow():
    flow = two_regions()
    before = flow.budgets()
    learn(
        flow, Backlog(begun=500, busy_ms=10.0), Backlog(begun=500, busy_ms=10.0), took_ms=20.0, backlogged={3}
    )
    after = flow.budgets()
    assert after[1] == before[1]
    assert after[3] > before[3]


def test_what_was_left_in_the_middle_of_a_record_is_told_of_any_region():
    flow = two_regions()
    learn(flow, Backlog(), Backlog(suspended="endless"))
    assert flow.is_suspended
    assert flow.budgets()[1] is not None
    assert flow.budgets()[3] is None


def test_nothing_is_read_before_what_a_checkpoint_held_is_processed():
    flow = two_regions(restored=True)
    assert set(flow.budgets().values()) == {None}
    assert flow.is_busy
    learn(flow, Backlog(), Backlog())
    assert None not in flow.budgets().values()


def test_a_slow_region_has_short_epochs_and_others_long_ones():
    flow = two_regions()
    learn(flow, Backlog(begun=2, busy_ms=200.0), Backlog(begun=100_000, busy_ms=200.0), took_ms=400.0)
    slow, fast = flow.limits()
    assert slow.time_ms < fast.time_ms


def test_epochs_in_which_modules_were_imported_say_nothing_of_sizes_but_what_they_left_is_known():
    flow = two_regions()
    before = flow.budgets()
    slow = Backlog(held=490, begun=10, busy_ms=3_000.0, ended=False)
    learn(flow, slow, slow, took_ms=3_000.0, imported=True)
    assert flow.is_busy
    assert set(flow.budgets().values()) == {None}, "what is held comes first"
    idle = Backlog(begun=490, busy_ms=5.0)
    learn(flow, idle, idle, took_ms=20.0, imported=True)
    assert flow.budgets() == before


def test_a_job_that_imports_in_every_epoch_learns_all_the_same():
    flow = two_regions()
    before = flow.budgets()
    quick = Backlog(begun=500, busy_ms=5.0)
    for _ in range(10):
        learn(flow, quick, quick, took_ms=20.0, imported=True)
    assert flow.budgets() == before
    learn(flow, quick, quick, took_ms=20.0, imported=True)
    assert flow.budgets()[1] > before[1]
