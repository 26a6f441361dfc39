"""What becomes of a job (PyFlink's `pyflink.common.job_status`)."""

from __future__ import annotations

from enum import Enum

__all__ = ["JobStatus"]


class JobStatus(Enum):
    """Flink's job statuses.

    ::

        CREATED -> RUNNING -> FINISHED
                      |-----> FAILING -> FAILED | RESTARTING -> CREATED
                      `-----> CANCELLING -> CANCELED

    Example:
        >>> from millstream.common import JobStatus
        >>> [status.name for status in JobStatus if status.is_globally_terminal_state()]
        ['FAILED', 'CANCELED', 'FINISHED']
    """

    CREATED = 0
    RUNNING = 1
    FAILING = 2
    FAILED = 3
    CANCELLING = 4
    CANCELED = 5
    FINISHED = 6
    RESTARTING = 7
    SUSPENDED = 8
    RECONCILING = 9

    def is_globally_terminal_state(self) -> bool:
        """Return whether the job has ended for good."""
        return self in (JobStatus.FAILED, JobStatus.CANCELED, JobStatus.FINISHED)

    def is_terminal_state(self) -> bool:
        """Return whether the job has ended here; it may go on elsewhere."""
        return self.is_globally_terminal_state() or self is JobStatus.SUSPENDED
