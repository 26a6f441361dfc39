"""Metrics in Prometheus' text format, under the names and with the labels of Flink's Prometheus reporter. Pure.

::

    flink_jobmanager_job_<name>{job_id, job_name, host}
    flink_taskmanager_job_<name>{… tm_id}                       of the job, told by a slot: latency
    flink_jobmanager_job_operator_<name>{… operator_id, …}      of an operator, told by the driver: splits
    flink_taskmanager_job_task_<name>{… task_id, task_name, task_attempt_num, subtask_index, tm_id}
    flink_taskmanager_job_task_operator_<groups>_<name>{… operator_id, operator_name, keys of key-value groups}

As Flink does, counters and meters are gauges (a meter is its rate), histograms summaries with quantiles. A distribution
is a summary with its least and greatest value as quantiles 0 and 1.

The format: https://prometheus.io/docs/instrumenting/exposition_formats/
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from millstream.metrics.reported import MetricsView, MetricView

__all__ = ["CONTENT_TYPE", "labels_of", "render", "scope_of"]

CONTENT_TYPE = "text/plain; version=0.0.4; charset=utf-8"

_SCOPES = {
    "job": "flink_jobmanager_job",
    "task": "flink_taskmanager_job_task",
    "operator": "flink_taskmanager_job_task_operator",
}
_QUANTILES = {"median": "0.5", "p75": "0.75", "p95": "0.95", "p98": "0.98", "p99": "0.99", "p999": "0.999"}
_INVALID = re.compile(r"[^a-zA-Z0-9_:]")
_INVALID_LABEL = re.compile(r"[^a-zA-Z0-9_]")
_HELP_ESCAPES = str.maketrans({"\\": "\\\\", "\n": "\\n"})
_ESCAPES = {**_HELP_ESCAPES, ord('"'): '\\"'}

_Sample = tuple[str, Mapping[str, str], float]
"""What is behind the family's name, labels, value."""


class _Family:
    """All samples of one name."""

    def __init__(self, name: str, kind: str, text: str) -> None:
        self.name = name
        self.kind = kind
        self._text = text
        self._samples: dict[str, str] = {}

    def add(self, samples: Iterable[_Sample]) -> None:
        """Add samples; of two with the same labels the first counts: Prometheus takes no more."""
        for suffix, labels, value in samples:
            place = f"{self.name}{suffix}{_labels(labels)}"
            self._samples.setdefault(place, f"{place} {_number(value)}")

    def lines(self) -> Iterator[str]:
        """Yield the family's lines; none if it has no samples."""
        if self._samples:
            yield f"# HELP {self.name} {self._text}"
            yield f"# TYPE {self.name} {self.kind}"
            yield from self._samples.values()


def render(jobs: Iterable[MetricsView], host: str) -> str:
    """Return the metrics of some jobs as one document.

    Metrics without a number are left out, as in Flink; so are those whose name, made fit for Prometheus, is that of
    another metric of another type.

    Args:
        jobs: Their metrics.
        host: Of the process that drives them.
    """
    families: dict[str, _Family] = {}
    for job in jobs:
        for metric in job.metrics:
            own_name = metric.logical_name or metric.name
            scope = scope_of(metric)
            name = f"{scope}_{_INVALID.sub('_', own_name)}"
            kind = "summary" if metric.kind in ("histogram", "distribution") else "gauge"
            family = families.setdefault(
                name,
                _Family(name, kind, f"{own_name} (scope: {metric.scope})".translate(_HELP_ESCAPES)),
            )
            if family.kind == kind:
                family.add(_samples(metric, labels_of(job, metric, host)))
    lines = [line for family in families.values() for line in family.lines()]
    return "".join(f"{line}\n" for line in lines)


def scope_of(metric: MetricView) -> str:
    """Return what Flink's names begin with: jobs have metrics in slots as well, operators in the driver."""
    if metric.scope == "job" and metric.subtask is not None:
        return "flink_taskmanager_job"
    if metric.scope == "operator" and metric.subtask is None:
        return "flink_jobmanager_job_operator"
    return _SCOPES[metric.scope]


def _samples(metric: MetricView, labels: Mapping[str, str]) -> Iterator[_Sample]:
    value = metric.value
    match metric.kind:
        case "meter":
            yield "", labels, value["rate"]
        case "histogram":
            for figure, quantile in _QUANTILES.items():
                if _is_number(value.get(figure)):
                    yield "", {**labels, "quantile": quantile}, value[figure]
            yield "_count", labels, value["count"]
        case "distribution":
            for figure, quantile in (("min", "0.0"), ("max", "1.0")):
                if _is_number(value[figure]):
                    yield "", {**labels, "quantile": quantile}, value[figure]
            yield "_sum", labels, value["sum"]
            yield "_count", labels, value["count"]
        case _ if _is_number(value):
            yield "", labels, value


def labels_of(job: MetricsView, metric: MetricView, host: str) -> dict[str, str]:
    """Return the labels of a metric: Flink's, then the keys of key-value groups, made fit for Prometheus."""
    labels = {"job_id": job.job_id, "job_name": job.job_name, "host": host}
    if metric.subtask is not None:
        slot = metric.subtask
        labels |= {
            "host": job.hosts[slot] if slot < len(job.hosts) else host,
            "tm_id": f"slot-{slot}",
        }
        if metric.vertex_id is None:
            return labels | {_label_name(key): value for key, value in metric.variables.items()}
        labels |= {
            "task_id": metric.vertex_id,
            "task_name": metric.vertex_name or "",
            "task_attempt_id": f"{metric.vertex_id}_{slot}_{job.attempt}",
            "task_attempt_num": str(job.attempt),
            "subtask_index": str(slot),
        }
    if metric.operator_id is not None:
        labels |= {"operator_id": metric.operator_id, "operator_name": metric.operator or ""}
    for key, value in metric.variables.items():
        labels.setdefault(_label_name(key), value)
    return labels


def _label_name(key: str) -> str:
    name = _INVALID_LABEL.sub("_", key)
    return f"_{name}" if not name or name[0].isdigit() else name


def _labels(labels: Mapping[str, str]) -> str:
    pairs = ",".join(f'{name}="{value.translate(_ESCAPES)}"' for name, value in labels.items())
    return f"{{{pairs}}}"


def _is_number(value: Any) -> bool:
    return isinstance(value, (int, float))


def _number(value: float) -> str:
    """Return a number as Prometheus reads it.

    >>> _number(True), _number(5), _number(float("inf")), _number(0.5)
    ('1', '5', '+Inf', '0.5')
    """
    if isinstance(value, bool):
        return str(int(value))
    if isinstance(value, float) and not math.isfinite(value):
        return "NaN" if math.isnan(value) else "+Inf" if value > 0 else "-Inf"
    return repr(value)
