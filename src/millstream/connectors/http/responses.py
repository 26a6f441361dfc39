"""What a server answers, and what it means."""

from __future__ import annotations

import email.utils
import json
import ssl
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from millstream.base.clock import SystemClock
from millstream.base.errors import MalformedRecordError, MillstreamError, shorten

__all__ = ["HttpRefusal", "HttpResponse", "check_status", "explain", "is_passing"]

_PASSING = frozenset({408, 425, 429, 500, 502, 503, 504})
_HINTS = {
    401: "Check user and password, or the header Authorization.",
    403: "Check what the user, or the key that is sent, may do.",
    404: "Check the URL.",
    413: "Send fewer records with a request: set_batch_size(...).",
    429: "Ask less often, or send more with each request.",
}
_SHOWN_BYTES = 200
_AWAY = "Check that the server runs and can be reached from where slots run."
_TLS = "Check which authority signed the server's certificate: set_certificate_authority(...)."
_REDIRECTED = "Redirects are not followed, as headers may hold secrets: name the URL that is meant."


@dataclass(frozen=True, slots=True)
class HttpResponse:
    """What a server answered.

    Attributes:
        status: 200 and such.
        headers: By name in lower case; several of one name are joined by commas.
        body: The bytes, decompressed.
        address: What was asked, without secrets.

    Example:
        >>> from millstream.datastream.connectors.http import HttpResponse
        >>> HttpResponse(200, {"content-type": "application/json"}, b'{"items": []}', "http://localhost:8080/feed").json()
        {'items': []}
    """

    status: int
    headers: Mapping[str, str] = field(repr=False)
    body: bytes = field(repr=False)
    address: str

    @staticmethod
    def of(response: Any, address: str) -> HttpResponse:
        """Return what httpx read."""
        headers = {name.lower(): value for name, value in response.headers.items()}
        return HttpResponse(response.status_code, headers, response.content, address)

    def json(self) -> Any:
        """Return the body, which is JSON.

        Raises:
            MalformedRecordError: If it is not.
        """
        try:
            return json.loads(self.body)
        except ValueError as error:
            raise MalformedRecordError(
                f"the answer of {self.address} is no JSON: {shorten(self.body)}", detail=str(error)
            ) from error


class HttpRefusal(Exception):
    """An answer that is no success.

    Args:
        response: The answer.
        retry_after_s: After how many seconds the server wants to be asked again, 0 if it does not say.
    """

    def __init__(self, response: HttpResponse, retry_after_s: float) -> None:
        text = " ".join(response.body[:_SHOWN_BYTES].decode("utf-8", "replace").split())
        super().__init__(f"status {response.status}{f': {text}' if text else ''}")
        self.status = response.status
        self.retry_after_s = retry_after_s


def check_status(response: HttpResponse) -> HttpResponse:
    """Return an answer that is a success, or 304.

    Raises:
        HttpRefusal: If it is neither.
    """
    if 200 <= response.status < 300 or response.status == 304:
        return response
    raise HttpRefusal(response, _retry_after_s(response.headers.get("retry-after", "")))


def is_passing(error: Exception, total_s: float) -> bool:
    """Return whether an error may pass while a server is waited for.

    Args:
        error: A refusal, or an error of the network.
        total_s: How long it is waited for.
    """
    if isinstance(error, HttpRefusal):
        return error.status in _PASSING and error.retry_after_s <= total_s
    return not _is_about_certificates(error)


def explain(what: str, address: str, error: Exception, error_type: type[MillstreamError]) -> MillstreamError:
    """Return the error that says what a refusal, or an error of the network, means.

    Args:
        what: What was being done: `sending 20 records`.
        address: Where, without secrets.
        error: What was seen.
        error_type: What is raised: a SourceError or a SinkError.
    """
    if isinstance(error, HttpRefusal):
        hint = _REDIRECTED if 300 <= error.status < 400 else _HINTS.get(error.status)
        detail = None
        if error.retry_after_s:
            detail = f"The server wants to be asked again after {error.retry_after_s:.0f} s."
        return error_type(f"{address} refused, {what}: {error}", detail=detail, hint=hint)
    text = str(error) or type(error).__name__
    hint = _TLS if _is_about_certificates(error) else _AWAY
    return error_type(f"{address} did not answer, {what}: {text}", hint=hint)


def _retry_after_s(text: str) -> float:
    """Return what a header says: seconds, or a date."""
    if text.strip().isdigit():
        return float(text)
    try:
        date = email.utils.parsedate_to_datetime(text)
    except ValueError:
        return 0.0
    return max(0.0, date.timestamp() - SystemClock().now_ms() / 1_000)


def _is_about_certificates(error: BaseException) -> bool:
    cause: BaseException | None = error
    while cause is not None:
        if isinstance(cause, ssl.SSLCertVerificationError):
            return True
        cause = cause.__cause__ or cause.__context__
    return "CERTIFICATE_VERIFY_FAILED" in str(error)
