"""The cluster: the process that serves, its options, the task managers of all jobs."""

from __future__ import annotations

import platform
import sys
from datetime import datetime, timedelta

from millstream.rest.documents import cluster, metrics, taskmanagers
from millstream.rest.handlers.found import manager_of
from millstream.rest.routes import Call

__all__ = [
    "dashboard_config",
    "manager",
    "manager_metrics",
    "managers",
    "managers_metrics",
    "openapi",
    "overview",
    "process_config",
    "process_environment",
    "process_metrics",
]


def overview(call: Call) -> cluster.Overview:
    """Answer `/overview`."""
    return cluster.overview(call.context.jobs.jobs())


def dashboard_config(call: Call) -> cluster.DashboardConfig:
    """Answer `/config`."""
    local = datetime.fromtimestamp(call.context.clock.now_ms() / 1000).astimezone()
    offset = local.utcoffset() or timedelta()
    return cluster.dashboard_config(
        local.tzname() or "UTC",
        int(offset.total_seconds() * 1000),
        submits=call.context.programs is not None,
    )


def process_config(call: Call) -> list[cluster.ConfigEntry]:
    """Answer `/jobmanager/config`."""
    return cluster.config_entries(call.context.options)


def process_environment(call: Call) -> cluster.Environment:
    """Answer `/jobmanager/environment`; arguments of the process may hold secrets and are left out."""
    return cluster.process_environment(
        f"Python {platform.python_version()} ({platform.python_implementation()})",
        platform.machine(),
        (),
        [path for path in sys.path if path],
    )


def process_metrics(call: Call) -> list[metrics.Metric]:
    """Answer `/jobmanager/metrics`."""
    jobs = call.context.jobs.jobs()
    managers = taskmanagers.group_slots(jobs)
    values = metrics.cluster_metrics(
        jobs, managers=len(managers), slots=sum(len(each.slots) for each in managers)
    )
    return metrics.metric_documents(values, call.query["get"])


def managers(call: Call) -> taskmanagers.TaskManagers:
    """Answer `/taskmanagers`."""
    return taskmanagers.task_managers(call.context.jobs.jobs())


def manager(call: Call) -> taskmanagers.TaskManagerDetails:
    """Answer `/taskmanagers/:taskmanagerid`."""
    return taskmanagers.task_manager(manager_of(call))


def manager_metrics(call: Call) -> list[metrics.Metric]:
    """Answer `/taskmanagers/:taskmanagerid/metrics`: none are measured there."""
    manager_of(call)
    return []


def managers_metrics(call: Call) -> list[metrics.AggregatedMetric]:
    """Answer `/taskmanagers/metrics`: none are measured there."""
    return []


def openapi(call: Call) -> dict[str, object]:
    """Answer `/openapi.json`."""
    return dict(call.context.openapi)
