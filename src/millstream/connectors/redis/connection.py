"""Where a Redis server is, and what its errors mean."""

from __future__ import annotations

import logging
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, TypeVar
from urllib.parse import urlsplit

from millstream.base.errors import ConfigurationError, MillstreamError, NotSupportedError
from millstream.base.optional import load_package
from millstream.connectors.patience import Patience

__all__ = ["RedisClient", "RedisConnection"]

log = logging.getLogger(__name__)

Result = TypeVar("Result")

_SCHEMES = ("redis", "rediss", "unix")
_CONNECT_S = 5
_ANSWER_S = 30

_HINTS = {
    "NOAUTH": "Give user and password in the URL: redis://user:password@host:6379/0.",
    "WRONGPASS": "Check user and password in the URL: redis://user:password@host:6379/0.",
    "NOPERM": "Have somebody allow it to the user of the URL: ACL SETUSER.",
    "OOM": "The server is full (maxmemory): free some memory there, or have it allow more. "
    "The job goes on from its last checkpoint.",
    "READONLY": "The URL names a replica, or the primary became one: name the primary.",
    "WRONGTYPE": "The key belongs to something else: choose another one, or remove it.",
    "MISCONF": "The server cannot write to its disk: see its log.",
    "LOADING": "The server was still loading its data: start the job again, or wait longer (set_patience).",
    "AWAY": "Check that the server runs and can be reached from the driver and from where slots run.",
    "TLS": "Check that rediss:// is meant, and what the URL says of certificates (ssl_ca_certs=…).",
}


@dataclass(frozen=True, slots=True)
class RedisConnection:
    """Where the server is; the URL may hold a password, so it is shown nowhere.

    Attributes:
        url: `redis://user:password@host:port/database`, `rediss://` with TLS, or `unix://path`; options of redis-py as
            in `?ssl_ca_certs=…`.
        patience: How long the server is waited for.
    """

    url: str = field(repr=False)
    patience: Patience = field(default_factory=Patience)

    def __post_init__(self) -> None:
        scheme = urlsplit(self.url).scheme if isinstance(self.url, str) else ""
        if scheme not in _SCHEMES:
            raise ConfigurationError(
                f"the URL of a Redis server begins with {scheme + '://' if scheme else 'no scheme'}",
                detail="It has to begin with redis://, rediss:// (TLS) or unix://.",
            )
        try:
            _ = urlsplit(self.url).port
        except ValueError:
            raise _malformed() from None

    @property
    def address(self) -> str:
        """The server without user, password and options, for messages."""
        parts = urlsplit(self.url)
        if parts.scheme == "unix":
            return f"unix://{parts.path}"
        return f"{parts.scheme}://{parts.hostname or 'localhost'}:{parts.port or 6379}{parts.path}"


def _malformed() -> ConfigurationError:
    return ConfigurationError(
        "the URL of a Redis server has a part that does not fit",
        detail="It is redis://user:password@host:port/database?option=value, with options of redis-py.",
        hint="Write characters such as @, / and # of a password as %40, %2F and %23.",
    )


class RedisClient:
    """A connection to a server: waits while it is away, and says what its errors mean. For one thread.

    Args:
        connection: Where it is.
        error_type: What is raised: a SourceError or a SinkError.
    """

    def __init__(self, connection: RedisConnection, error_type: type[MillstreamError]) -> None:
        redis = load_package("redis", extra="redis", what="Redis sources and sinks")
        load_package("redis.retry", extra="redis", what="Redis sources and sinks")
        self._errors = redis.exceptions
        self._connection = connection
        self._error_type = error_type
        try:
            self._client = redis.Redis.from_url(
                connection.url,
                protocol=2,
                decode_responses=False,
                socket_connect_timeout=_CONNECT_S,
                socket_timeout=_ANSWER_S,
                retry=redis.retry.Retry(redis.backoff.NoBackoff(), 0),  # `Patience` tries again
            )
            pool = self._client.connection_pool
            pool.connection_class(**pool.connection_kwargs)  # it checks the options; it does not connect
        except (ValueError, TypeError):
            raise _malformed() from None  # the cause may show a part of the password

    def call(self, what: str, action: Callable[[Any], Result]) -> Result:
        """Return what an action gives; it is repeated while the server is away.

        Args:
            what: What is being done: `reading stream "clicks"`.
            action: Takes a `redis.Redis`; may be repeated.

        Raises:
            MillstreamError: If the server refuses it, or stays away.
        """
        errors = self._errors
        try:
            return self._connection.patience.call(
                lambda: action(self._client),
                is_passing=self._is_passing,
                what=f"Redis {self._connection.address}, {what}",
                log=log,
            )
        except (errors.MovedError, errors.AskError, errors.ClusterDownError) as error:
            raise self._cluster() from error
        except errors.RedisError as error:
            raise self.explain(what, str(error), self._reason(error)) from error

    def refuse_cluster(self) -> None:
        """Raise NotSupportedError if the server is part of a cluster; without the right to ask, go on."""
        try:
            info = self.call("asking whether it is a cluster", self._ask_cluster)
        except MillstreamError as error:
            if isinstance(error.__cause__, self._errors.NoPermissionError):
                return
            raise
        if info.get("cluster_enabled"):
            raise self._cluster()

    def explain(self, what: str, message: str, reason: str | None = None) -> MillstreamError:
        """Return the error that says what a message of the server means.

        Args:
            what: What was being done.
            message: The message.
            reason: Its code; None to look for one in it.
        """
        reason = reason or next((code for code in _HINTS if code in message.split()), None)
        return self._error_type(
            f"Redis refused or did not answer, {what}: {message}",
            detail=f"Server {self._connection.address}.",
            hint=_HINTS.get(reason or ""),
        )

    def close(self) -> None:
        """End it."""
        self._client.close()

    @staticmethod
    def _ask_cluster(client: Any) -> dict[str, Any]:
        info: dict[str, Any] = client.info("cluster")
        return info

    def _is_passing(self, error: Exception) -> bool:
        errors = self._errors
        if isinstance(error, (errors.AuthenticationError, errors.AuthorizationError)):
            return False
        if "CERTIFICATE_VERIFY_FAILED" in str(error):
            return False
        return isinstance(error, (errors.ConnectionError, errors.TimeoutError))

    def _reason(self, error: Exception) -> str | None:
        """Return the code of an error; redis-py takes it off those that have a class of their own."""
        errors = self._errors
        for kind, reason in (
            (errors.AuthenticationError, "NOAUTH"),
            (errors.BusyLoadingError, "LOADING"),
            (errors.NoPermissionError, "NOPERM"),
            (errors.ReadOnlyError, "READONLY"),
            (errors.OutOfMemoryError, "OOM"),
            (errors.ConnectionError, "TLS" if "SSL" in str(error) else "AWAY"),
            (errors.TimeoutError, "AWAY"),
        ):
            if isinstance(error, kind):
                return reason
        return None

    def _cluster(self) -> NotSupportedError:
        return NotSupportedError(
            f"the Redis server {self._connection.address} is part of a cluster",
            detail="What belongs together, such as staged output and its marker, may be on other nodes there.",
            hint="Use a server without cluster mode, alone or with replicas.",
        )
