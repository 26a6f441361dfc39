"""Ids of jobs (PyFlink's `pyflink.common.job_id`)."""

from __future__ import annotations

from dataclasses import dataclass

__all__ = ["JobID"]


@dataclass(frozen=True)
class JobID:
    """Names one run of a job.

    Attributes:
        value: 32 hexadecimal digits.

    Example:
        >>> from millstream.common import JobID
        >>> JobID("00112233445566778899aabbccddeeff") == JobID("00112233445566778899aabbccddeeff")
        True
    """

    value: str

    def __str__(self) -> str:
        return self.value
