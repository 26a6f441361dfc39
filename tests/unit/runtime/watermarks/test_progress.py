"""Who holds the watermark back: facts, advice, the warning, alignment."""

from __future__ import annotations

import logging
from collections import defaultdict

import pytest

from millstream.base.clock import ManualClock
from millstream.base.time import MAX_TIMESTAMP, MIN_TIMESTAMP
from millstream.common import Duration, WatermarkStrategy
from millstream.graph.job_graph import build_job_graph
from millstream.graph.stream_graph import build_stream_graph
from millstream.graph.transformation import Edge, Transformation
from millstream.operators.base import OperatorReport
from millstream.operators.column_watermarks import TableWatermarks
from millstream.operators.source import SourceSpec
from millstream.operators.split_time import SplitTime
from millstream.operators.watermarks import WatermarksSpec
from millstream.runtime.control.codec import to_plain
from millstream.runtime.control.views import WatermarkFact
from millstream.runtime.job.sources import SourceCoordinator
from millstream.runtime.protocol.report import SlotReport
from millstream.runtime.watermarks.advice import advise
from millstream.runtime.watermarks.alignment import SplitAligner
from millstream.runtime.watermarks.progress import WatermarkMonitor
from millstream.runtime.watermarks.watch import WatermarkWatch
from millstream.spi.source import (
    Boundedness,
    PlanRequest,
    RangeEnd,
    Source,
    SourcePlan,
    SplitEnumerator,
    SplitRange,
)

SECOND = 1_000
MINUTE = 60_000
BOUNDED = WatermarkStrategy.for_bounded_out_of_orderness(Duration.of_seconds(10))
IDLE_AFTER_A_MINUTE = BOUNDED.with_idleness(Duration.of_minutes(1))
DECLARED = WatermarkStrategy(TableWatermarks())
ALIGNED = BOUNDED.with_watermark_alignment("g", Duration.of_seconds(20))


class Planned(Source, SplitEnumerator):
    """Plans the same ranges always; heeds nobody, so the coordinator has to."""

    def __init__(self, plan=SourcePlan()):
        self.plan_always = plan
        self.requests: list[PlanRequest] = []

    def get_boundedness(self):
        return Boundedness.CONTINUOUS_UNBOUNDED

    def build_enumerator(self, parallelism, restored):
        return self

    def build_reader(self, subtask_index, parallelism):
        raise NotImplementedError

    def plan(self, request):
        self.requests.append(request)
        return self.plan_always

    def advance(self, ends):
        pass

    def snapshot(self):
        return None


def graph_of(*transformations, parallelism=1):
    return build_job_graph(build_stream_graph(transformations, parallelism=parallelism, max_parallelism=128))


def sources(*strategies, parallelism=1, plans=()):
    planned = [Planned(*plans[index : index + 1]) for index in range(len(strategies))]
    graph = graph_of(
        *(
            Transformation(number, f"Source {number}", SourceSpec(source, strategy))
            for number, (source, strategy) in enumerate(zip(planned, strategies, strict=True), 1)
        ),
        parallelism=parallelism,
    )
    return graph, planned


def told(*splits: SplitTime, made: int | None = None, records: int = 0) -> OperatorReport:
    ends = [RangeEnd("any", None, False, records)] if records else []
    return OperatorReport(splits=list(splits), made_watermark_ms=made, range_ends=ends)


def split(name, watermark, now=0, *, stamped=True, event_time=None, advanced=None, idle=False, **more):
    largest = watermark + 10_001 if event_time is None else event_time
    when = now if advanced is None else advanced
    return SplitTime(name, watermark, largest, now, when, idle, stamped, **more)


def observe(monitor, now_ms, *, has_input=True, event_timers=False):
    return monitor.observe(now_ms, has_input=has_input, event_timers=event_timers)


def test_lowest_split_that_is_not_idle_holds_the_watermark_back():
    graph, _ = sources(BOUNDED, BOUNDED)
    monitor = WatermarkMonitor(graph)
    monitor.record(0, 1, told(split("a", 100_000, now=50), split("b", 5_000, now=40), made=5_000))
    monitor.record(0, 2, told(split("c", 1_000, idle=True), split("d", 90_000), made=90_000))
    observe(monitor, 60)
    assert monitor.watermark_ms == 5_000
    facts = monitor.explain(60)
    assert [fact.split for fact in facts] == ["b", "d", "a", "c"]
    assert [fact.holds_back for fact in facts] == [True, False, False, False]
    first = facts[0]
    assert (first.operator, first.subtask, first.since_ms, first.behind_ms) == ("Source 1", 0, 40, 95_000)


def test_subtask_that_has_ended_holds_nothing_back_and_is_not_shown():
    graph, _ = sources(BOUNDED, BOUNDED)
    monitor = WatermarkMonitor(graph)
    monitor.record(0, 1, told(split("a", 5_000, finished=True), made=MAX_TIMESTAMP))
    monitor.record(0, 2, told(split("b", 9_000)))
    observe(monitor, 1)
    assert monitor.watermark_ms == 9_000
    assert [fact.split for fact in monitor.explain(1)] == ["b"]


def test_operator_that_makes_watermarks_hides_the_sources_above_it():
    source = Transformation(1, "Source", SourceSpec(Planned(), WatermarkStrategy.no_watermarks()))
    assign = Transformation(2, "Timestamps", WatermarksSpec(BOUNDED), [Edge(source)])
    monitor = WatermarkMonitor(graph_of(source, assign, parallelism=2))
    monitor.record(0, 2, told(split("", 7_000), made=7_000))
    observe(monitor, 1)
    facts = monitor.explain(1)
    assert [(fact.operator, fact.subtask, fact.split) for fact in facts] == [
        ("Timestamps", 1, None),
        ("Timestamps", 0, None),
    ]
    assert monitor.watermark_ms == MIN_TIMESTAMP


def advice(strategy, *splits, now_ms=20 * SECOND, others=()):
    """Return reason and hint of the split that holds back."""
    graph, _ = sources(strategy, *(BOUNDED for _ in others))
    monitor = WatermarkMonitor(graph)
    monitor.record(0, 1, told(*splits))
    for number, other in enumerate(others, 2):
        monitor.record(0, number, told(other))
    observe(monitor, now_ms)
    (fact,) = [fact for fact in monitor.explain(now_ms) if fact.holds_back]
    return fact.reason or "", fact.hint or ""


@pytest.mark.parametrize(
    ("strategy", "splits", "others", "reason", "hint"),
    [
        (
            WatermarkStrategy.no_watermarks(),
            [split("a", MIN_TIMESTAMP, event_time=5)],
            [],
            "makes no watermarks",
            "for_bounded_out_of_orderness",
        ),
        (BOUNDED, [], [], "had nothing to read", "lower its parallelism"),
        (IDLE_AFTER_A_MINUTE, [], [], "had nothing to read", "idle 1 min after"),
        (
            BOUNDED,
            [split("a", MIN_TIMESTAMP, stamped=False, event_time=MIN_TIMESTAMP)],
            [],
            "no timestamps",
            "with_timestamp_assigner",
        ),
        (BOUNDED, [split("a", 1, now=2 * SECOND)], [], "no record for 18 s", "with_idleness"),
        (BOUNDED, [SplitTime("a")], [], "no record yet", "with_idleness"),
        (IDLE_AFTER_A_MINUTE, [split("a", 1, now=2 * SECOND)], [], "for 18 s", "idle after 1 min"),
        (
            BOUNDED,
            [split("a", 5, now=20 * SECOND, event_time=1_700_000_000_000_000)],
            [],
            "is in the future",
            "milliseconds since 1970",
        ),
        (
            BOUNDED,
            [split("a", 5, now=20 * SECOND)],
            [split("b", 10 * MINUTE)],
            "lags behind others by 10 min",
            "with_watermark_alignment",
        ),
        (ALIGNED, [split("a", 5, now=20 * SECOND)], [split("b", 10 * MINUTE)], "lags", "parallelism"),
        (
            BOUNDED,
            [split("a", 5, now=20 * SECOND, advanced=9 * SECOND)],
            [],
            "none later than 1970-01-01 00:00:10.006",
            "field",
        ),
        (
            WatermarkStrategy.for_generator(lambda: None),
            [split("a", 5, now=20 * SECOND, advanced=9 * SECOND)],
            [],
            "generator emits nothing",
            "on_periodic_emit",
        ),
        (DECLARED, [], [], "had nothing to read", "scan.parallelism"),
        (
            DECLARED,
            [split("a", MIN_TIMESTAMP, stamped=False, event_time=MIN_TIMESTAMP)],
            [],
            "is NULL",
            "WATERMARK FOR",
        ),
        (
            DECLARED,
            [split("a", 1, now=2 * SECOND)],
            [],
            "no record for 18 s",
            "table.exec.source.idle-timeout",
        ),
        (
            DECLARED,
            [split("a", 5, now=20 * SECOND, event_time=1_700_000_000)],
            [],
            "as seconds it is 2023-11-14",
            "TO_TIMESTAMP_LTZ(seconds, 0)",
        ),
        (
            DECLARED,
            [split("a", 5, now=20 * SECOND, event_time=1_700_000_000_000_000)],
            [],
            "is in the future",
            "TO_TIMESTAMP_LTZ(n, 3)",
        ),
        (DECLARED, [split("a", 5, now=20 * SECOND)], [split("b", 10 * MINUTE)], "lags", "more parallelism"),
        (
            DECLARED,
            [split("a", 5, now=20 * SECOND, advanced=9 * SECOND)],
            [],
            "none later than 1970-01-01 00:00:10.006",
            "WATERMARK FOR",
        ),
    ],
)
def test_every_cause_has_its_advice(strategy, splits, others, reason, hint):
    found_reason, found_hint = advice(strategy, *splits, others=others)
    assert reason in found_reason
    assert hint in found_hint


def test_bound_that_is_larger_than_the_windows_is_told_of():
    hour = WatermarkStrategy.for_bounded_out_of_orderness(Duration.of_hours(1))
    found = advise(
        WatermarkFact(1, "Source", 0, "a", 5, 3_600_006, 20 * SECOND, 20 * SECOND, stamped=True),
        hour,
        is_source=True,
        holds_back=True,
        ahead_ms=5,
        smallest_window_ms=MINUTE,
        started_ms=0,
        now_ms=20 * SECOND,
    )
    assert found.reason == "it trails its records by 1 h, more than a window of 1 min"
    assert "allowed_lateness" in (found.hint or "")


def test_split_that_goes_on_as_it_should_gets_no_advice():
    assert advice(BOUNDED, split("a", 5, now=20 * SECOND)) == ("", "")


def stalled(monitor, *, from_s, to_s, has_input=True, event_timers=False):
    """Let seconds pass; return those in which a stall was found."""
    return [
        second
        for second in range(from_s, to_s + 1)
        if observe(monitor, second * SECOND, has_input=has_input, event_timers=event_timers) is not None
    ]


def test_stall_is_told_once_after_ten_seconds_of_input_without_progress():
    graph, _ = sources(BOUNDED)
    monitor = WatermarkMonitor(graph)
    monitor.record(0, 1, told(split("a", 5)))
    observe(monitor, 0)
    assert stalled(monitor, from_s=1, to_s=30) == [11]
    monitor.record(0, 1, told(split("a", 6)))
    assert stalled(monitor, from_s=31, to_s=60) == [42]


def test_time_without_input_is_no_stall():
    graph, _ = sources(BOUNDED)
    monitor = WatermarkMonitor(graph)
    monitor.record(0, 1, told(split("a", 5)))
    observe(monitor, 0)
    assert stalled(monitor, from_s=1, to_s=60, has_input=False) == []
    assert stalled(monitor, from_s=61, to_s=75) == [71]


def test_nobody_is_warned_if_nobody_waits_for_event_time():
    graph, _ = sources(WatermarkStrategy.no_watermarks())
    monitor = WatermarkMonitor(graph)
    monitor.record(0, 1, told(split("a", MIN_TIMESTAMP, stamped=True)))
    assert stalled(monitor, from_s=0, to_s=60) == []
    assert stalled(monitor, from_s=61, to_s=75, event_timers=True) == [61]


def test_strategy_of_records_without_timestamps_is_no_reason_to_warn():
    """PyFlink's word count gives its file source such a strategy and never asks for event time."""
    graph, _ = sources(WatermarkStrategy.for_monotonous_timestamps())
    monitor = WatermarkMonitor(graph)
    monitor.record(0, 1, told(split("a", MIN_TIMESTAMP, stamped=False)))
    assert stalled(monitor, from_s=0, to_s=60) == []


def test_stall_time_of_zero_never_warns():
    graph, _ = sources(BOUNDED)
    monitor = WatermarkMonitor(graph, stall_ms=0)
    monitor.record(0, 1, told(split("a", 5)))
    assert stalled(monitor, from_s=0, to_s=60) == []


def watch(*, batch=False):
    graph, _ = sources(BOUNDED, BOUNDED)
    clock = ManualClock(0)
    return WatermarkWatch(
        WatermarkMonitor(graph), job_id="j", job_name="n", batch=batch, clock=clock, publish=lambda view: None
    )


def feed(watching):
    for second in range(15):
        busy = split("a", 60_000 + second, now=second * SECOND)
        report = SlotReport(0, second, [(1, told(busy, records=5))])
        if second == 0:
            report.operators.append((2, told(split("b", 2_000))))
        watching.record([report], second * SECOND)


def test_warning_names_the_split_since_when_and_what_to_configure(caplog):
    with caplog.at_level(logging.WARNING, logger="millstream"):
        feed(watch())
    (record,) = caplog.records
    assert record.name == "millstream"
    line, hint = record.getMessage().splitlines()
    assert line == (
        'watermark stands at 1970-01-01 00:00:02 for 11 s, held back by split "b" (subtask 0 of "Source 2"): '
        "it has given no record for 11 s"
    )
    assert hint.startswith("Hint: Add .with_idleness(")


def test_batch_mode_warns_of_nothing(caplog):
    with caplog.at_level(logging.WARNING, logger="millstream"):
        feed(watch(batch=True))
    assert caplog.records == []


def test_document_round_trips_to_facts():
    watching = watch()
    feed(watching)
    document = to_plain(watching.view())
    assert (document["job_id"], document["name"], document["epoch"]) == ("j", "n", 14)
    facts = [WatermarkFact(**fact) for fact in document["facts"]]
    assert [(fact.split, fact.holds_back) for fact in facts] == [("b", True), ("a", False)]


# Alignment


def ranges(*split_ids, sequential=False):
    return [SplitRange(split_id, None, sequential=sequential) for split_id in split_ids]


def planned(coordinator, now_ms=0):
    """Return what is read, by node and subtask, and what is held."""
    work = coordinator.plan(defaultdict(lambda: 10), now_ms=now_ms, drain=False)
    return {
        (node, slot): ("".join(each.split_id for each in found.ranges), "".join(sorted(found.held)))
        for slot, nodes in work.by_slot.items()
        for node, found in nodes.items()
    }


def aligned(*strategies, plans, parallelism=1):
    graph, planning = sources(*strategies, plans=plans, parallelism=parallelism)
    monitor = WatermarkMonitor(graph)
    return monitor, SourceCoordinator(graph, SplitAligner(monitor)), planning


def test_splits_beyond_the_drift_get_no_ranges_until_the_others_catch_up():
    """::

    drift 20 s      a 5 s      b 25 s     c 26 s
                    lowest     within     ahead: not read until a is at 6 s
    """
    monitor, coordinator, (source, _) = aligned(
        ALIGNED, ALIGNED, plans=[SourcePlan({0: ranges("a", "b", "c")}), SourcePlan({0: ranges("d")})]
    )
    monitor.record(0, 1, told(split("a", 5_000), split("b", 25_000), split("c", 26_000 - 999)))
    monitor.record(0, 2, told(split("d", 25_000)))
    assert planned(coordinator) == {(1, 0): ("ab", "c"), (2, 0): ("d", "")}
    assert source.requests[-1].paused == {"c"}
    monitor.record(0, 1, told(split("a", 6_000)))
    assert planned(coordinator) == {(1, 0): ("abc", ""), (2, 0): ("d", "")}
    assert source.requests[-1].paused == frozenset()


def test_other_groups_and_sources_without_a_group_are_not_held_back():
    other = BOUNDED.with_watermark_alignment("other", Duration.of_seconds(20))
    monitor, coordinator, _ = aligned(
        ALIGNED,
        other,
        BOUNDED,
        plans=[SourcePlan({0: ranges(name)}) for name in "abc"],
    )
    monitor.record(0, 1, told(split("a", 0)))
    monitor.record(0, 2, told(split("b", MINUTE)))
    monitor.record(0, 3, told(split("c", MINUTE)))
    assert planned(coordinator) == {(1, 0): ("a", ""), (2, 0): ("b", ""), (3, 0): ("c", "")}


def test_subtask_that_is_held_back_is_not_finished_by_a_plan_that_was_cut():
    monitor, coordinator, _ = aligned(
        ALIGNED, ALIGNED, plans=[SourcePlan({0: ranges("a")}), SourcePlan({0: ranges("b")}, frozenset({0}))]
    )
    monitor.record(0, 1, told(split("a", 0)))
    monitor.record(0, 2, told(split("b", MINUTE)))
    work = coordinator.plan(defaultdict(lambda: 10), now_ms=0, drain=False)
    assert not work.newly_finished
    monitor.record(0, 1, told(split("a", MINUTE)))
    work = coordinator.plan(defaultdict(lambda: 10), now_ms=0, drain=False)
    assert work.newly_finished


@pytest.mark.parametrize(
    "release",
    [
        told(split("b", 0, idle=True)),
        told(split("b", 0, finished=True)),
        told(split("b", 0, finished=True), made=MAX_TIMESTAMP),
    ],
    ids=["idle", "split ended", "source ended"],
)
def test_split_that_is_idle_or_has_ended_holds_nobody_back(release):
    monitor, coordinator, _ = aligned(
        ALIGNED, ALIGNED, plans=[SourcePlan({0: ranges("a")}), SourcePlan({0: ranges("b")})]
    )
    monitor.record(0, 1, told(split("a", MINUTE)))
    monitor.record(0, 2, told(split("b", 0)))
    assert planned(coordinator)[1, 0] == ("", "a")
    monitor.record(0, 2, release)
    assert planned(coordinator)[1, 0] == ("a", "")


def test_source_that_has_given_nothing_yet_is_waited_for_until_it_would_be_idle():
    idle_too = ALIGNED.with_idleness(Duration.of_seconds(5))
    monitor, coordinator, _ = aligned(ALIGNED, idle_too, plans=[SourcePlan({0: ranges("a")})])
    assert planned(coordinator) == {(1, 0): ("a", "")}
    monitor.record(0, 1, told(split("a", MINUTE)))
    assert planned(coordinator, now_ms=4_999) == {(1, 0): ("", "a")}
    assert planned(coordinator, now_ms=5_000) == {(1, 0): ("a", "")}


def test_files_are_held_back_by_subtask_also_between_two_files():
    monitor, coordinator, _ = aligned(
        ALIGNED,
        ALIGNED,
        plans=[
            SourcePlan({0: ranges("f", "g", sequential=True), 1: ranges("h", sequential=True)}),
            SourcePlan({0: ranges("b")}),
        ],
        parallelism=2,
    )
    monitor.record(0, 2, told(split("b", 0)))
    monitor.record(1, 1, told(split("h", 1_000, sequential=True), made=1_000))
    monitor.record(0, 1, told(split("e", MINUTE, finished=True, sequential=True), made=MINUTE))
    assert planned(coordinator) == {(1, 1): ("h", ""), (2, 0): ("b", "")}
    monitor.record(0, 2, told(split("b", MINUTE)))
    monitor.record(1, 1, told(split("h", MINUTE, sequential=True), made=MINUTE))
    assert planned(coordinator) == {(1, 0): ("fg", ""), (1, 1): ("h", ""), (2, 0): ("b", "")}


def test_split_that_is_held_back_says_so_in_its_fact():
    monitor, coordinator, _ = aligned(
        ALIGNED, ALIGNED, plans=[SourcePlan({0: ranges("a")}), SourcePlan({0: ranges("b")})]
    )
    monitor.record(0, 1, told(split("a", MINUTE)))
    monitor.record(0, 2, told(split("b", 0)))
    planned(coordinator)
    assert {fact.split: fact.held_by_alignment for fact in monitor.explain(0)} == {"a": True, "b": False}
