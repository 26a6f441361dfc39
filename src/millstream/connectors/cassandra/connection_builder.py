"""What builders of sinks, sources and look-ups of Cassandra have in common: which cluster, with how much patience."""

from __future__ import annotations

from typing import Self

from millstream.base.errors import ConfigurationError
from millstream.connectors.cassandra.cluster import ClusterBuilder, ConsistencyLevel
from millstream.connectors.patience import Patience

__all__ = ["ClusterSettings", "ReadSettings"]


class ClusterSettings:
    """Says where the cluster is; each method returns the builder."""

    def __init__(self) -> None:
        self._builder: ClusterBuilder | None = None
        self._patience = Patience()

    def set_host(self, host: str, port: int = 9042) -> Self:
        """Name a node of the cluster, which asks for no password."""
        return self.set_cluster_builder(ClusterBuilder(host, port=port))

    def set_cluster_builder(self, builder: ClusterBuilder) -> Self:
        """Choose how connections are made.

        Raises:
            ConfigurationError: If it is no ClusterBuilder.
        """
        if not isinstance(builder, ClusterBuilder):
            raise ConfigurationError(
                f"{type(builder).__name__} is no ClusterBuilder",
                hint='ClusterBuilder("host", username="me", password=...).',
            )
        self._builder = builder
        return self

    def set_patience(self, patience: Patience) -> Self:
        """Choose how long a cluster that is away is waited for (millstream's own)."""
        self._patience = patience
        return self

    def _cluster(self, what: str) -> ClusterBuilder:
        """Return how connections are made.

        Args:
            what: What is built, for the message: `sink`.

        Raises:
            ConfigurationError: If it was not said.
        """
        if self._builder is None:
            raise ConfigurationError(
                f"the Cassandra {what} has no cluster", hint="set_host(host), or set_cluster_builder(...)."
            )
        return self._builder


class ReadSettings(ClusterSettings):
    """Says how a cluster is read; each method returns the builder."""

    def __init__(self) -> None:
        super().__init__()
        self._level: ConsistencyLevel | None = None

    def set_consistency_level(self, level: ConsistencyLevel) -> Self:
        """Choose how many replicas must answer; by default what the cluster's connection says (LOCAL_ONE).

        Raises:
            ConfigurationError: If it is no ConsistencyLevel.
        """
        if not isinstance(level, ConsistencyLevel):
            raise ConfigurationError(
                f"{level!r} is no ConsistencyLevel", hint="ConsistencyLevel.LOCAL_QUORUM."
            )
        self._level = level
        return self
