"""The process that serves, and the task managers: their threads and log files."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from millstream.rest.documents import process
from millstream.rest.errors import RestError
from millstream.rest.handlers.found import manager_of
from millstream.rest.routes import Call, PlainText
from millstream.runtime.control.threads import describe_threads
from millstream.runtime.control.views import ThreadsView

__all__ = [
    "log_file",
    "log_files",
    "main_log",
    "manager_log",
    "manager_log_file",
    "manager_log_files",
    "manager_thread_dump",
    "thread_dump",
]


def thread_dump(call: Call) -> process.ThreadDump:
    """Answer `/jobmanager/thread-dump`."""
    return process.thread_dump(describe_threads())


def log_files(call: Call) -> process.LogFiles:
    """Answer `/jobmanager/logs`."""
    return process.list_logs(call.context.logs())


def log_file(call: Call) -> PlainText:
    """Answer `/jobmanager/logs/:filename`."""
    return _read(call.context.logs(), call.path["filename"], "/jobmanager/logs")


def main_log(call: Call) -> PlainText:
    """Answer `/jobmanager/log` and `/jobmanager/stdout`, which are one file."""
    return _read(call.context.logs(), call.context.main_log, "/jobmanager/logs")


def manager_thread_dump(call: Call) -> process.ThreadDump:
    """Answer `/taskmanagers/:taskmanagerid/thread-dump`: that of the driver, if the slots live in it."""
    manager = manager_of(call)
    apart = [slot for slot in manager.slots if slot.pid != manager.job.pid]
    if apart:
        raise RestError(
            404,
            f"its slots are processes of their own, whose stacks are not asked for: on {apart[0].host} "
            f"`py-spy dump --pid {apart[0].pid}` shows them",
        )
    return process.thread_dump(call.context.jobs.view(manager.job.job_id, ThreadsView))


def manager_log_files(call: Call) -> process.LogFiles:
    """Answer `/taskmanagers/:taskmanagerid/logs`: what its slots print and log is in its program's log."""
    return process.list_logs(_manager_logs(call))


def manager_log_file(call: Call) -> PlainText:
    """Answer `/taskmanagers/:taskmanagerid/logs/:filename`."""
    return _read(_manager_logs(call), call.path["filename"], "/taskmanagers/:taskmanagerid/logs")


def manager_log(call: Call) -> PlainText:
    """Answer `/taskmanagers/:taskmanagerid/log` and `/stdout`, which are one file: the last one."""
    logs = _manager_logs(call)
    latest = max(process.list_logs(logs).logs, key=lambda each: (each.mtime, each.name), default=None)
    if latest is None:
        raise RestError(404, "of this task manager there is no log file; a cluster has those of its programs")
    return _read(logs, latest.name, "/taskmanagers/:taskmanagerid/logs")


def _manager_logs(call: Call) -> Mapping[str, Path]:
    found: Mapping[str, Path] = call.context.logs_of(manager_of(call).job.pid)
    return found


def _read(logs: Mapping[str, Path], name: str, listed: str) -> PlainText:
    """Return a file of the list: a name says which of those, and never where to look."""
    path = logs.get(name)
    if path is None:
        raise RestError(404, f"there is no log file {name[:200]!r}; {listed} lists those that there are")
    try:
        return PlainText(process.read_log(path))
    except FileNotFoundError:
        raise RestError(404, f"log file {name[:200]!r} is not there any more, or not yet") from None
