"""Metrics as they are reported: plain data, for reporters and whoever else shows them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

__all__ = ["MetricView", "MetricsView"]


@dataclass(frozen=True, slots=True)
class MetricView:
    """One metric.

    Attributes:
        scope: Flink's: "job", "task" or "operator".
        name: Its name within the scope, the names of its groups before it, joined by dots.
        kind: counter, gauge, meter, distribution or histogram.
        value: A count or value; a meter's `{"count", "rate"}`, a distribution's `{"sum", "count", "min", "max",
            "mean"}`, a histogram's `{"count", "min", …, "p999"}`.
        vertex_id: Of a task or operator; None for a job's.
        vertex_name: The vertex' name.
        operator_id: Of an operator.
        operator: The operator's name, unique within the job.
        subtask: Index of the subtask; None for a job's.
        variables: Keys and values of key-value groups.
        logical_name: The name without the values of key-value groups, which are labels; None if it has none.
    """

    scope: str
    name: str
    kind: str
    value: Any
    vertex_id: str | None = None
    vertex_name: str | None = None
    operator_id: str | None = None
    operator: str | None = None
    subtask: int | None = None
    variables: Mapping[str, str] = field(default_factory=dict)
    logical_name: str | None = None


@dataclass(frozen=True, slots=True)
class MetricsView:
    """All metrics of a job.

    Attributes:
        job_id: Of the job.
        job_name: Of the job.
        seen_ms: When they were read.
        metrics: By scope, vertex, operator, subtask and name.
        attempt: The job's attempt.
        hosts: Host of each slot, by index; empty before they are known.
    """

    job_id: str
    job_name: str
    seen_ms: int
    metrics: tuple[MetricView, ...] = ()
    attempt: int = 0
    hosts: tuple[str, ...] = ()
