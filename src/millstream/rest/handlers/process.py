"""The process that serves: its threads and log files."""

from __future__ import annotations

from millstream.rest.documents import process
from millstream.rest.errors import RestError
from millstream.rest.routes import Call, PlainText

__all__ = ["log_file", "log_files", "main_log", "thread_dump"]


def thread_dump(call: Call) -> process.ThreadDump:
    """Answer `/jobmanager/thread-dump`."""
    return process.thread_dump()


def log_files(call: Call) -> process.LogFiles:
    """Answer `/jobmanager/logs`."""
    return process.list_logs(call.context.logs())


def log_file(call: Call) -> PlainText:
    """Answer `/jobmanager/logs/:filename`."""
    return _read(call, call.path["filename"])


def main_log(call: Call) -> PlainText:
    """Answer `/jobmanager/log` and `/jobmanager/stdout`, which are one file."""
    return _read(call, call.context.main_log)


def _read(call: Call, name: str) -> PlainText:
    """Return a file of the list: a name says which of those, and never where to look."""
    path = call.context.logs().get(name)
    if path is None:
        raise RestError(
            404, f"there is no log file {name[:200]!r}; /jobmanager/logs lists those that there are"
        )
    try:
        return PlainText(process.read_log(path))
    except FileNotFoundError:
        raise RestError(404, f"log file {name[:200]!r} is not there any more, or not yet") from None
