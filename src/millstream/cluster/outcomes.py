"""How a program ended: from its exit code and from what its jobs left for later drivers.

=====================  =============================================================================
seen                   the application
=====================  =============================================================================
exit code 0            FINISHED; CANCELED if its last job was
exit code 75           goes on when there is a session again: the one it had is gone
a signal, or 143       goes on: somebody ended the process, not the program
any other code         FAILED; CANCELED if its last job was
not known (adopted)    as its last job, if that has ended; else it goes on
=====================  =============================================================================
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from millstream.cluster.applications import CANCELED, FAILED, FINISHED
from millstream.cluster.core import ProcessEnded
from millstream.runtime.recovery.results import EndedJob, read_results

__all__ = ["find_outcome", "judge"]

_SESSION_LOST = 75
_TERMINATED = 143
_SHOWN_LINES = 20
_READ_BYTES = 20_000


def find_outcome(application_id: str, code: int | None, *, recovery: Path, log: Path) -> ProcessEnded:
    """Return what became of an application whose process has ended.

    Args:
        application_id: Whose.
        code: Its exit code, negative for a signal; None if that is not known.
        recovery: Directory in which its jobs leave what a later driver needs.
        log: What its last process wrote.

    Raises:
        MillstreamError: If what its jobs left cannot be read.
    """
    ended = read_results(str(recovery))
    submitted = recovery.is_dir() and any(recovery.iterdir())
    return judge(application_id, code, ended=ended, submitted=submitted, last_lines=_last_lines(log))


def judge(
    application_id: str, code: int | None, *, ended: Sequence[EndedJob], submitted: bool, last_lines: str = ""
) -> ProcessEnded:
    """Decide by the module's table.

    Args:
        application_id: Whose process it was.
        code: Its exit code.
        ended: Its jobs that have ended.
        submitted: Whether it had submitted a job.
        last_lines: The end of what it wrote.

    >>> judge("a", 0, ended=[], submitted=True).status, judge("a", -9, ended=[], submitted=True).status
    ('FINISHED', None)
    """
    last = max(ended, key=lambda each: each.ended_ms, default=None)
    was_canceled = last is not None and last.status == CANCELED
    if code == _SESSION_LOST:
        return ProcessEnded(
            application_id, None, submitted, session_lost=True, message="its Spark session has ended"
        )
    if code is None:
        if last is not None:
            return ProcessEnded(application_id, last.status, submitted)
        return ProcessEnded(application_id, None, submitted, message="its process has ended")
    if code < 0 or code == _TERMINATED:
        said = f"signal {-code}" if code < 0 else "SIGTERM"
        return ProcessEnded(application_id, None, submitted, message=f"its process was ended by {said}")
    if was_canceled:
        return ProcessEnded(application_id, CANCELED, submitted)
    if code == 0:
        return ProcessEnded(application_id, FINISHED, submitted)
    return ProcessEnded(
        application_id, FAILED, submitted, message=last_lines or f"it ended with exit code {code}"
    )


def _last_lines(log: Path) -> str:
    try:
        with open(log, "rb") as file:
            file.seek(0, 2)
            file.seek(max(file.tell() - _READ_BYTES, 0))
            text = file.read().decode("utf-8", errors="replace")
    except FileNotFoundError:
        return ""
    return "\n".join(text.rstrip().splitlines()[-_SHOWN_LINES:])
