"""Where a Cassandra cluster is, and how many of its replicas must answer."""

from __future__ import annotations

from enum import Enum
from typing import Any

from millstream.base.errors import ConfigurationError
from millstream.base.optional import load_package

__all__ = ["ClusterBuilder", "ConsistencyLevel", "load_driver"]

_WHAT = "Cassandra sources and sinks"
_PROTOCOL = 4  # of Cassandra 2.2 and all later ones; the first that can leave out values
_CONNECT_S = 5
_LONGEST_RECONNECT_S = 5


class ConsistencyLevel(Enum):
    """How many replicas must answer.

    Example:
        >>> from millstream.datastream.connectors.cassandra import ConsistencyLevel
        >>> ConsistencyLevel.LOCAL_QUORUM.name
        'LOCAL_QUORUM'
    """

    ANY = 0
    ONE = 1
    TWO = 2
    THREE = 3
    QUORUM = 4
    ALL = 5
    LOCAL_QUORUM = 6
    EACH_QUORUM = 7
    SERIAL = 8
    LOCAL_SERIAL = 9
    LOCAL_ONE = 10


def load_driver(module: str = "cassandra.cluster") -> Any:
    """Return a module of cassandra-driver.

    Raises:
        ConfigurationError: If it is not installed.
    """
    return load_package(module, extra="cassandra", what=_WHAT)


class ClusterBuilder:
    """Makes connections to a cluster, in slots and on the driver; picklable. Its password is shown nowhere.

    For what is not here, such as TLS or more than one data centre, override `build_cluster`:

    >>> from millstream.datastream.connectors.cassandra import ClusterBuilder
    >>> import ssl
    >>> class Secured(ClusterBuilder):
    ...     def build_cluster(self):
    ...         cluster = super().build_cluster()
    ...         cluster.ssl_context = ssl.create_default_context(cafile="/etc/cassandra/ca.pem")
    ...         return cluster
    >>> builder = Secured("cassandra-1", "cassandra-2")

    Args:
        hosts: Some nodes of the cluster, which tell of the others.
        port: Of all nodes.
        username: Who writes; None if the cluster asks nobody.
        password: The password.
        local_datacenter: The data centre whose nodes are asked; by default that of the first node that answers.

    Raises:
        ConfigurationError: If there is no host, or a user without password.
    """

    hosts: tuple[str, ...] = ()
    port: int = 9042

    def __init__(
        self,
        *hosts: str,
        port: int = 9042,
        username: str | None = None,
        password: str | None = None,
        local_datacenter: str | None = None,
    ) -> None:
        if not hosts or not all(isinstance(host, str) and host for host in hosts):
            raise ConfigurationError(
                "a Cassandra cluster has no host", hint='ClusterBuilder("host-1", "host-2").'
            )
        if (username is None) != (password is None):
            raise ConfigurationError(
                "of user and password of a Cassandra cluster only one is given", hint="Give both, or none."
            )
        self.hosts = hosts
        self.port = port
        self._username = username
        self._password = password
        self._local_datacenter = local_datacenter

    def build_cluster(self) -> Any:
        """Return a new `cassandra.cluster.Cluster`, not connected; called for each attempt to connect.

        Millstream sets its `timestamp_generator`.
        """
        driver = load_driver()
        policies = load_driver("cassandra.policies")
        profile = driver.ExecutionProfile(
            load_balancing_policy=policies.TokenAwarePolicy(
                policies.DCAwareRoundRobinPolicy(self._local_datacenter or "")
            ),
        )
        return driver.Cluster(
            self.hosts,
            port=self.port,
            protocol_version=_PROTOCOL,
            auth_provider=self._login(),
            execution_profiles={driver.EXEC_PROFILE_DEFAULT: profile},
            reconnection_policy=policies.ExponentialReconnectionPolicy(0.5, _LONGEST_RECONNECT_S),
            connect_timeout=_CONNECT_S,
        )

    def _login(self) -> Any:
        if self._username is None:
            return None
        return load_driver("cassandra.auth").PlainTextAuthProvider(self._username, self._password)

    def __str__(self) -> str:
        if not self.hosts:  # of a class of somebody's own
            return type(self).__name__
        return ", ".join(f"{host}:{self.port}" for host in self.hosts)

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self})"
