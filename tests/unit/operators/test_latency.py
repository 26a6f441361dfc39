"""Latency markers: what they measure, where they wait, and under which names it is told."""

from __future__ import annotations

import pytest

from millstream.base.clock import ManualClock
from millstream.base.errors import ConfigurationError
from millstream.config.configuration import Configuration
from millstream.datastream.functions import ProcessFunction
from millstream.metrics.groups import MetricKind
from millstream.operators.budget import EpochLimits, WorkBudget
from millstream.operators.latency import LatencyGranularity, LatencySettings, LatencyTracker
from millstream.runtime.job import launcher
from millstream.runtime.job.job_master import JobMaster
from millstream.runtime.job.settings import latency_settings
from millstream.runtime.protocol.blocks import decode_elements, encode_elements
from millstream.runtime.task.channels import ChannelId, ChannelMerger
from millstream.spi.batch import IDLE, LatencyMarker, Rows, Watermark

MARKER = LatencyMarker(1_000, "source", 3)
CHANNEL = ChannelId(0, 0)


def tracker(clock, handed_on, granularity=LatencyGranularity.OPERATOR, history_size=128):
    settings = LatencySettings(500, granularity, history_size)
    return LatencyTracker(
        settings, operator_id="map", subtask=1, now_ms=clock.now_ms, hand_on=handed_on.append
    )


def test_a_marker_tells_how_long_ago_it_was_made_and_goes_on():
    clock, handed_on = ManualClock(1_250), []
    latency = tracker(clock, handed_on)
    latency.take(MARKER)
    clock.advance(750)
    latency.take(MARKER)
    ((name, value),) = latency.collect_changes().items()
    assert handed_on == [MARKER, MARKER]
    assert name.path == (
        "latency", "source_id", "source", "operator_id", "map", "operator_subtask_index", "1", "latency",
    )  # fmt: skip
    assert name.variables == (
        ("source_id", "source"), ("operator_id", "map"), ("operator_subtask_index", "1"),
    )  # fmt: skip
    count, figures = value.value
    assert (value.kind, count, figures["min"], figures["max"]) == (MetricKind.HISTOGRAM, 2, 250, 1_000)
    assert latency.collect_changes() == {}


def test_a_clock_that_is_behind_the_sources_makes_no_negative_latency():
    latency = tracker(ManualClock(900), [])
    latency.take(MARKER)
    ((_, value),) = latency.collect_changes().items()
    assert value.value[1]["min"] == 0


def test_quantiles_are_of_the_last_markers_only():
    clock = ManualClock(1_000)
    latency = tracker(clock, [], history_size=2)
    for step_ms in (900, 50, 50):
        clock.advance(step_ms)
        latency.take(LatencyMarker(clock.now_ms() - step_ms, "source", 0))
    ((_, value),) = latency.collect_changes().items()
    assert (value.value[0], value.value[1]["max"]) == (3, 50)


@pytest.mark.parametrize(
    ("granularity", "keys"),
    [
        (LatencyGranularity.SINGLE, [()]),
        (LatencyGranularity.OPERATOR, [("a",), ("b",)]),
        (LatencyGranularity.SUBTASK, [("a", "0"), ("a", "1"), ("b", "0")]),
    ],
)
def test_granularity_says_what_a_histogram_is_of(granularity, keys):
    latency = tracker(ManualClock(0), [], granularity)
    for source, subtask in (("a", 0), ("a", 1), ("b", 0)):
        latency.take(LatencyMarker(0, source, subtask))
    sources = ("source_id", "source_subtask_index")
    found = latency.collect_changes()
    assert [tuple(value for key, value in name.variables if key in sources) for name in found] == keys
    assert sum(value.value[0] for value in found.values()) == 3


def test_a_source_emits_one_in_an_interval():
    clock, handed_on = ManualClock(0), []
    latency = tracker(clock, handed_on)
    for now_ms in (0, 100, 499, 500, 900, 1_000):
        clock.advance(now_ms - clock.now_ms())
        latency.emit_if_due(now_ms)
    assert [each.marked_ms for each in handed_on] == [0, 500, 1_000]
    assert latency.due_ms == 1_500


def test_an_epoch_that_comes_for_the_marker_gets_one_though_this_hosts_clock_is_behind():
    clock, handed_on = ManualClock(0), []
    latency = tracker(clock, handed_on)
    latency.emit_if_due(0)
    clock.advance(450)
    latency.emit_if_due(500)
    assert [each.marked_ms for each in handed_on] == [0, 450]


def merger(events, budget=None):
    return ChannelMerger(
        {CHANNEL: 0},
        [lambda batch: events.extend(batch.values)],
        lambda mark: events.append(f"W{mark}"),
        lambda status: events.append(status),
        budget,
        on_latency_marker=lambda marker: events.append("marker"),
    )


def test_a_marker_waits_behind_the_records_before_it():
    events: list[object] = []
    budget = WorkBudget()
    merging = merger(events, budget)
    budget.begin(EpochLimits(records=2))
    merging.run({CHANNEL: [Rows(["a", "b", "c"]), MARKER, Rows(["d"]), Watermark(5)]})
    assert events == ["a", "b"]
    budget.begin(EpochLimits())
    merging.run({})
    assert events == ["a", "b", "c", "marker", "d", "W5"]


def test_markers_are_no_part_of_checkpoints():
    merging = merger([], None)
    merging.put(CHANNEL, [Rows(["a"]), MARKER, Watermark(7)])
    _, pending = merging.snapshot()
    assert pending == {CHANNEL: [Rows(["a"]), Watermark(7)]}
    assert merging.held == 1


def test_markers_are_what_they_were_when_they_are_decoded():
    elements = [MARKER, Rows([1, 2]), MARKER, Watermark(3), IDLE]
    assert decode_elements(encode_elements(elements)) == elements


@pytest.fixture
def masters(monkeypatch):
    """All job masters that are made, in order."""
    made = []

    class Kept(JobMaster):
        def __init__(self, *arguments, **keywords):
            super().__init__(*arguments, **keywords)
            made.append(self)

    monkeypatch.setattr(launcher, "JobMaster", Kept)
    return made


class Twice(ProcessFunction):
    def process_element(self, value, ctx):
        yield value
        yield value


OPTIONS = {"metrics.latency.interval": 1, "millstream.epoch.fixed-records": 5}


def test_every_operator_behind_a_source_measures_latency_over_exchanges_too(new_environment, masters):
    environment = new_environment("local", 2, OPTIONS)
    numbers = environment.from_collection(list(range(400))).name("Numbers")
    numbers.process(Twice()).name("Twice").key_by(lambda value: value % 7).map(str).name("Text").print()
    environment.execute("job")
    found = masters[0].observer.metrics.views()
    operators = {
        each.name: each.operator_id
        for vertex in masters[0].observer._plan.vertices
        for each in vertex.operators
    }
    (source,) = (identifier for name, identifier in operators.items() if "Numbers" in name)
    latencies = [each for each in found if each.name.startswith("latency.")]
    measured = {(each.variables["operator_id"], each.subtask) for each in latencies}
    behind = {identifier for name, identifier in operators.items() if "Numbers" not in name}
    assert len(behind) >= 3
    assert {operator for operator, _ in measured} == behind
    assert {each.variables["source_id"] for each in latencies} == {source}
    assert {each.scope for each in latencies} == {"job"}
    assert all(each.value["count"] > 0 and each.value["max"] >= 0 for each in latencies)
    assert all(
        each.logical_name == "latency.source_id.operator_id.operator_subtask_index.latency"
        for each in latencies
    )
    shown = masters[0].metrics.snapshot()
    for each in latencies:
        assert shown[f"job.{each.name}_count"] == each.value["count"]


@pytest.mark.parametrize("options", [{"metrics.latency.interval": 0}, {"execution.runtime-mode": "BATCH"}])
def test_nothing_is_measured_if_nobody_asked_or_in_batch_mode(new_environment, masters, options):
    environment = new_environment("local", 1, {**OPTIONS, **options})
    environment.from_collection(list(range(20))).map(str).print()
    environment.execute("job")
    assert not [each for each in masters[0].observer.metrics.views() if "latency" in each.name]


def test_options_have_flinks_names_and_defaults():
    assert latency_settings(Configuration()) is None
    assert latency_settings(Configuration.from_dict({"metrics.latency.interval": "2 s"})) == LatencySettings(
        2_000, LatencyGranularity.OPERATOR, 128
    )
    options = {"metrics.latency.interval": "1", "metrics.latency.granularity": "task"}
    with pytest.raises(ConfigurationError, match=r"metrics\.latency\.granularity"):
        latency_settings(Configuration.from_dict(options))


def test_the_execution_config_sets_the_interval(new_environment):
    environment = new_environment("local")
    assert environment.get_config().get_latency_tracking_interval() == 0
    environment.get_config().set_latency_tracking_interval(250)
    assert environment.get_config().get_latency_tracking_interval() == 250
