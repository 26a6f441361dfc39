"""Where Pulsar is, how to log in, and what its errors mean.

The client library finds its way back to brokers by itself, but slowly after a long while. So what is asked of it ends
behind some seconds, and `Patience` asks again.
"""

from __future__ import annotations

import base64
import json
import logging
import os
import urllib.error
import urllib.request
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, TypeVar
from urllib.parse import urlsplit

from millstream.base.errors import ConfigurationError, MillstreamError, NotSupportedError
from millstream.connectors.patience import Patience
from millstream.connectors.pulsar.positions import pulsar_package

__all__ = ["Authentication", "PulsarClient", "PulsarConnection", "PulsarRefusal"]

log = logging.getLogger(__name__)

Result = TypeVar("Result")

_SCHEMES = ("pulsar", "pulsar+ssl")
_DEFAULTS = {"operation_timeout_seconds": 5, "connection_timeout_ms": 5_000, "tls_validate_hostname": True}
_ADMIN_S = 10

_JAVA = "org.apache.pulsar.client.impl.auth."
_TOKEN = f"{_JAVA}AuthenticationToken"
_BASIC = f"{_JAVA}AuthenticationBasic"
_PLUGINS = {
    _TOKEN: _TOKEN,
    _BASIC: _BASIC,
    f"{_JAVA}AuthenticationTls": f"{_JAVA}AuthenticationTls",
    f"{_JAVA}AuthenticationAthenz": f"{_JAVA}AuthenticationAthenz",
    f"{_JAVA}oauth2.AuthenticationOAuth2": f"{_JAVA}oauth2.AuthenticationOAuth2",
    "token": _TOKEN,
    "basic": _BASIC,
    "tls": f"{_JAVA}AuthenticationTls",
    "athenz": f"{_JAVA}AuthenticationAthenz",
    "oauth2": f"{_JAVA}oauth2.AuthenticationOAuth2",
}

_PASSING = (
    "Timeout",
    "ConnectError",
    "NotConnected",
    "LookupError",
    "TooManyLookupRequestException",
    "ServiceUnitNotReady",
    "BrokerMetadataError",
    "BrokerPersistenceError",
    "ConsumerBusy",
    "ProducerBusy",
    "ProducerBlockedQuotaExceededError",
    "ReadError",
    "AlreadyClosed",
    "UnknownError",
)
_LOGIN = ("AuthenticationError", "AuthorizationError", "ErrorGettingAuthenticationData")
_HINTS = {
    "ConsumerBusy": "Another program uses the subscription exclusively: give the job one of its own.",
    "ProducerBusy": "Another producer has the same name: an attempt of the job that still runs, or another job.",
    "TopicNotFound": "Check tenant, namespace and name; have somebody make the topic, or allow brokers to make it.",
    "ProducerBlockedQuotaExceededError": "The topic's backlog quota is reached: have its subscriptions read it.",
    "MessageTooBig": "Brokers take 5 MB by default (maxMessageSize); pulsar.producer.chunkingEnabled cuts messages.",
}
_AWAY = "Check that the broker runs and can be reached from the driver and from where slots run."
_RIGHTS = "Check set_authentication(...), and which rights the role has in the namespace (produce, consume)."


class PulsarRefusal(Exception):
    """What became of a message that was not published.

    Args:
        name: Of the client library's result.
    """

    def __init__(self, name: str) -> None:
        super().__init__(name)
        self.name = name


@dataclass(frozen=True, slots=True)
class Authentication:
    """How to log in; shown nowhere.

    Attributes:
        plugin: Java's class, as Pulsar's clients know it.
        parameters: The text that goes with it.
    """

    plugin: str
    parameters: str = field(repr=False)

    @staticmethod
    def of(plugin: str, parameters: str) -> Authentication:
        """Return what logs in with a plug-in.

        Raises:
            NotSupportedError: If there is no such plug-in outside of Java.
        """
        if plugin not in _PLUGINS:
            raise NotSupportedError(
                f"there is no authentication plug-in {plugin!r} outside of Java",
                detail=f"There are {', '.join(_PLUGINS)}.",
            )
        return Authentication(_PLUGINS[plugin], parameters)

    def of_client(self, package: Any) -> Any:
        """Return what the client library is given."""
        if self.plugin == _BASIC:
            return package.AuthenticationBasic(*self._user())
        return package.Authentication(self.plugin, self.parameters)

    def headers(self) -> dict[str, str]:
        """Return what the REST API is given.

        Raises:
            NotSupportedError: If it is neither a token nor a password.
        """
        if self.plugin == _TOKEN:
            return {"Authorization": f"Bearer {self._token()}"}
        if self.plugin == _BASIC:
            login = ":".join(self._user()).encode()
            return {"Authorization": f"Basic {base64.b64encode(login).decode()}"}
        raise NotSupportedError(
            f"Pulsar's REST API is not asked with {self.plugin.rpartition('.')[2]}",
            hint="Log in with a token or a password, or name topics instead of a pattern.",
        )

    def _user(self) -> tuple[str, str]:
        try:
            user = json.loads(self.parameters)
            return str(user["userId"]), str(user["password"])
        except (ValueError, KeyError, TypeError):
            raise ConfigurationError(
                "the parameters of Pulsar's AuthenticationBasic do not fit",
                hint='They are JSON: {"userId": "me", "password": "…"}.',
            ) from None

    def _token(self) -> str:
        kind, _, rest = self.parameters.partition(":")
        if kind == "file":
            with open(rest.removeprefix("//"), encoding="utf-8") as file:
                return file.read().strip()
        if kind == "env":
            return os.environ[rest]
        return rest if kind == "token" else self.parameters


@dataclass(frozen=True, slots=True)
class PulsarConnection:
    """Where Pulsar is; picklable.

    Attributes:
        service_url: `pulsar://host:6650`, or `pulsar+ssl://host:6651`; several hosts are separated by commas.
        admin_url: `http://host:8080`: its REST API; None if it is not needed.
        authentication: How to log in; None without.
        arguments: Further ones of the client.
        patience: How long it is waited for.
    """

    service_url: str
    admin_url: str | None = None
    authentication: Authentication | None = None
    arguments: Mapping[str, Any] = field(default_factory=dict, repr=False)
    patience: Patience = field(default_factory=Patience)

    def __post_init__(self) -> None:
        _check_url(self.service_url, _SCHEMES, "service URL", "pulsar://host:6650")
        if self.admin_url is not None:
            _check_url(self.admin_url, ("http", "https"), "admin URL", "http://host:8080")


def _check_url(url: str, schemes: tuple[str, ...], what: str, example: str) -> None:
    parts = urlsplit(url if isinstance(url, str) else "")
    if parts.scheme not in schemes or not parts.netloc:
        raise ConfigurationError(
            f"the {what} of Pulsar begins with {parts.scheme + '://' if parts.scheme else 'no scheme'}",
            hint=f"Give one such as {example}.",
        )
    if "@" in parts.netloc:
        raise ConfigurationError(
            f"the {what} of Pulsar has a user in it", hint="Log in by set_authentication(...)."
        )


class PulsarClient:
    """Calls a cluster: waits while it is away, and says what its errors mean. For one thread.

    Args:
        connection: Where it is.
        error_type: What is raised: a SourceError or a SinkError.
    """

    def __init__(self, connection: PulsarConnection, error_type: type[MillstreamError]) -> None:
        self._package = pulsar_package()
        self._base_error: type[Exception] = self._package.PulsarException
        self._connection = connection
        self._error_type = error_type
        self._client: Any = None

    @property
    def patience_s(self) -> float:
        """How long the cluster is waited for, in seconds."""
        return self._connection.patience.total_s

    def call(self, what: str, action: Callable[[Any], Result], *, give_up: bool = False) -> Result:
        """Return what an action gives; it is repeated while the cluster is away.

        Args:
            what: What is being done: `reading topic "orders"`.
            action: Is given the client library's client; may be repeated.
            give_up: Whether it is tried once only.

        Raises:
            MillstreamError: If the cluster refuses it, or stays away.
        """
        try:
            if give_up:
                return action(self._running())
            return self._connection.patience.call(
                lambda: action(self._running()),
                is_passing=self.is_passing,
                what=f"Pulsar {self._connection.service_url}, {what}",
                log=log,
            )
        except (self._base_error, PulsarRefusal) as error:
            raise self.explain(what, error) from error

    def is_passing(self, error: Exception) -> bool:
        """Return whether an error of the client library may pass by itself."""
        return _name(error) in _PASSING and isinstance(error, (self._base_error, PulsarRefusal))

    def explain(self, what: str, error: Exception | str) -> MillstreamError:
        """Return the error that says what was refused.

        Args:
            what: What was being done.
            error: What the client library raised, or the name of its result.
        """
        name = error if isinstance(error, str) else _name(error)
        hint = _RIGHTS if name in _LOGIN else _HINTS.get(name, _AWAY if name in _PASSING else None)
        return self._error_type(
            f"Pulsar refused or did not answer, {what}: {name}",
            detail=f"Cluster {self._connection.service_url}.",
            hint=hint,
        )

    def partitions(self, topic: str) -> list[str]:
        """Return the full names of a topic's partitions; of a topic without partitions its own.

        Raises:
            MillstreamError: If there is no such topic, or the cluster stays away.
        """
        found: list[str] = self.call(
            f'looking for the partitions of topic "{topic}"',
            lambda client: client.get_topic_partitions(topic),
        )
        return list(found)

    def ask_admin(self, path: str) -> Any:
        """Return what the REST API answers.

        Args:
            path: Behind `/admin/v2/`.

        Raises:
            MillstreamError: If it refuses, or stays away.
        """
        url, login = self._connection.admin_url, self._connection.authentication
        what = f"asking the REST API for {path}"
        assert url is not None
        request = urllib.request.Request(
            f"{url.rstrip('/')}/admin/v2/{path}", headers={} if login is None else login.headers()
        )

        def ask() -> Any:
            with urllib.request.urlopen(request, timeout=_ADMIN_S) as answer:
                return json.loads(answer.read() or b"null")

        try:
            return self._connection.patience.call(
                ask, is_passing=_is_passing_answer, what=f"Pulsar {url}, {what}", log=log
            )
        except (OSError, ValueError) as error:
            refused = isinstance(error, urllib.error.HTTPError) and error.code in (401, 403)
            raise self._error_type(
                f"Pulsar refused or did not answer, {what}: {error}",
                detail=f"REST API {url}.",
                hint=_RIGHTS
                if refused
                else "Check the admin URL, and that the web service of a broker is there.",
            ) from error

    def close(self) -> None:
        """End the connections."""
        client, self._client = self._client, None
        if client is not None:
            try:
                client.close()
            except self._base_error as error:
                log.debug("Pulsar client: %s", error)
                client.shutdown()

    def _running(self) -> Any:
        if self._client is None:
            connection, package = self._connection, self._package
            login = connection.authentication
            self._client = package.Client(
                connection.service_url,
                authentication=None if login is None else login.of_client(package),
                # what it logs is in its errors too; a Python logger would be called from its threads
                logger=package.FileLogger(package.LoggerLevel.Error, os.devnull),
                **_DEFAULTS | dict(connection.arguments),
            )
        return self._client


def _name(error: Exception) -> str:
    return error.name if isinstance(error, PulsarRefusal) else type(error).__name__


def _is_passing_answer(error: Exception) -> bool:
    if isinstance(error, urllib.error.HTTPError):
        return error.code >= 500
    return isinstance(error, OSError)
