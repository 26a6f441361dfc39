"""Metrics as Prometheus reads them."""

from __future__ import annotations

import math

from millstream.metrics.reported import MetricsView, MetricView
from millstream.runtime.reporting.exposition import render

TASK = {"vertex_id": "v", "vertex_name": "Map -> Sink", "subtask": 1}
OPERATOR = {**TASK, "operator_id": "o", "operator": "Map"}


def metric(scope, name, kind, value, **more):
    place = {"job": {}, "task": TASK, "operator": OPERATOR}[scope]
    return MetricView(scope, name, kind, value, **place, **more)


def shown(*metrics, attempt=2):
    job = MetricsView("abc", 'the "job"', 0, metrics, attempt, ("host-0", "host-1"))
    return render([job], "driver").splitlines()


def test_scopes_have_flinks_names_and_labels():
    lines = shown(
        metric("job", "numRestarts", "gauge", 3),
        metric("task", "busyTimeMsPerSecond", "gauge", 17),
        metric("operator", "numRecordsIn", "counter", 5),
    )
    job = 'job_id="abc",job_name="the \\"job\\""'
    task = (
        f'{{{job},host="host-1",tm_id="slot-1",task_id="v",task_name="Map -> Sink",'
        f'task_attempt_id="v_1_2",task_attempt_num="2",subtask_index="1"'
    )
    assert lines == [
        "# HELP flink_jobmanager_job_numRestarts numRestarts (scope: job)",
        "# TYPE flink_jobmanager_job_numRestarts gauge",
        f'flink_jobmanager_job_numRestarts{{{job},host="driver"}} 3',
        "# HELP flink_taskmanager_job_task_busyTimeMsPerSecond busyTimeMsPerSecond (scope: task)",
        "# TYPE flink_taskmanager_job_task_busyTimeMsPerSecond gauge",
        f"flink_taskmanager_job_task_busyTimeMsPerSecond{task}}} 17",
        "# HELP flink_taskmanager_job_task_operator_numRecordsIn numRecordsIn (scope: operator)",
        "# TYPE flink_taskmanager_job_task_operator_numRecordsIn gauge",
        f'flink_taskmanager_job_task_operator_numRecordsIn{task},operator_id="o",operator_name="Map"}} 5',
    ]


def test_latency_belongs_to_the_job_in_a_slot_and_unassigned_splits_to_an_operator_in_the_driver():
    groups = {"source_id": "s", "operator_id": "o", "operator_subtask_index": "1"}
    latency = MetricView(
        "job",
        "latency.source_id.s.operator_id.o.operator_subtask_index.1.latency",
        "histogram",
        {"count": 4, "median": 7},
        subtask=1,
        variables=groups,
        logical_name="latency.source_id.operator_id.operator_subtask_index.latency",
    )
    splits = MetricView(
        "operator",
        "coordinator.enumerator.unassignedSplits",
        "gauge",
        9,
        vertex_id="v",
        vertex_name="V",
        operator_id="o",
        operator="Map",
    )
    lines = [line for line in shown(latency, splits) if not line.startswith("#")]
    job = 'job_id="abc",job_name="the \\"job\\""'
    slot = f'{job},host="host-1",tm_id="slot-1",source_id="s",operator_id="o",operator_subtask_index="1"'
    name = "flink_taskmanager_job_latency_source_id_operator_id_operator_subtask_index_latency"
    assert lines == [
        f'{name}{{{slot},quantile="0.5"}} 7',
        f"{name}_count{{{slot}}} 4",
        f'flink_jobmanager_job_operator_coordinator_enumerator_unassignedSplits{{{job},host="driver",'
        'operator_id="o",operator_name="Map"} 9',
    ]


def values(*metrics):
    """Return names with their last label, and values."""
    lines = [line for line in shown(*metrics) if not line.startswith("#")]
    return {
        line.split("{")[0].removeprefix("flink_taskmanager_job_task_operator_")
        + (f"@{line.split('quantile=')[1].split('}')[0]}" if "quantile" in line else ""): line.rsplit(" ", 1)[
            1
        ]
        for line in lines
    }


def test_meters_are_rates_histograms_and_distributions_summaries():
    assert values(
        metric("operator", "lines", "meter", {"count": 120, "rate": 2.5}),
        metric("operator", "sizes", "histogram", {"count": 4, "min": 1, "median": 2, "p99": 9}),
        metric("operator", "spread", "distribution", {"sum": 6, "count": 3, "min": 1, "max": 3, "mean": 2.0}),
        metric(
            "operator", "none", "distribution", {"sum": 0, "count": 0, "min": None, "max": None, "mean": None}
        ),
    ) == {
        "lines": "2.5",
        'sizes@"0.5"': "2",
        'sizes@"0.99"': "9",
        "sizes_count": "4",
        'spread@"0.0"': "1",
        'spread@"1.0"': "3",
        "spread_sum": "6",
        "spread_count": "3",
        "none_sum": "0",
        "none_count": "0",
    }


def test_what_is_no_number_is_left_out_and_numbers_without_end_have_prometheus_words():
    assert values(
        metric("operator", "text", "gauge", "x"),
        metric("operator", "nothing", "gauge", None),
        metric("operator", "yes", "gauge", True),
        metric("operator", "inf", "gauge", math.inf),
        metric("operator", "nan", "gauge", math.nan),
        metric("operator", "low", "gauge", -(2**63)),
    ) == {"yes": "1", "inf": "+Inf", "nan": "NaN", "low": str(-(2**63))}


def test_key_value_groups_are_labels_that_hide_none_of_ours():
    (line,) = [
        each
        for each in shown(
            metric(
                "operator",
                "shop.7.job_id.x.sold items",
                "counter",
                1,
                logical_name="shop.job_id.sold items",
                variables={"shop": 'a"\\\n', "job_id": "x", "1st": "y"},
            )
        )
        if not each.startswith("#")
    ]
    assert line.startswith('flink_taskmanager_job_task_operator_shop_job_id_sold_items{job_id="abc"')
    assert line.endswith('shop="a\\"\\\\\\n",_1st="y"} 1')


def test_names_that_become_the_same_give_one_sample():
    lines = shown(metric("operator", "a.b", "counter", 1), metric("operator", "a_b", "counter", 2))
    assert [line.rsplit(" ", 1)[1] for line in lines if not line.startswith("#")] == ["1"]
    assert sum(line.startswith("# TYPE") for line in lines) == 1
