"""Why attempts of a job have failed."""

from __future__ import annotations

from dataclasses import dataclass

from millstream.common.job_failure import JobFailureInfo

__all__ = ["ExceptionsView", "FailureView"]


@dataclass(frozen=True, slots=True)
class FailureView:
    """One failure.

    Attributes:
        failure: What went wrong, where and when; of a user's function its own traceback.
        vertex_id: The vertex that its operator belongs to; None if no operator failed.
        vertex_name: That vertex' name.
        host: Where the subtask ran; None if that is not known.
    """

    failure: JobFailureInfo
    vertex_id: str | None = None
    vertex_name: str | None = None
    host: str | None = None


@dataclass(frozen=True, slots=True)
class ExceptionsView:
    """The last failures.

    Attributes:
        failures: The latest first.
        total: How many there were.
    """

    failures: tuple[FailureView, ...] = ()
    total: int = 0

    @property
    def root(self) -> FailureView | None:
        """The latest failure; None if there was none."""
        return self.failures[0] if self.failures else None
