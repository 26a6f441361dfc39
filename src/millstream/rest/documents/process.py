"""The process that serves: its threads and log files."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path

from millstream.rest.documents.base import CamelDocument, Document
from millstream.runtime.control.views import ThreadsView

__all__ = ["LogFiles", "ThreadDump", "list_logs", "read_log", "thread_dump"]

_MOST_BYTES = 10_000_000
"""Of a log file, what is shown: its end."""


class ThreadInfo(CamelDocument, frozen=True, kw_only=True):
    """A thread and its stack."""

    thread_name: str
    stringified_thread_info: str


class ThreadDump(CamelDocument, frozen=True, kw_only=True):
    """`/jobmanager/thread-dump`, and that of a task manager: threads of Python."""

    thread_infos: list[ThreadInfo]


class LogFile(Document, frozen=True, kw_only=True):
    """A log file."""

    name: str
    size: int
    mtime: int


class LogFiles(Document, frozen=True, kw_only=True):
    """`/jobmanager/logs`, and those of a task manager: none, unless a cluster's dispatcher serves."""

    logs: list[LogFile]


def thread_dump(view: ThreadsView) -> ThreadDump:
    """Return the stacks of all threads of a process, innermost call last."""
    return ThreadDump(
        thread_infos=[
            ThreadInfo(
                thread_name=each.name, stringified_thread_info=f'"{each.name}" Id={each.ident}\n{each.stack}'
            )
            for each in view.threads
        ]
    )


def list_logs(files: Mapping[str, Path]) -> LogFiles:
    """Return those of some files that are there."""
    found = []
    for name, path in sorted(files.items()):
        try:
            status = path.stat()
        except FileNotFoundError:
            continue
        found.append(LogFile(name=name, size=status.st_size, mtime=status.st_mtime_ns // 1_000_000))
    return LogFiles(logs=found)


def read_log(path: Path) -> str:
    """Return a log file's text; of a large one its end, from the begin of a line.

    Raises:
        FileNotFoundError: If it is not there.
    """
    with path.open("rb") as file:
        size = file.seek(0, os.SEEK_END)
        file.seek(max(size - _MOST_BYTES, 0))
        content = file.read(_MOST_BYTES)
    if size > _MOST_BYTES:
        content = content.partition(b"\n")[2]
    return content.decode("utf-8", errors="replace")
