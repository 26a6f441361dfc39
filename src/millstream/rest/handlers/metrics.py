"""Metrics of jobs, vertices and subtasks."""

from __future__ import annotations

from millstream.rest.documents import metrics
from millstream.rest.handlers.found import job_of, subtask_of, vertex_of
from millstream.rest.routes import Call
from millstream.runtime.control.views import MetricsView

__all__ = ["coordinator", "job", "jobs", "subtask", "subtasks", "vertex", "watermarks"]


def job(call: Call) -> list[metrics.Metric]:
    """Answer `/jobs/:jobid/metrics`."""
    values = metrics.job_metrics(call.context.jobs.view(call.path["jobid"], MetricsView))
    return metrics.metric_documents(values, call.query["get"])


def jobs(call: Call) -> list[metrics.AggregatedMetric]:
    """Answer `/jobs/metrics`."""
    wanted = call.query["jobs"]
    ids = [each.job_id for each in call.context.jobs.jobs() if wanted is None or each.job_id in wanted]
    rows = [metrics.job_metrics(call.context.jobs.view(job_id, MetricsView)) for job_id in ids]
    return metrics.aggregate_metrics(rows, call.query["get"], call.query["agg"])


def vertex(call: Call) -> list[metrics.Metric]:
    """Answer `/jobs/:jobid/vertices/:vertexid/metrics`."""
    found = vertex_of(call, job_of(call))
    values = metrics.vertex_metrics(call.context.jobs.view(call.path["jobid"], MetricsView), found.vertex_id)
    return metrics.metric_documents(values, call.query["get"])


def coordinator(call: Call) -> list[metrics.Metric]:
    """Answer `/jobs/:jobid/vertices/:vertexid/jm-operator-metrics`."""
    found = vertex_of(call, job_of(call))
    view = call.context.jobs.view(call.path["jobid"], MetricsView)
    return metrics.metric_documents(metrics.coordinator_metrics(view, found.vertex_id), call.query["get"])


def subtasks(call: Call) -> list[metrics.AggregatedMetric]:
    """Answer `/jobs/:jobid/vertices/:vertexid/subtasks/metrics`."""
    found = vertex_of(call, job_of(call))
    view = call.context.jobs.view(call.path["jobid"], MetricsView)
    wanted = call.query["subtasks"]
    indexes = [each.subtask for each in found.subtasks if wanted is None or each.subtask in wanted]
    rows = [metrics.subtask_metrics(view, found.vertex_id, index) for index in indexes]
    return metrics.aggregate_metrics(rows, call.query["get"], call.query["agg"])


def subtask(call: Call) -> list[metrics.Metric]:
    """Answer `/jobs/:jobid/vertices/:vertexid/subtasks/:subtaskindex/metrics`."""
    found = vertex_of(call, job_of(call))
    index = subtask_of(call, found).subtask
    view = call.context.jobs.view(call.path["jobid"], MetricsView)
    return metrics.metric_documents(metrics.subtask_metrics(view, found.vertex_id, index), call.query["get"])


def watermarks(call: Call) -> list[metrics.Metric]:
    """Answer `/jobs/:jobid/vertices/:vertexid/watermarks`."""
    return metrics.watermarks(vertex_of(call, job_of(call)))
