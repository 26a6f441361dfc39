"""What a client is told that asked for what there is not: Flink's `{"errors": [...]}` with a status code."""

from __future__ import annotations

from collections.abc import Sequence

from millstream.base.errors import (
    ConfigurationError,
    JobExecutionError,
    JobRequestError,
    MillstreamError,
    NotSupportedError,
    StateQueryError,
)
from millstream.rest.documents.base import Document

__all__ = ["Errors", "RestError", "describe_error"]

_STATUS = {
    NotSupportedError.code: 501,
    StateQueryError.code: 404,
    ConfigurationError.code: 400,
    JobRequestError.code: 409,
    JobExecutionError.code: 409,
    "JOB_ENDED": 409,
}
"""By the code of an error; all others are 503: what is needed for an answer does not answer."""


class Errors(Document, frozen=True, kw_only=True):
    """What went wrong, for a person."""

    errors: list[str]


class RestError(Exception):
    """An answer that is an error.

    Args:
        status: Of HTTP, 400 to 599.
        message: For a person: what was seen, and what to do.
        headers: More headers of the answer.
    """

    def __init__(self, status: int, message: str, *, headers: Sequence[tuple[str, str]] = ()) -> None:
        super().__init__(message)
        self.status = status
        self.message = message
        self.headers = tuple(headers)


def describe_error(error: MillstreamError) -> RestError:
    """Return the answer for an error that the control plane has raised.

    >>> error = describe_error(JobRequestError("the job has ended", hint="Look at /jobs."))
    >>> error.status, error.message
    (409, 'the job has ended. Look at /jobs.')
    """
    code = error.reason if isinstance(error, JobRequestError) else error.code
    status = _STATUS.get(code, 503)
    parts = [error.message, error.detail, error.hint]
    return RestError(status, ". ".join(part.rstrip(".") for part in parts if part) + ".")
