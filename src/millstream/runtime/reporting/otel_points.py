"""Metrics as OpenTelemetry has them, under the names and with the attributes of Flink's reporter. Pure.

::

    flink.jobmanager.job.<name>                  job_id, job_name, host
    flink.taskmanager.job.task.<name>            … task_id, task_name, subtask_index, tm_id
    flink.taskmanager.job.task.operator.<name>   … operator_id, operator_name, keys of key-value groups

A counter is a sum, a gauge a gauge; a meter is `<name>.count`, a sum, and `<name>.rate`, a gauge. Histograms and
distributions are `<name>.count`, a sum, and a gauge for each figure: buckets, which OpenTelemetry's histograms are made
of, are not kept.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from millstream.metrics.reported import MetricsView, MetricView
from millstream.runtime.reporting.exposition import labels_of, scope_of

__all__ = ["Point", "points_of"]

_ONLY_GROW = frozenset(
    {
        "numRecordsIn",
        "numRecordsOut",
        "numRecordsInErrors",
        "numBytesIn",
        "numBytesOut",
        "numLateRecordsDropped",
        "accumulateBusyTimeMs",
        "accumulateIdleTimeMs",
        "accumulateBackPressuredTimeMs",
    }
)
"""Counters of our own; a user's may be counted down."""
_MOST_INTEGER = 2**63


@dataclass(frozen=True, slots=True)
class Point:
    """One number.

    Attributes:
        name: The metric's.
        attributes: Who tells it.
        value: The number; an integer has 64 bits at most.
        is_sum: Whether it is a sum since the job began, and no gauge.
        only_grows: Whether the sum never becomes less.
    """

    name: str
    attributes: Mapping[str, str]
    value: int | float
    is_sum: bool = False
    only_grows: bool = False


def points_of(job: MetricsView, host: str) -> Iterator[Point]:
    """Yield the numbers of a job; what has none, such as a path, is left out.

    Args:
        job: Its metrics.
        host: Of the process that drives it.
    """
    for metric in job.metrics:
        own_name = metric.logical_name or metric.name
        name = f"{scope_of(metric).replace('_', '.')}.{own_name}"
        attributes = labels_of(job, metric, host)
        for suffix, value, is_sum, only_grows in _numbers(metric):
            number = _number(value)
            if number is not None:
                yield Point(f"{name}{suffix}", attributes, number, is_sum, only_grows)


def _numbers(metric: MetricView) -> Iterable[tuple[str, Any, bool, bool]]:
    """Yield what is behind the name, the value, whether it is a sum, and one that only grows."""
    value = metric.value
    match metric.kind:
        case "counter":
            yield "", value, True, metric.name in _ONLY_GROW
        case "meter":
            yield ".count", value["count"], True, True
            yield ".rate", value["rate"], False, False
        case "histogram" | "distribution":
            yield ".count", value["count"], True, True
            for figure, each in value.items():
                if figure != "count":
                    yield f".{figure}", each, False, False
        case _:
            yield "", value, False, False


def _number(value: Any) -> int | float | None:
    """Return a value as a number that OpenTelemetry has; None for what is none.

    >>> _number(True), _number(2**70), _number("s3://x")
    (1, 1.1805916207174113e+21, None)
    """
    if isinstance(value, bool):
        return int(value)
    if isinstance(value, int):
        return value if -_MOST_INTEGER <= value < _MOST_INTEGER else float(value)
    return value if isinstance(value, float) else None
