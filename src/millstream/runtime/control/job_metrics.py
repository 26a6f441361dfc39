"""Metrics that no subtask reports: of the job as a whole, and of how far sources are behind the clock."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from millstream.runtime.control.job_history import JobHistory
from millstream.runtime.control.views import MetricView, PlanView, WatermarksView

__all__ = ["job_metrics", "source_lags"]


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
    yield "runningTime", history.running_ms(until_ms)
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
    its event time, if the largest that came so far is its.
    """
    places = {each.node_id: (vertex, each) for vertex in plan.vertices for each in vertex.operators}
    lags: dict[tuple[int, int, str], int] = {}
    for fact in watermarks.facts:
        if fact.watermark_ms is not None and not fact.idle:
            key = (fact.node_id, fact.subtask, "watermarkLag")
            lags[key] = max(lags.get(key, 0), now_ms - fact.watermark_ms)
        if fact.event_time_ms is not None and fact.last_record_ms is not None:
            key = (fact.node_id, fact.subtask, "currentEmitEventTimeLag")
            lags[key] = max(lags.get(key, 0), fact.last_record_ms - fact.event_time_ms)
    found = []
    for (node_id, subtask, name), lag_ms in sorted(lags.items()):
        vertex, operator = places[node_id]
        found.append(
            MetricView(
                "operator",
                name,
                "gauge",
                lag_ms,
                vertex_id=vertex.vertex_id,
                vertex_name=vertex.name,
                operator_id=operator.operator_id,
                operator=operator.name,
                subtask=subtask,
            )
        )
    return found
