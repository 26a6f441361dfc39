"""What sinks, sources and look-ups have in common: how the servers are named."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Self

from millstream.base.errors import ConfigurationError
from millstream.connectors.elasticsearch.connection import ElasticsearchConnection
from millstream.connectors.patience import Patience

__all__ = ["ConnectionBuilder"]


class ConnectionBuilder:
    """Names servers; each method returns the builder."""

    def __init__(self) -> None:
        self._hosts: tuple[str, ...] = ()
        self._username: str | None = None
        self._password: str | None = None
        self._api_key: str | None = None
        self._prefix = ""
        self._authority: str | None = None
        self._patience = Patience()
        self._connect_timeout_ms = 5_000
        self._socket_timeout_ms = 60_000

    def set_hosts(self, hosts: Sequence[str]) -> Self:
        """Name the nodes: `host:port`, or `https://host:port` with TLS.

        Raises:
            ConfigurationError: If one is no host.
        """
        names = (hosts,) if isinstance(hosts, str) else tuple(hosts)
        ElasticsearchConnection(names)
        self._hosts = names
        return self

    def set_connection_username(self, username: str) -> Self:
        """Choose the user."""
        self._username = username
        return self

    def set_connection_password(self, password: str) -> Self:
        """Choose the user's password."""
        self._password = password
        return self

    def set_api_key(self, key: str) -> Self:
        """Choose a key instead of user and password, as the server encoded it (not in PyFlink)."""
        self._api_key = key
        return self

    def set_connection_path_prefix(self, prefix: str) -> Self:
        """Choose what stands before the paths of the server, behind a proxy."""
        self._prefix = prefix
        return self

    def set_connection_request_timeout(self, timeout: int) -> Self:
        """Take note of how long a connection of a pool is waited for: each writer has one of its own.

        Raises:
            ConfigurationError: If it is no number of milliseconds.
        """
        _timeout(timeout)
        return self

    def set_connection_timeout(self, timeout: int) -> Self:
        """Choose how long connecting may take, in milliseconds; by default 5,000.

        Raises:
            ConfigurationError: If it is no number of milliseconds.
        """
        self._connect_timeout_ms = _timeout(timeout)
        return self

    def set_socket_timeout(self, timeout: int) -> Self:
        """Choose how long an answer may take, in milliseconds; by default 60,000.

        Raises:
            ConfigurationError: If it is no number of milliseconds.
        """
        self._socket_timeout_ms = _timeout(timeout)
        return self

    def set_certificate_authority(self, path: str) -> Self:
        """Choose the file with the certificates of who signed the server's; by default those of the system."""
        self._authority = path
        return self

    def set_patience(self, patience: Patience) -> Self:
        """Choose how long servers are waited for that are away (not in PyFlink)."""
        self._patience = patience
        return self

    def connection(self) -> ElasticsearchConnection:
        """Return where the servers are.

        Raises:
            ConfigurationError: If hosts are missing, or only one of user and password is there.
        """
        return ElasticsearchConnection(
            self._hosts,
            self._username,
            self._password,
            self._api_key,
            self._prefix,
            self._connect_timeout_ms,
            self._socket_timeout_ms,
            self._authority,
            self._patience,
        )


def _timeout(timeout: int) -> int:
    if not isinstance(timeout, int) or timeout < 1:
        raise ConfigurationError(
            f"a timeout is {timeout!r}", detail="It is a number of milliseconds of at least 1."
        )
    return timeout
