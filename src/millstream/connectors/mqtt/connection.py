"""Where an MQTT broker is, and what its errors mean."""

from __future__ import annotations

import logging
import ssl
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import TypeVar
from urllib.parse import SplitResult, unquote, urlsplit

from millstream.base.errors import ConfigurationError, MillstreamError
from millstream.connectors.patience import Patience

__all__ = ["MqttBroker", "MqttConnection", "MqttRefusal"]

log = logging.getLogger(__name__)

Result = TypeVar("Result")

_PORTS = {"mqtt": 1883, "mqtts": 8883}

_LOGIN = (133, 134, 135, 140)
_TAKEN_OVER = 142
_PASSING = frozenset({136, 137, 139, 141, 147, 150, 151, 152, 159})
"""Unavailable, busy, shutting down, silence, too much at a time: it may pass."""

_AWAY = "Check that the broker runs and can be reached from the driver and from where slots run."
_RIGHTS = "Check user and password (mqtt://user:password@host:1883), and the user's rights to the topics."
_TLS = "Check that TLS is meant (mqtts://), and which authority signed the certificate (set_certificate_authority)."
_IDS = "Give each source of each job a client id of its own: set_client_id('...')."


class MqttRefusal(Exception):
    """What a broker says instead of doing what it was asked for.

    Args:
        code: MQTT's reason code.
        text: What it means.
    """

    def __init__(self, code: int, text: str) -> None:
        super().__init__(f"{text} (reason code {code})")
        self.code = code


@dataclass(frozen=True, slots=True)
class MqttConnection:
    """Where a broker is; the URL may hold a password, so it is shown nowhere.

    Attributes:
        url: `mqtt://user:password@host:port`, or `mqtts://…` with TLS.
        patience: How long it is waited for.
        authority: File with the certificates of the authority that signs the broker's; None for those of the system.
        keep_alive_s: After how many seconds of silence broker and client look after each other.
    """

    url: str = field(repr=False)
    patience: Patience = field(default_factory=Patience)
    authority: str | None = None
    keep_alive_s: int = 30

    def __post_init__(self) -> None:
        scheme = self._parts().scheme
        if scheme not in _PORTS:
            raise ConfigurationError(
                f"the URL of an MQTT broker begins with {scheme + '://' if scheme else 'no scheme'}",
                detail="It has to begin with mqtt:// or mqtts://.",
                hint="set_broker('mqtt://host:1883').",
            )
        try:
            _ = self.port
        except ValueError:
            raise ConfigurationError(
                "the URL of an MQTT broker has a part that does not fit",
                detail="It is mqtt://user:password@host:port.",
                hint="Write characters such as @, / and # of a password as %40, %2F and %23.",
            ) from None

    @property
    def host(self) -> str:
        """The broker's host."""
        return self._parts().hostname or "localhost"

    @property
    def port(self) -> int:
        """The broker's port."""
        parts = self._parts()
        return parts.port or _PORTS[parts.scheme]

    @property
    def address(self) -> str:
        """The broker without user and password, for messages."""
        return f"{self._parts().scheme}://{self.host}:{self.port}"

    def login(self) -> tuple[str, str | None] | None:
        """Return user and password; None without."""
        parts = self._parts()
        if not parts.username:
            return None
        return unquote(parts.username), None if parts.password is None else unquote(parts.password)

    def tls(self) -> ssl.SSLContext | None:
        """Return the settings of TLS; None without it."""
        if self._parts().scheme != "mqtts":
            return None
        return ssl.create_default_context(cafile=self.authority)

    def _parts(self) -> SplitResult:
        return urlsplit(self.url if isinstance(self.url, str) else "")


class MqttBroker:
    """Calls a broker: waits while it is away, and says what its errors mean.

    Args:
        connection: Where it is.
        error_type: What is raised: a SourceError or a SinkError.
    """

    def __init__(self, connection: MqttConnection, error_type: type[MillstreamError]) -> None:
        self.connection = connection
        self._error_type = error_type

    def call(
        self, what: str, action: Callable[[], Result], goes_on: Callable[[], bool] = lambda: True
    ) -> Result:
        """Return what an action gives; it is repeated while the broker is away.

        Args:
            what: What is being done: `publishing 20 messages`.
            action: May be repeated.
            goes_on: Whether it is still wanted.

        Raises:
            MillstreamError: If the broker refuses it, or stays away.
        """
        try:
            return self.connection.patience.call(
                action,
                is_passing=lambda error: self.is_passing(error) and goes_on(),
                what=f"MQTT {self.connection.address}, {what}",
                log=log,
            )
        except (MqttRefusal, OSError) as error:
            raise self.explain(what, error) from error

    def is_passing(self, error: Exception) -> bool:
        """Return whether an error may pass by itself."""
        if isinstance(error, MqttRefusal):
            return error.code in _PASSING
        return isinstance(error, OSError) and not isinstance(error, ssl.SSLCertVerificationError)

    def explain(self, what: str, error: Exception) -> MillstreamError:
        """Return the error that says what a refusal, or an error of the network, means.

        Args:
            what: What was being done.
            error: What was seen.
        """
        return self._error_type(
            f"MQTT broker refused or did not answer, {what}: {error}",
            detail=f"Broker {self.connection.address}.",
            hint=self._hint(error),
        )

    def _hint(self, error: Exception) -> str | None:
        if isinstance(error, MqttRefusal):
            if error.code in _LOGIN:
                return _RIGHTS
            if error.code == _TAKEN_OVER:
                return _IDS
            return None
        return _TLS if isinstance(error, ssl.SSLError) else _AWAY
