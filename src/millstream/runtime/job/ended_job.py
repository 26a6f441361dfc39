"""A job that is not run: it had ended when somebody asked for it to recover."""

from __future__ import annotations

from collections.abc import Iterator
from concurrent.futures import Future
from datetime import UTC, datetime
from typing import Any

from millstream.base.errors import JobExecutionError
from millstream.common.job_failure import JobFailureInfo
from millstream.graph.launcher import JobResult, RunningJob
from millstream.runtime.recovery.results import EndedJob, load_accumulators

__all__ = ["JobEndedBefore", "describe_end"]

_WORDS = {"FINISHED": "finished", "FAILED": "failed", "CANCELED": "was cancelled"}


def describe_end(ended: EndedJob) -> str:
    """Return how a job ended, and when."""
    at = datetime.fromtimestamp(ended.ended_ms / 1000, UTC)
    return f'job "{ended.name}" {_WORDS[ended.status]} at {at:%Y-%m-%d %H:%M:%S} UTC'


class JobEndedBefore(RunningJob):
    """How a job of an earlier run of the program ended.

    Args:
        ended: What it left.
        where: Where that is.
    """

    ended_before = True

    def __init__(self, ended: EndedJob, where: str) -> None:
        self.job_id = ended.job_id
        self._ended = ended
        self._hint = f'A run without --recover, or without the file "{where}", begins anew.'

    def wait(self, timeout_s: float | None = None) -> JobResult:
        """Return the job's result.

        Raises:
            JobExecutionError: If it had failed or was cancelled.
        """
        if self._ended.status == "FINISHED":
            return JobResult(self.job_id, self._ended.runtime_ms, None, self.accumulators())
        failures = self._ended.failures
        detail = failures[-1].message if failures and self._ended.status == "FAILED" else None
        raise JobExecutionError(describe_end(self._ended), detail=detail, hint=self._hint)

    def cancel(self) -> None:
        """Do nothing: it has ended."""

    def stop(self) -> None:
        """Do nothing: it has ended."""

    def savepoint(
        self, directory: str | None = None, *, stop: bool = False, drain: bool = False
    ) -> Future[str]:
        """Tell that there is nothing to make one of."""
        return self._too_late()

    def query_state(self, uid: str, state: str, key: Any, namespace: Any = None) -> Future[bytes]:
        """Tell that there is nothing to ask."""
        return self._too_late()

    def collected(self, collect_id: str) -> Iterator[Any]:
        """Tell that the records are gone.

        Raises:
            JobExecutionError: Always.
        """
        self.wait()
        raise JobExecutionError(
            f"{describe_end(self._ended)}; the records that it collected went to the program that ran it",
            hint=self._hint,
        )

    def status(self) -> str:
        """Return how it ended."""
        return self._ended.status

    def accumulators(self) -> dict[str, Any]:
        """Return the accumulators' results."""
        return load_accumulators(self._ended.accumulators)

    def failures(self) -> list[JobFailureInfo]:
        """Return its last failures."""
        return list(self._ended.failures)

    def _too_late(self) -> Future[Any]:
        future: Future[Any] = Future()
        future.set_exception(JobExecutionError(describe_end(self._ended), hint=self._hint))
        return future
