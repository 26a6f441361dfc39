"""How long a job goes on beside a commit of its sinks before it waits: whether the next checkpoint may be made."""

from __future__ import annotations

import logging
import math

from millstream.base.clock import Clock

__all__ = ["CommitPace"]

log = logging.getLogger(__name__)

_SLOW_S = 30.0
_MOMENT_S = 0.01
"""For so long a job waits for a commit before it puts off the next checkpoint: most take less."""


class CommitPace:
    """Knows how long a commit takes, and for how long the job has been behind its sources.

    Args:
        clock: Time.
        put_off_s: For how long a checkpoint is put off at most.
        wait_when_behind_s: A job that has been behind for so long puts off none.
        job_id: For the log.
    """

    def __init__(self, clock: Clock, *, put_off_s: float, wait_when_behind_s: float, job_id: str) -> None:
        self._clock = clock
        self._put_off_s = put_off_s
        self._wait_when_behind_s = wait_when_behind_s
        self._job_id = job_id
        self._began = clock.monotonic()
        self._tell_after_s = _SLOW_S
        self._moment_s = _MOMENT_S
        self._behind_since: float | None = None

    def plan(self, *, is_behind: bool) -> None:
        """Learn whether sources have more than is read next, or records are held."""
        if not is_behind:
            self._behind_since = None
        elif self._behind_since is None:
            self._behind_since = self._clock.monotonic()

    def begin(self) -> None:
        """Learn that sinks begin to commit."""
        self._began, self._tell_after_s, self._moment_s = self._clock.monotonic(), _SLOW_S, _MOMENT_S

    def take_moment_s(self) -> float:
        """Return for how many seconds to wait before the next checkpoint is put off: once for each commit."""
        moment_s, self._moment_s = self._moment_s, 0.0
        return moment_s

    def may_record(self) -> bool:
        """Return whether a checkpoint may be made with the next epoch though a commit is under way.

        It is complete only when what the one before holds is committed, and the job stands still until then. So it
        is made later, but not put off for long, nor by a job that does not keep up with its sources: the longer that
        goes on the more there is to commit next.
        """
        now, since = self._clock.monotonic(), self._behind_since
        is_behind = since is not None and now - since >= self._wait_when_behind_s
        return is_behind or now - self._began >= self._put_off_s

    def look(self) -> None:
        """Tell of a commit that is under way and takes long, once."""
        if self._clock.monotonic() - self._began < self._tell_after_s:
            return
        self._tell_after_s = math.inf
        log.warning(
            "sinks have been committing for longer than %g s; the next checkpoint waits for them",
            _SLOW_S,
            extra={"job": self._job_id},
        )
