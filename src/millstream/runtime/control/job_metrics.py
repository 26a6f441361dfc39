"""Metrics that no subtask reports: of the job as a whole, and of how far sources are behind the clock."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from millstream.runtime.control.job_history import JobHistory
from millstream.runtime.control.views import MetricView, OperatorView, PlanView, VertexPlan, WatermarksView
from millstream.spi.source import Pending

__all__ = ["job_metrics", "pending_metrics", "source_lags"]

_STATUSES = ("INITIALIZING", "CREATED", "RUNNING", "FAILING", "RESTARTING")
"""Those that a job may have before its end; one that is cancelled tells of nothing more."""


def job_metrics(history: JobHistory, now_ms: int) -> list[MetricView]:
    """Return the metrics of a job's scope, under Flink's names; durations in milliseconds, sizes in bytes."""
    return [MetricView("job", name, "gauge", value) for name, value in _of_job(history, now_ms)]


def _of_job(history: JobHistory, now_ms: int) -> Iterator[tuple[str, Any]]:
    until_ms = now_ms if history.ended_ms is None else history.ended_ms
    running_since_ms = history.timestamps.get("RUNNING")
    runs = history.status == "RUNNING" and running_since_ms is not None
    yield "numRestarts", history.restarts
    yield "fullRestarts", history.restarts
    yield "uptime", max(now_ms - (running_since_ms or now_ms), 0) if runs else -1
    yield "downtime", 0 if runs or history.ended_ms is not None else _down_ms(history, now_ms)
    for status in _STATUSES:
        name = status.lower()
        yield f"{name}State", int(history.status == status)
        yield f"{name}Time", history.time_in(status, until_ms)
        yield f"{name}TimeTotal", history.total_time_in(status, until_ms)
    counts = history.checkpoints.counts
    yield "totalNumberOfCheckpoints", counts.triggered
    yield "numberOfCompletedCheckpoints", counts.completed
    yield "numberOfFailedCheckpoints", counts.failed
    yield "numberOfInProgressCheckpoints", counts.in_progress
    latest = history.checkpoints.latest_completed
    if latest is not None:
        yield "lastCheckpointDuration", latest.duration_ms
        yield "lastCheckpointSize", latest.checkpointed_size
        yield "lastCheckpointFullSize", latest.state_size
        yield "lastCompletedCheckpointId", latest.checkpoint_id
        yield "lastCheckpointExternalPath", latest.path
    restored = history.checkpoints.latest_restored
    if restored is not None:
        yield "lastCheckpointRestoreTimestamp", restored.restored_ms


def _down_ms(history: JobHistory, now_ms: int) -> int:
    """Return for how long a job that is about to run again has not run."""
    since_ms = history.timestamps.get("FAILING")
    return 0 if since_ms is None else max(now_ms - since_ms, 0)


def source_lags(watermarks: WatermarksView, plan: PlanView, now_ms: int) -> list[MetricView]:
    """Return how far each subtask that makes watermarks is behind the clock, of its split that is farthest behind.

    `watermarkLag` is the clock less the watermark; `currentEmitEventTimeLag` is when the last record was emitted less
    its event time, if the largest that came so far is its; `sourceIdleTime` is how long no record came, of the split
    that had the last one.
    """
    lags: dict[tuple[int, int, str], int] = {}
    for fact in watermarks.facts:
        last_ms = fact.last_record_ms
        if last_ms is not None:
            key = (fact.node_id, fact.subtask, "sourceIdleTime")
            lags[key] = min(lags.get(key, now_ms), max(now_ms - last_ms, 0))
        if fact.watermark_ms is not None and not fact.idle:
            key = (fact.node_id, fact.subtask, "watermarkLag")
            lags[key] = max(lags.get(key, 0), now_ms - fact.watermark_ms)
        if fact.event_time_ms is not None and last_ms is not None:
            key = (fact.node_id, fact.subtask, "currentEmitEventTimeLag")
            lags[key] = max(lags.get(key, 0), last_ms - fact.event_time_ms)
    place_of = _places(plan)
    return [
        _gauge(*place_of[node_id], name, lag_ms, subtask=subtask)
        for (node_id, subtask, name), lag_ms in sorted(lags.items())
        if subtask < place_of[node_id][0].parallelism  # else as of before the job was rescaled
    ]


def pending_metrics(pending: Mapping[int, Pending], plan: PlanView) -> list[MetricView]:
    """Return what waits outside to be read, of sources that know it.

    Args:
        pending: By node id.
        plan: The job's operators.
    """
    place_of = _places(plan)
    found = []
    for node_id, each in sorted(pending.items()):
        vertex, operator = place_of[node_id]
        of_subtasks = (
            ("pendingRecords", each.records),
            ("pendingBytes", each.bytes),
            ("assignedSplits", each.splits),
        )
        for name, values in of_subtasks:
            for subtask, value in sorted(values.items()):
                if subtask < vertex.parallelism:  # else as of before the job was rescaled
                    found.append(_gauge(vertex, operator, name, value, subtask=subtask))
        if each.unassigned_splits is not None:
            found.append(
                _gauge(vertex, operator, "coordinator.enumerator.unassignedSplits", each.unassigned_splits)
            )
    return found


def _places(plan: PlanView) -> dict[int, tuple[VertexPlan, OperatorView]]:
    return {each.node_id: (vertex, each) for vertex in plan.vertices for each in vertex.operators}


def _gauge(
    vertex: VertexPlan, operator: OperatorView, name: str, value: int, *, subtask: int | None = None
) -> MetricView:
    return MetricView(
        "operator",
        name,
        "gauge",
        value,
        vertex_id=vertex.vertex_id,
        vertex_name=vertex.name,
        operator_id=operator.operator_id,
        operator=operator.name,
        subtask=subtask,
    )
