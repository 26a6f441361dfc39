"""Ends jobs because their process ends: soon, and with as much cleaned up as there is time for.

::

    cancel, or suspend ─► ended by itself ───────────────────────────────► done
                 └── GRACE_S ──► abandon: functions that do not return are left ─► ABORT_S ─► done, whatever there is
"""

from __future__ import annotations

from collections.abc import Iterable
from contextlib import suppress

from millstream.base.clock import Clock
from millstream.base.errors import MillstreamError
from millstream.graph.launcher import RunningJob

__all__ = ["end_jobs"]

GRACE_S = 1.0
ABORT_S = 4.0


def end_jobs(jobs: Iterable[RunningJob], clock: Clock, *, suspend: bool = False) -> None:
    """Cancel jobs and wait until they have ended, five seconds at most.

    Args:
        jobs: Those that run.
        clock: Time.
        suspend: Whether jobs with which a later driver can go on are left to it.

    Raises:
        KeyboardInterrupt: If the wait was interrupted; the caller ends at once.
    """
    remaining = list(jobs)
    for job in remaining:
        if suspend:
            job.suspend()
        else:
            job.cancel()
    remaining = _wait(remaining, clock, GRACE_S)
    remaining = [job for job in remaining if not job.abandon()]
    _wait(remaining, clock, ABORT_S)


def _wait(jobs: list[RunningJob], clock: Clock, seconds: float) -> list[RunningJob]:
    """Wait for jobs together; return those that still run."""
    deadline = clock.monotonic() + seconds
    running = []
    for job in jobs:
        try:
            with suppress(MillstreamError):
                job.wait(max(deadline - clock.monotonic(), 0))
        except TimeoutError:
            running.append(job)
    return running
