"""Where a broker is (PyFlink's `RMQConnectionConfig`)."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import Any
from urllib.parse import urlsplit

from millstream.base.errors import ConfigurationError
from millstream.base.optional import load_package

__all__ = ["RMQConnectionConfig"]

_PORT = 5672


@dataclass(frozen=True, slots=True)
class RMQConnectionConfig:
    """Where a broker is, and how it is connected to; made by `RMQConnectionConfig.Builder()`.

    User, password and URI are shown nowhere.

    Example:
        >>> from millstream.datastream.connectors.rabbitmq import RMQConnectionConfig
        >>> builder = RMQConnectionConfig.Builder().set_host("localhost").set_port(5672).set_virtual_host("/")
        >>> config = builder.set_user_name("guest").set_password("guest").build()
        >>> config.get_host(), config.get_port()
        ('localhost', 5672)
    """

    _host: str | None = None
    _port: int | None = None
    _virtual_host: str | None = None
    _user_name: str | None = field(default=None, repr=False)
    _password: str | None = field(default=None, repr=False)
    _uri: str | None = field(default=None, repr=False)
    _network_recovery_interval: int | None = None
    _automatic_recovery: bool | None = None
    _topology_recovery: bool | None = None
    _connection_timeout: int | None = None
    _requested_channel_max: int | None = None
    _requested_frame_max: int | None = None
    _requested_heartbeat: int | None = None
    _prefetch_count: int | None = None

    def get_host(self) -> str | None:
        """Return the host; None if there is a URI."""
        return self._host

    def get_port(self) -> int | None:
        """Return the port; None if there is a URI."""
        return self._port

    def get_virtual_host(self) -> str | None:
        """Return the virtual host; None if there is a URI."""
        return self._virtual_host

    def get_user_name(self) -> str | None:
        """Return the user; None if there is a URI."""
        return self._user_name

    def get_password(self) -> str | None:
        """Return the password; None if there is a URI."""
        return self._password

    def get_uri(self) -> str | None:
        """Return the URI, None if there is none."""
        return self._uri

    def get_network_recovery_interval(self) -> int | None:
        """Return the least pause before a lost connection is made again, in milliseconds; None for the default."""
        return self._network_recovery_interval

    def is_automatic_recovery(self) -> bool | None:
        """Return whether a lost connection is made again; None for the default, which is that it is."""
        return self._automatic_recovery

    def is_topology_recovery(self) -> bool | None:
        """Return what was set; consumers are always begun again with the connection."""
        return self._topology_recovery

    def get_connection_timeout(self) -> int | None:
        """Return how long connecting may take, in milliseconds; None for the default."""
        return self._connection_timeout

    def get_requested_channel_max(self) -> int | None:
        """Return the number of channels that the broker is asked for; None for the default."""
        return self._requested_channel_max

    def get_requested_frame_max(self) -> int | None:
        """Return the size of frames that the broker is asked for, in bytes; None for the default."""
        return self._requested_frame_max

    def get_requested_heartbeat(self) -> int | None:
        """Return the interval of heartbeats that the broker is asked for, in seconds; None for the default."""
        return self._requested_heartbeat

    def get_prefetch_count(self) -> int | None:
        """Return how many messages a source takes before any is acknowledged; None for the default, 0 for all."""
        return self._prefetch_count

    @property
    def address(self) -> str:
        """The broker without user, password and options, for messages."""
        if self._uri is None:
            return f"{self._host}:{self._port}, virtual host {self._virtual_host!r}"
        parts = urlsplit(self._uri)
        return f"{parts.scheme}://{parts.hostname}:{parts.port or _PORT}{parts.path}"

    def parameters(self) -> Any:
        """Return it as pika's parameters.

        Raises:
            ConfigurationError: If pika is not installed, or does not take them.
        """
        pika = load_package("pika", extra="rabbitmq", what="RabbitMQ sources and sinks")
        try:
            if self._uri is not None:
                parameters = pika.URLParameters(self._uri)
            else:
                credentials = pika.PlainCredentials(self._user_name, self._password)
                parameters = pika.ConnectionParameters(
                    self._host, self._port, self._virtual_host, credentials
                )
            for name, value in (
                ("channel_max", self._requested_channel_max),
                ("frame_max", self._requested_frame_max),
                ("heartbeat", self._requested_heartbeat),
            ):
                if value is not None:
                    setattr(parameters, name, value)
            if self._connection_timeout is not None:
                seconds = self._connection_timeout / 1000
                parameters.socket_timeout = parameters.stack_timeout = seconds
        except (ValueError, TypeError):  # the cause may show the password
            raise ConfigurationError(
                "the connection to RabbitMQ has a part that does not fit",
                detail="A URI is amqp://user:password@host:port/virtual%2Fhost; frames have 4096 bytes at least.",
            ) from None
        return parameters

    class Builder:
        """Builds an `RMQConnectionConfig`; each method returns the builder."""

        def __init__(self) -> None:
            self._config = RMQConnectionConfig()

        def set_port(self, port: int) -> RMQConnectionConfig.Builder:
            """Set the port; 5672 by default."""
            return self._set(_port=port)

        def set_host(self, host: str) -> RMQConnectionConfig.Builder:
            """Set the host."""
            return self._set(_host=host)

        def set_virtual_host(self, vhost: str) -> RMQConnectionConfig.Builder:
            """Set the virtual host."""
            return self._set(_virtual_host=vhost)

        def set_user_name(self, user_name: str) -> RMQConnectionConfig.Builder:
            """Set the user."""
            return self._set(_user_name=user_name)

        def set_password(self, password: str) -> RMQConnectionConfig.Builder:
            """Set the password."""
            return self._set(_password=password)

        def set_uri(self, uri: str) -> RMQConnectionConfig.Builder:
            """Set all of them by a URI: `amqp://user:password@host:port/vhost`, or `amqps://` with TLS."""
            return self._set(_uri=uri)

        def set_topology_recovery_enabled(
            self, topology_recovery_enabled: bool
        ) -> RMQConnectionConfig.Builder:
            """Take note of it: a source's consumer is always begun again with the connection."""
            return self._set(_topology_recovery=topology_recovery_enabled)

        def set_requested_heartbeat(self, requested_heartbeat: int) -> RMQConnectionConfig.Builder:
            """Ask the broker for heartbeats, in seconds; 0 for none."""
            return self._set(_requested_heartbeat=requested_heartbeat)

        def set_requested_frame_max(self, requested_frame_max: int) -> RMQConnectionConfig.Builder:
            """Ask the broker for frames of so many bytes at most."""
            return self._set(_requested_frame_max=requested_frame_max)

        def set_requested_channel_max(self, requested_channel_max: int) -> RMQConnectionConfig.Builder:
            """Ask the broker for so many channels at most."""
            return self._set(_requested_channel_max=requested_channel_max)

        def set_network_recovery_interval(
            self, network_recovery_interval: int
        ) -> RMQConnectionConfig.Builder:
            """Wait so many milliseconds at least before a lost connection is made again."""
            return self._set(_network_recovery_interval=network_recovery_interval)

        def set_connection_timeout(self, connection_timeout: int) -> RMQConnectionConfig.Builder:
            """Have connecting take so many milliseconds at most."""
            return self._set(_connection_timeout=connection_timeout)

        def set_automatic_recovery(self, automatic_recovery: bool) -> RMQConnectionConfig.Builder:
            """Choose whether a lost connection is made again, or fails the attempt of the job."""
            return self._set(_automatic_recovery=automatic_recovery)

        def set_prefetch_count(self, prefetch_count: int) -> RMQConnectionConfig.Builder:
            """Choose how many messages a source takes before any is acknowledged, so between two checkpoints.

            Raises:
                ConfigurationError: If it is not from 0, which is all that there are, to 65535.
            """
            if not 0 <= prefetch_count <= 65535:
                raise ConfigurationError(f"the prefetch count is {prefetch_count}, must be from 0 to 65535")
            return self._set(_prefetch_count=prefetch_count)

        def build(self) -> RMQConnectionConfig:
            """Return the configuration.

            Raises:
                ConfigurationError: If there is no URI, and host, virtual host, user or password are missing; or
                    pika does not take them.
            """
            config = self._config
            if config._uri is None:
                config = replace(config, _port=config._port if config._port is not None else _PORT)
                needed = {
                    "host": config._host,
                    "virtual_host": config._virtual_host,
                    "user_name": config._user_name,
                    "password": config._password,
                }
                missing = [f"set_{name}(...)" for name, value in needed.items() if value is None]
                if missing:
                    raise ConfigurationError(
                        f"the connection to RabbitMQ lacks {', '.join(missing)}",
                        hint="Or name all by set_uri('amqp://user:password@host:5672/vhost').",
                    )
            elif urlsplit(config._uri).scheme not in ("amqp", "amqps"):
                raise ConfigurationError("the URI of the broker does not begin with amqp:// or amqps://")
            config.parameters()
            return config

        def _set(self, **changes: Any) -> RMQConnectionConfig.Builder:
            self._config = replace(self._config, **changes)
            return self
