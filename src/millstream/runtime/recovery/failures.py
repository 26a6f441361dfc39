"""The failures of one job: why its attempts ended, the last few of them."""

from __future__ import annotations

import traceback
from dataclasses import dataclass

from millstream.base.errors import MillstreamError, UserFunctionError
from millstream.common.job_failure import JobFailureInfo

__all__ = ["FailureHistory", "JobFailure", "describe_briefly", "describe_failure"]

_MOST_TEXT = 8_000


@dataclass(frozen=True, slots=True)
class JobFailure:
    """One failure of a job.

    Attributes:
        attempt: The attempt that failed, from 0.
        time_ms: When, epoch milliseconds.
        error: Why.
        delay_ms: After how long the job is started again; None if it is not.
    """

    attempt: int
    time_ms: int
    error: BaseException
    delay_ms: int | None = None


class FailureHistory(list[JobFailure]):
    """The last failures, the oldest first; a job may fail for weeks, so their number is bounded.

    Args:
        size: How many are kept.

    Attributes:
        total: How many there were.
    """

    def __init__(self, size: int = 16) -> None:
        super().__init__()
        self._size = size
        self.total = 0

    def add(self, failure: JobFailure) -> None:
        """Add the latest."""
        self.total += 1
        self.append(failure)
        del self[: -self._size]


def describe_failure(failure: JobFailure) -> JobFailureInfo:
    """Return what others are told of a failure."""
    error = failure.error
    if isinstance(error, UserFunctionError):
        trace = error.user_traceback
    else:
        trace = "".join(traceback.format_exception(error))
    return JobFailureInfo(
        attempt=failure.attempt,
        timestamp_ms=failure.time_ms,
        exception_name=type(error).__name__,
        message=describe_briefly(error),
        operator=error.operator if isinstance(error, MillstreamError) else None,
        subtask=error.subtask if isinstance(error, MillstreamError) else None,
        stacktrace=trace[-_MOST_TEXT:],
        restart_delay_ms=failure.delay_ms,
    )


def describe_briefly(error: BaseException) -> str:
    """Return what a job failed with in one line."""
    if isinstance(error, UserFunctionError):
        last = error.user_traceback.strip().splitlines()[-1:]
        return f'{"".join(last)} in operator "{error.operator}", subtask {error.subtask}'
    return error.message if isinstance(error, MillstreamError) else f"{type(error).__name__}: {error}"
