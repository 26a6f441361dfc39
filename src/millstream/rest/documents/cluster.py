"""What is told of the cluster: the process that serves, and what its jobs have."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence

from millstream.rest.documents.base import Document, KebabDocument
from millstream.rest.documents.taskmanagers import group_slots
from millstream.runtime.control.views import JobView
from millstream.version import __version__

__all__ = [
    "ConfigEntry",
    "DashboardConfig",
    "Environment",
    "Jvm",
    "Overview",
    "config_entries",
    "dashboard_config",
    "overview",
    "process_environment",
]

_FLINK_VERSION = "2.3.0"
"""Whose documents these are; clients look at it to know what to expect."""
_REFRESH_MS = 3_000
_RUNNING = ("CREATED", "RUNNING", "FAILING", "CANCELLING", "RESTARTING", "INITIALIZING", "RECONCILING")


class Overview(KebabDocument, frozen=True, kw_only=True):
    """`/overview`."""

    taskmanagers: int
    slots_total: int
    slots_available: int
    jobs_running: int
    jobs_finished: int
    jobs_cancelled: int
    jobs_failed: int
    flink_version: str
    flink_commit: str
    millstream_version: str


class Features(KebabDocument, frozen=True, kw_only=True):
    """What the web interface offers."""

    web_submit: bool
    web_cancel: bool
    web_rescale: bool
    web_history: bool


class DashboardConfig(KebabDocument, frozen=True, kw_only=True):
    """`/config`."""

    refresh_interval: int
    timezone_name: str
    timezone_offset: int
    flink_version: str
    flink_revision: str
    features: Features


class ConfigEntry(Document, frozen=True, kw_only=True):
    """One option."""

    key: str
    value: str


class Jvm(Document, frozen=True, kw_only=True):
    """What runs the process: in millstream, Python."""

    version: str
    arch: str
    options: list[str]


class Environment(Document, frozen=True, kw_only=True):
    """`/jobmanager/environment`."""

    jvm: Jvm
    classpath: list[str]


def overview(jobs: Sequence[JobView]) -> Overview:
    """Return how many slots and jobs there are; every slot belongs to a job, so none is available."""
    counts = Counter(job.status for job in jobs)
    managers = group_slots(jobs)
    return Overview(
        taskmanagers=len(managers),
        slots_total=sum(len(manager.slots) for manager in managers),
        slots_available=0,
        jobs_running=sum(counts[status] for status in _RUNNING),
        jobs_finished=counts["FINISHED"],
        jobs_cancelled=counts["CANCELED"],
        jobs_failed=counts["FAILED"],
        flink_version=_FLINK_VERSION,
        flink_commit="unknown",
        millstream_version=__version__,
    )


def dashboard_config(timezone_name: str, timezone_offset_ms: int, *, submits: bool) -> DashboardConfig:
    """Return what a web interface needs to know first."""
    return DashboardConfig(
        refresh_interval=_REFRESH_MS,
        timezone_name=timezone_name,
        timezone_offset=timezone_offset_ms,
        flink_version=_FLINK_VERSION,
        flink_revision=f"millstream {__version__}",
        features=Features(web_submit=submits, web_cancel=True, web_rescale=True, web_history=False),
    )


def config_entries(options: Mapping[str, str | None]) -> list[ConfigEntry]:
    """Return options by key; those without a value are left out."""
    return [ConfigEntry(key=key, value=value) for key, value in sorted(options.items()) if value is not None]


def process_environment(
    version: str, arch: str, arguments: Sequence[str], path: Sequence[str]
) -> Environment:
    """Return what a process runs in."""
    return Environment(jvm=Jvm(version=version, arch=arch, options=[*arguments]), classpath=[*path])
