"""A client of an AWS service: waits while it is away or busy, and says what its errors mean."""

from __future__ import annotations

import email.utils
import logging
from typing import Any

from millstream.base.clock import SystemClock
from millstream.base.errors import MillstreamError
from millstream.base.optional import load_package
from millstream.connectors.aws_properties import AwsProperties
from millstream.connectors.patience import Patience

__all__ = ["THROTTLED", "AwsClient", "AwsRefusal", "answered_ms"]

log = logging.getLogger(__name__)

THROTTLED = frozenset(
    {
        "KMSThrottlingException",
        "LimitExceededException",
        "ProvisionedThroughputExceededException",
        "RequestLimitExceeded",
        "ThrottlingException",
    }
)
"""Codes that say that too much is asked for at a time."""

_SERVER_ERROR = 500
_LOGIN = "Check the credentials: the properties aws.credentials.provider…, or what the machine's default is."
_HINTS = {
    "ResourceNotFoundException": "Check its name and the region, or make it before the job starts.",
    "AccessDeniedException": "Have somebody allow it to the user or role whose credentials are used.",
    "UnrecognizedClientException": _LOGIN,
    "InvalidSignatureException": _LOGIN,
    "IncompleteSignatureException": _LOGIN,
    "MissingAuthenticationTokenException": _LOGIN,
    "InvalidClientTokenId": _LOGIN,
    "ExpiredTokenException": _LOGIN,
    "NoCredentialsError": _LOGIN,
    "PartialCredentialsError": _LOGIN,
    "AWAY": "Check that it can be reached from the driver and from where slots run, and the property aws.endpoint.",
    "BUSY": "Others use its capacity too: have it raised, or let the job wait longer (set_patience).",
}


class AwsRefusal(Exception):
    """What a service refused, as its caller asked to be told.

    Attributes:
        code: The service's code.
    """

    def __init__(self, code: str, message: str) -> None:
        super().__init__(message)
        self.code = code


class AwsClient:
    """A client of one service; any thread may call it.

    Args:
        service: As boto3 calls it.
        properties: Where it is, and who one is there.
        patience: How long it is waited for.
        error_type: What is raised: a SourceError or a SinkError.
        extra: The extra that brings boto3.
        what: Who needs it, in the plural.
        connections: How many threads may call it at a time.
    """

    def __init__(
        self,
        service: str,
        properties: AwsProperties,
        patience: Patience,
        error_type: type[MillstreamError],
        *,
        extra: str,
        what: str,
        connections: int = 10,
    ) -> None:
        self._service = service
        self._properties = properties
        self._patience = patience
        self._error_type = error_type
        self._errors = load_package("botocore.exceptions", extra=extra, what=what)
        self._client = properties.open_client(service, extra=extra, what=what, connections=connections)

    def call(
        self, what: str, operation: str, *, refusals: frozenset[str] = frozenset(), **arguments: Any
    ) -> dict[str, Any]:
        """Return what an operation answers; it is repeated while the service is away or busy.

        Args:
            what: What is being done: `reading shard 7`.
            operation: A method of boto3's client.
            refusals: Codes that the caller wants to be told of at once.
            arguments: Of the operation.

        Raises:
            AwsRefusal: If the service answers with one of these codes.
            MillstreamError: If the service refuses it, or stays away.
        """

        def ask() -> dict[str, Any]:
            try:
                answer: dict[str, Any] = getattr(self._client, operation)(**arguments)
            except self._errors.ClientError as error:
                if (code := _code(error)) in refusals:
                    raise AwsRefusal(code, self._properties.without_secrets(str(error))) from None
                raise
            return answer

        try:
            return self._patience.call(
                ask,
                is_passing=self._is_passing,
                what=f"{self._service} {self._properties.address}, {what}",
                log=log,
            )
        except (self._errors.ClientError, self._errors.BotoCoreError) as error:
            raise self._explained(what, error) from None  # the cause may show what is secret

    def explain(self, what: str, code: str, message: str) -> MillstreamError:
        """Return the error that says what a code of the service means.

        Args:
            what: What was being done.
            code: The service's code.
            message: Its message.
        """
        reason = "BUSY" if code in THROTTLED else code
        return self._error_type(
            f"{self._service} refused or did not answer, {what}: {self._properties.without_secrets(message)}",
            detail=f"Service at {self._properties.address}.",
            hint=_HINTS.get(reason),
        )

    def _explained(self, what: str, error: Exception) -> MillstreamError:
        if isinstance(error, self._errors.ClientError):
            code = _code(error)
            return self.explain(what, code, f"{code}: {error.response['Error'].get('Message', '')}")
        code = type(error).__name__
        return self.explain(what, "AWAY" if self._is_passing(error) else code, f"{code}: {error}")

    def _is_passing(self, error: Exception) -> bool:
        if isinstance(error, self._errors.ClientError):
            status = error.response.get("ResponseMetadata", {}).get("HTTPStatusCode", 0)
            return status >= _SERVER_ERROR or _code(error) in THROTTLED
        if isinstance(error, self._errors.SSLError):
            return False
        return isinstance(error, (self._errors.ConnectionError, self._errors.HTTPClientError))


def _code(error: Any) -> str:
    code: str = error.response.get("Error", {}).get("Code", "")
    return code


def answered_ms(answer: dict[str, Any]) -> int:
    """Return when a service gave an answer, by its own clock: epoch milliseconds, of the second that had begun."""
    date = answer.get("ResponseMetadata", {}).get("HTTPHeaders", {}).get("date")
    if date is None:
        return SystemClock().now_ms()
    return int(email.utils.parsedate_to_datetime(date).timestamp()) * 1_000
