"""Metrics: lists of names, values of those that are asked for, figures over subtasks or jobs."""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

from msgspec import UNSET, UnsetType

from millstream.rest.documents.base import Document
from millstream.runtime.control.views import JobView, MetricsView, MetricView, VertexView

__all__ = [
    "AGGREGATIONS",
    "AggregatedMetric",
    "Metric",
    "aggregate_metrics",
    "cluster_metrics",
    "coordinator_metrics",
    "job_metrics",
    "metric_documents",
    "subtask_metrics",
    "vertex_metrics",
    "watermarks",
]

AGGREGATIONS = ("min", "max", "avg", "sum", "skew")
_UNSAFE = re.compile(r"[^A-Za-z0-9_.:/\-]")
"""What Flink leaves out of a metric's id, as it has a meaning in queries."""


class Metric(Document, frozen=True, kw_only=True):
    """A metric's name, and its value if that was asked for."""

    id: str
    value: str | UnsetType = UNSET


class AggregatedMetric(Document, frozen=True, kw_only=True):
    """A metric's name, and figures over subtasks or jobs if they were asked for."""

    id: str
    min: float | UnsetType = UNSET
    max: float | UnsetType = UNSET
    avg: float | UnsetType = UNSET
    sum: float | UnsetType = UNSET
    skew: float | UnsetType = UNSET


def metric_documents(values: Mapping[str, Any], wanted: Sequence[str] | None) -> list[Metric]:
    """Return the names of all metrics, or the values of those that are wanted and there."""
    if wanted is None:
        return [Metric(id=name) for name in values]
    return [Metric(id=name, value=_text(values[name])) for name in wanted if name in values]


def aggregate_metrics(
    rows: Sequence[Mapping[str, Any]], wanted: Sequence[str] | None, aggregations: Sequence[str]
) -> list[AggregatedMetric]:
    """Return the names of all metrics, or figures over the rows that have the wanted ones as numbers.

    Args:
        rows: Values by name, one row for each subtask or job.
        wanted: Names; None for a list of all.
        aggregations: Some of `AGGREGATIONS`; empty for all.
    """
    if wanted is None:
        return [AggregatedMetric(id=name) for name in dict.fromkeys(name for row in rows for name in row)]
    found = []
    for name in wanted:
        numbers = [number for row in rows if (number := _number(row.get(name))) is not None]
        if numbers:
            figures = _figures(numbers)
            chosen = {each: figures[each] for each in aggregations or AGGREGATIONS}
            found.append(AggregatedMetric(id=name, **chosen))
    return found


def job_metrics(view: MetricsView) -> dict[str, Any]:
    """Return a job's own metrics by name."""
    return dict(_values((each for each in view.metrics if each.scope == "job"), _own_name))


def vertex_metrics(view: MetricsView, vertex_id: str) -> dict[str, Any]:
    """Return metrics of all subtasks of a vertex, as `<subtask>.<name>` or `<subtask>.<operator>.<name>`."""
    metrics = (each for each in view.metrics if each.vertex_id == vertex_id and each.subtask is not None)
    return dict(_values(metrics, lambda metric: f"{metric.subtask}.{_own_name(metric)}"))


def coordinator_metrics(view: MetricsView, vertex_id: str) -> dict[str, Any]:
    """Return metrics that the driver tells of a vertex' operators, as `<operator>.<name>`."""
    metrics = (each for each in view.metrics if each.vertex_id == vertex_id and each.subtask is None)
    return dict(_values(metrics, _own_name))


def subtask_metrics(view: MetricsView, vertex_id: str, subtask: int) -> dict[str, Any]:
    """Return metrics of a subtask, as `<name>` or `<operator>.<name>`."""
    metrics = (each for each in view.metrics if each.vertex_id == vertex_id and each.subtask == subtask)
    return dict(_values(metrics, _own_name))


def watermarks(vertex: VertexView) -> list[Metric]:
    """Return the watermarks of a vertex' subtasks that have one."""
    return [
        Metric(id=f"{each.subtask}.currentInputWatermark", value=str(each.input_watermark_ms))
        for each in vertex.subtasks
        if each.input_watermark_ms is not None
    ]


def cluster_metrics(jobs: Sequence[JobView], *, managers: int, slots: int) -> dict[str, Any]:
    """Return what is measured of the cluster, under Flink's names."""
    running = sum(job.ended_ms is None for job in jobs)
    return {
        "numRegisteredTaskManagers": managers,
        "numRunningJobs": running,
        "taskSlotsAvailable": 0,
        "taskSlotsTotal": slots,
    }


def _own_name(metric: MetricView) -> str:
    operator = f"{metric.operator}." if metric.scope == "operator" and metric.operator else ""
    return _UNSAFE.sub("_", f"{operator}{metric.name}")


def _values(metrics: Iterable[MetricView], name_of: Any) -> Iterator[tuple[str, Any]]:
    """Give names and plain values: a meter's is its rate, other figures follow the name with an underscore."""
    for metric in metrics:
        name = name_of(metric)
        if not isinstance(metric.value, Mapping):
            yield name, metric.value
        elif metric.kind == "meter":
            yield name, metric.value.get("rate")
        else:
            for figure, value in metric.value.items():
                yield f"{name}_{figure}", value


def _text(value: Any) -> str:
    if isinstance(value, bool):
        return "true" if value else "false"
    return "NaN" if value is None else str(value)


def _number(value: Any) -> float | None:
    if isinstance(value, bool) or not isinstance(value, int | float):
        return None
    try:
        number = float(value)
    except OverflowError:
        return None
    return number if math.isfinite(number) else None


def _figures(numbers: Sequence[float]) -> dict[str, float]:
    total = sum(numbers)
    mean = total / len(numbers)
    deviation = sum(abs(number - mean) for number in numbers) / len(numbers)
    return {
        "min": min(numbers),
        "max": max(numbers),
        "avg": mean,
        "sum": total,
        "skew": deviation / mean * 100 if mean else 0.0,
    }
