"""What becomes of the jobs that still run as their process ends: they are cancelled, and one line says so.

==================================================  ======================================================
the program                                         its jobs
==================================================  ======================================================
ends, or raises                                     are cancelled, but for those that a thread waits for
                                                    for which Python waits too
is interrupted (Ctrl-C)                             are cancelled
gets SIGTERM                                        are cancelled; left to the next driver, if that can go on with
                                                    them (`high-availability.storageDir`)
gets a second signal                                are left; what they leave is removed by the next job
==================================================  ======================================================

SIGTERM is handled here only where nobody else does: it ends the program by `SystemExit(143)`, so that what stands
behind a `finally` is done.
"""

from __future__ import annotations

import atexit
import concurrent.futures.thread  # noqa: F401 - what it does at the end comes behind what is registered here
import logging
import os
import signal
import sys
import threading
from contextlib import suppress
from types import FrameType, TracebackType
from typing import Any, Protocol

from millstream.base.clock import SystemClock
from millstream.base.signals import handle_once
from millstream.graph.ending import end_jobs
from millstream.graph.launcher import RunningJob

__all__ = ["EndingJob", "enter", "leave"]

_log = logging.getLogger(__name__)

EXIT_INTERRUPTED = 130
EXIT_TERMINATED = 143


class EndingJob(Protocol):
    """What is asked of a job here."""

    name: str

    @property
    def is_awaited(self) -> bool:
        """Whether a thread waits for it for which Python waits before the process ends."""


class _Process:
    """The jobs that run in this process."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._jobs: dict[int, Any] = {}
        self._arranged = False
        self._terminating = False
        self._suspending = False
        self._hook: Any = None

    def enter(self, job: EndingJob) -> None:
        with self._lock:
            self._jobs[id(job)] = job
            arranged, self._arranged = self._arranged, True
        if not arranged:
            atexit.register(self.end)
            # What comes first is done before other threads are joined and thread pools refuse work.
            with suppress(
                AttributeError, RuntimeError
            ):  # another Python, or the main thread has ended already
                threading._register_atexit(self.end)  # type: ignore[attr-defined]
            self._hook, sys.excepthook = sys.excepthook, self._on_error
        on_main = threading.current_thread() is threading.main_thread()
        if on_main and signal.getsignal(signal.SIGTERM) is signal.SIG_DFL:
            handle_once(signal.SIGTERM, self._on_sigterm)

    def leave(self, job: EndingJob) -> None:
        with self._lock:
            self._jobs.pop(id(job), None)

    def end(self) -> None:
        """Cancel what runs; a second signal ends the process."""
        with self._lock:
            jobs = [job for job in self._jobs.values() if self._terminating or not job.is_awaited]
            for job in jobs:
                del self._jobs[id(job)]
        if not jobs:
            return
        for job in jobs:
            if self._suspending:
                job.suspend()
            if not job.is_suspended:  # one that is says so itself
                _log.warning(
                    'job "%s" still ran as the program ended, and was cancelled; to wait for its end, call '
                    "get_job_execution_result().result() on its client",
                    job.name,
                )
        try:
            running: list[RunningJob] = jobs
            end_jobs(running, SystemClock(), suspend=self._suspending)
        except KeyboardInterrupt:
            os._exit(EXIT_INTERRUPTED)

    def _on_error(self, kind: type[BaseException], error: BaseException, trace: TracebackType | None) -> None:
        """Have the program's own error stand last."""
        if not (sys.flags.interactive or hasattr(sys, "ps1")):
            self._terminating = self._terminating or issubclass(kind, KeyboardInterrupt)
            self.end()
        self._hook(kind, error, trace)

    def _on_sigterm(self, _number: int, _frame: FrameType | None) -> None:
        signal.signal(signal.SIGTERM, signal.SIG_DFL)
        self._terminating = self._suspending = True
        raise SystemExit(EXIT_TERMINATED)

    def after_fork(self) -> None:
        """A child has none of the threads that run the jobs."""
        self._lock = threading.Lock()
        self._jobs.clear()


_process = _Process()
if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_process.after_fork)


def enter(job: EndingJob) -> None:
    """Have a job that now runs on its own thread ended with the process, unless it leaves before."""
    _process.enter(job)


def leave(job: EndingJob) -> None:
    """Forget a job: it has ended."""
    _process.leave(job)
