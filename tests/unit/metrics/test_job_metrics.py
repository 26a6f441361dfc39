from __future__ import annotations

from types import SimpleNamespace

import pytest

from millstream.base.clock import ManualClock
from millstream.base.time import MAX_TIMESTAMP, MIN_TIMESTAMP, Time
from millstream.common.serialization import Encoder
from millstream.common.watermark_strategy import TimestampAssigner, WatermarkStrategy
from millstream.datastream import (
    AsyncDataStream,
    AsyncFunction,
    CoMapFunction,
    KeyedProcessFunction,
    MapFunction,
    OutputTag,
    ProcessFunction,
    ProcessWindowFunction,
    SinkFunction,
)
from millstream.datastream.connectors.file_system import FileSink
from millstream.datastream.window import TumblingEventTimeWindows
from millstream.metrics.groups import MetricKind, MetricName, MetricValue
from millstream.operators.base import OperatorReport
from millstream.runtime.control.plan import describe_plan
from millstream.runtime.job import launcher
from millstream.runtime.job.job_master import JobMaster
from millstream.runtime.job.metrics import JobMetrics


def operator(number, name, parallelism=1):
    """A vertex of one operator."""
    spec = SimpleNamespace(kind="map", is_source=False, writes=None, is_keyed=False)
    node = SimpleNamespace(
        id=number,
        name=name,
        operator_id=f"id-{number}",
        uid=None,
        spec=spec,
        description=None,
        max_parallelism=128,
        slot_sharing_group="default",
    )
    return SimpleNamespace(
        id=number, name=name, head=node, nodes=(node,), chained=(), parallelism=parallelism
    )


def metrics_of(*operators, clock=None):
    graph = SimpleNamespace(vertices=operators, edges=())
    ids = tuple(each.id for each in operators)
    plan = SimpleNamespace(job_graph=graph, slots=1, levels=(ids,), region_of=lambda vertex_id: 0)
    return JobMetrics("job", describe_plan(plan), clock or ManualClock())


def report(**metrics):
    return OperatorReport(metrics={MetricName((name,)): MetricValue(*each) for name, each in metrics.items()})


def user_metrics(metrics):
    standard = ("numRecordsIn", "numRecordsOut", "currentInputWatermark", "currentOutputWatermark")
    return {name: value for name, value in metrics.snapshot().items() if not name.endswith(standard)}


def test_standard_metrics_are_there_from_the_beginning_for_each_subtask():
    metrics = metrics_of(operator(1, "Map", 2))
    assert metrics.snapshot() == {
        "job.Map.0.currentInputWatermark": MIN_TIMESTAMP,
        "job.Map.0.numRecordsIn": 0,
        "job.Map.0.numRecordsOut": 0,
        "job.Map.1.currentInputWatermark": MIN_TIMESTAMP,
        "job.Map.1.numRecordsIn": 0,
        "job.Map.1.numRecordsOut": 0,
    }


def test_operators_of_one_name_are_told_apart():
    metrics = metrics_of(operator(1, "Map"), operator(2, "Map"))
    metrics.record(1, 0, report(c=(MetricKind.COUNTER, 1)))
    metrics.record(2, 0, report(c=(MetricKind.COUNTER, 2)))
    assert user_metrics(metrics) == {"job.Map.0.c": 1, "job.Map#2.0.c": 2}


def test_the_last_report_counts_and_counters_of_epochs_add_up():
    metrics = metrics_of(operator(1, "W"))
    for number in (3, 4):
        metrics.record(1, 0, report(c=(MetricKind.COUNTER, number)))
        metrics.record(1, 0, OperatorReport(counters={"late_records_dropped": number, "own": 1}))
    assert user_metrics(metrics) == {"job.W.0.c": 4, "job.W.0.numLateRecordsDropped": 7, "job.W.0.own": 2}


def test_a_meters_rate_falls_while_no_epoch_runs():
    clock = ManualClock(0)
    metrics = metrics_of(operator(1, "M"), clock=clock)
    metrics.record(1, 0, report(m=(MetricKind.METER, (120, 60))))
    assert user_metrics(metrics) == {"job.M.0.m": 2.0, "job.M.0.m_count": 120}
    clock.advance(60_000)
    assert user_metrics(metrics) == {"job.M.0.m": 0.0, "job.M.0.m_count": 120}


def test_figures_of_distributions_and_histograms_have_an_entry_each():
    metrics = metrics_of(operator(1, "M"))
    metrics.record(
        1,
        0,
        report(d=(MetricKind.DISTRIBUTION, (6, 3, 1, 3)), e=(MetricKind.DISTRIBUTION, (0, 0, None, None))),
    )
    metrics.record(1, 0, report(h=(MetricKind.HISTOGRAM, (2, {"min": 1, "p99": 5}))))
    assert user_metrics(metrics) == {
        "job.M.0.d_sum": 6,
        "job.M.0.d_count": 3,
        "job.M.0.d_min": 1,
        "job.M.0.d_max": 3,
        "job.M.0.d_mean": 2.0,
        "job.M.0.e_sum": 0,
        "job.M.0.e_count": 0,
        "job.M.0.e_min": None,
        "job.M.0.e_max": None,
        "job.M.0.e_mean": None,
        "job.M.0.h_count": 2,
        "job.M.0.h_min": 1,
        "job.M.0.h_p99": 5,
    }


def test_variables_are_there_for_reporters_with_labels():
    metrics = metrics_of(operator(1, "M"))
    name = MetricName(("shop", "7", "c"), (("shop", "7"),))
    metrics.record(1, 0, OperatorReport(metrics={name: MetricValue(MetricKind.COUNTER, 5)}))
    (found,) = [metric for metric in metrics.views() if metric.name == "shop.7.c"]
    assert (found.operator, found.operator_id, found.subtask, found.value) == ("M", "id-1", 0, 5)
    assert found.variables == {"shop": "7"}
    assert user_metrics(metrics) == {"job.M.0.shop.7.c": 5}


def counted(**metrics):
    return report(**{name: (MetricKind.COUNTER, value) for name, value in metrics.items()})


def test_what_is_counted_goes_on_over_attempts_and_gauges_begin_anew():
    clock = ManualClock(0)
    metrics = metrics_of(operator(1, "M"), clock=clock)
    for attempt in range(3):
        metrics.begin_attempt()
        assert attempt == 0 or "job.M.0.size" not in metrics.snapshot()
        metrics.record(1, 0, counted(numRecordsIn=10, c=2))
        metrics.record(1, 0, OperatorReport(counters={"late_records_dropped": 1}))
        metrics.record(
            1,
            0,
            report(
                m=(MetricKind.METER, (60, 60)),
                d=(MetricKind.DISTRIBUTION, (6, 3, attempt, 3 + attempt)),
                h=(MetricKind.HISTOGRAM, (2, {"p99": attempt})),
                size=(MetricKind.GAUGE, 7),
            ),
        )
        clock.advance(1_000)
    metrics.begin_attempt()
    shown = metrics.snapshot()
    assert (shown["job.M.0.numRecordsIn"], shown["job.M.0.c"]) == (30, 6)
    assert shown["job.M.0.numLateRecordsDropped"] == 3
    assert (shown["job.M.0.m_count"], shown["job.M.0.m"]) == (180, 3.0)
    assert [shown[f"job.M.0.d_{name}"] for name in ("sum", "count", "min", "max")] == [18, 9, 0, 5]
    assert (shown["job.M.0.h_count"], shown["job.M.0.h_p99"]) == (6, 2)
    assert shown["job.M.0.currentInputWatermark"] == MIN_TIMESTAMP
    assert "job.M.0.size" not in shown


def test_records_per_second_are_those_of_the_last_minute():
    clock = ManualClock(0)
    metrics = metrics_of(operator(1, "M"), clock=clock)

    def rate():
        (found,) = [
            each.value["rate"]
            for each in metrics.views()
            if (each.scope, each.name) == ("operator", "numRecordsInPerSecond")
        ]
        return found

    metrics.tick()
    for second in range(1, 61):
        clock.advance(1_000)
        metrics.record(1, 0, counted(numRecordsIn=second * 30))
        metrics.tick()
    assert rate() == 30.0
    clock.advance(30_000)
    assert rate() == 15.0
    clock.advance(60_000)
    assert rate() == 0.0


def test_what_a_subtask_tells_of_itself_has_the_scope_of_its_task():
    metrics = metrics_of(operator(1, "M"))
    metrics.record(
        1, 0, report(busyTimeMsPerSecond=(MetricKind.GAUGE, 5), numBytesIn=(MetricKind.COUNTER, 9))
    )
    scopes = {(each.scope, each.name): each for each in metrics.views()}
    assert scopes["task", "busyTimeMsPerSecond"].operator is None
    assert scopes["task", "numBytesInPerSecond"].value["count"] == 9
    assert ("task", "numRecordsIn") in scopes
    assert ("operator", "numRecordsIn") in scopes


# Whole programs


@pytest.fixture
def masters(monkeypatch):
    """The job masters of the jobs that the test runs."""
    made = []

    class Kept(JobMaster):
        def __init__(self, *args, **kwargs):
            super().__init__(*args, **kwargs)
            made.append(self)

    monkeypatch.setattr(launcher, "JobMaster", Kept)
    return made


class Stamp(TimestampAssigner):
    def extract_timestamp(self, value, record_timestamp):
        return value


SIDE = OutputTag("side")


class Split(ProcessFunction):
    def open(self, runtime_context):
        self.seen = runtime_context.get_metrics_group().add_group("mine").counter("seen")

    def process_element(self, value, ctx):
        self.seen.inc()
        if value % 2:
            yield SIDE, value
        else:
            yield value
            yield value


@pytest.mark.parametrize("chaining", ["true", "false"])
@pytest.mark.parametrize("epoch", [3, 1000])
def test_records_are_counted_at_each_operator(new_environment, masters, chaining, epoch):
    options = {"pipeline.operator-chaining.enabled": chaining, "millstream.epoch.fixed-records": epoch}
    environment = new_environment("local", 1, options)
    stream = environment.from_collection(list(range(9))).process(Split()).name("Split")
    stream.get_side_output(SIDE).map(str).name("Odd").print()
    stream.map(str).name("Even").filter(lambda value: value > "4").name("Some").print()
    environment.execute("counts")
    shown = masters[0].metrics.snapshot()
    counts = {
        name: (shown[f"counts.{name}.0.numRecordsIn"], shown[f"counts.{name}.0.numRecordsOut"])
        for name in ("Collection Source", "Split", "Odd", "Even", "Some")
    }
    assert counts == {
        "Collection Source": (0, 9),
        "Split": (9, 14),  # five even numbers twice, four odd ones to the side output
        "Odd": (4, 4),
        "Even": (10, 10),
        "Some": (10, 4),
    }
    assert shown["counts.Split.0.mine.seen"] == 9
    assert shown["counts.Some.0.currentInputWatermark"] == MAX_TIMESTAMP


def test_two_subtasks_count_for_themselves(new_environment, masters):
    environment = new_environment("local", 2)
    environment.from_collection(list(range(10))).rebalance().map(str).name("Str").print()
    environment.execute("job")
    shown = masters[0].metrics.snapshot()
    assert [shown[f"job.Str.{subtask}.numRecordsIn"] for subtask in (0, 1)] == [5, 5]


def test_late_records_are_counted_under_flinks_name(new_environment, masters):
    class Size(ProcessWindowFunction):
        def process(self, key, context, elements):
            yield len(list(elements))

        def clear(self, context):
            pass

    environment = new_environment("local", 1, {"millstream.epoch.fixed-records": 1})
    environment.from_collection([5, 100, 6, 7, 200]).assign_timestamps_and_watermarks(
        WatermarkStrategy.for_monotonous_timestamps().with_timestamp_assigner(Stamp())
    ).key_by(lambda value: 0).window(TumblingEventTimeWindows.of(Time.milliseconds(10))).process(Size()).name(
        "Windows"
    ).print()
    environment.execute("job")
    assert masters[0].metrics.snapshot()["job.Windows.0.numLateRecordsDropped"] == 2


class Kinds:
    """Reads a job parameter and counts calls, in whichever kind of function."""

    def open(self, runtime_context):
        self.parameter = runtime_context.get_job_parameter("mark", "none")
        self.calls = runtime_context.get_metrics_group().counter(f"calls of {self.parameter}")
        self.accumulated = runtime_context.get_int_counter("calls")

    def called(self):
        self.calls.inc()
        self.accumulated.add(1)


class Mapping(Kinds, MapFunction):
    def map(self, value):
        self.called()
        return value


class Processing(Kinds, ProcessFunction):
    def process_element(self, value, ctx):
        self.called()
        yield value


class KeyedProcessing(Kinds, KeyedProcessFunction):
    def process_element(self, value, ctx):
        self.called()
        yield value


class Windowing(Kinds, ProcessWindowFunction):
    def process(self, key, context, elements):
        for value in elements:
            self.called()
            yield value

    def clear(self, context):
        pass


class Asynchronous(Kinds, AsyncFunction):
    async def async_invoke(self, value):
        self.called()
        return [value]


class Sinking(Kinds, SinkFunction):
    def invoke(self, value):
        self.called()


def test_parameters_metrics_and_accumulators_are_there_in_every_kind_of_function(new_environment, masters):
    environment = new_environment("local", 1)
    environment.get_config().set_global_job_parameters({"mark": "x"})
    stream = environment.from_collection([1, 2, 3]).assign_timestamps_and_watermarks(
        WatermarkStrategy.for_monotonous_timestamps().with_timestamp_assigner(Stamp())
    )
    stream = stream.map(Mapping()).name("map").process(Processing()).name("process")
    stream = AsyncDataStream.ordered_wait(stream, Asynchronous(), Time.minutes(1)).name("async")
    keyed = stream.key_by(lambda value: value).map(Mapping()).name("keyed map").key_by(lambda value: value)
    stream = keyed.process(KeyedProcessing()).name("keyed process").key_by(lambda value: value)
    stream = stream.window(TumblingEventTimeWindows.of(Time.milliseconds(10))).process(Windowing())
    stream.name("window").add_sink(Sinking()).name("sink")
    result = environment.execute("job")
    names = ("map", "process", "async", "keyed map", "keyed process", "window", "sink")
    shown = user_metrics(masters[0].metrics)
    assert shown == {f"job.{name}.0.calls of x": 3 for name in names}
    assert result.get_accumulator_result("calls") == 3 * len(names)


def test_inputs_have_watermarks_and_sinks_what_they_were_given(new_environment, masters, tmp_path):
    environment = new_environment("local", 1)
    some = environment.from_collection([1, 2, 3])
    other = environment.from_collection([4])
    both = some.connect(other).map(Joined()).name("Both")
    files = FileSink.for_row_format(str(tmp_path), Encoder.simple_string_encoder()).build()
    both.filter(lambda value: value > 1).sink_to(files).name("Sink")
    environment.execute("job")
    views = [view for view in masters[0].metrics.views() if view.scope == "operator"]
    marks = {(view.operator, view.name): view.value for view in views if view.name.startswith("currentInput")}
    assert {key for key in marks if key[1] != "currentInputWatermark"} == {
        ("Both", "currentInput1Watermark"),
        ("Both", "currentInput2Watermark"),
    }
    assert marks["Both", "currentInput1Watermark"] == marks["Both", "currentInput2Watermark"] == MAX_TIMESTAMP
    sent = {(view.operator, view.value) for view in views if view.name == "numRecordsSend"}
    assert sent == {("Sink", 3)}
    (rate,) = (view.value for view in views if view.name == "numRecordsSendPerSecond")
    assert rate["count"] == 3


class Joined(CoMapFunction):
    def map1(self, value):
        return value

    def map2(self, value):
        return value
