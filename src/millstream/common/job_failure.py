"""What is told of a job's failures (the exception history of Flink's REST interface)."""

from __future__ import annotations

from dataclasses import asdict, dataclass, fields
from typing import Any

__all__ = ["JobFailureInfo"]


@dataclass(frozen=True, slots=True)
class JobFailureInfo:
    """One failure of a job, as plain data.

    Attributes:
        attempt: The attempt that failed, from 0.
        timestamp_ms: When, epoch milliseconds.
        exception_name: Class of what was raised.
        message: What went wrong, in one line.
        operator: The operator whose function raised it; None if none did.
        subtask: Its subtask.
        stacktrace: The traceback with all causes; of a user's function its own.
        restart_delay_ms: After how long the job was started again; None if it was not.
    """

    attempt: int
    timestamp_ms: int
    exception_name: str
    message: str
    operator: str | None
    subtask: int | None
    stacktrace: str
    restart_delay_ms: int | None

    def to_dict(self) -> dict[str, Any]:
        """Return it for JSON."""
        return asdict(self)

    @staticmethod
    def from_dict(document: dict[str, Any]) -> JobFailureInfo:
        """Return what `to_dict` gave; fields that are not known are left out."""
        return JobFailureInfo(**{each.name: document.get(each.name) for each in fields(JobFailureInfo)})  # type: ignore[arg-type]
