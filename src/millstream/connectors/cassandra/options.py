"""What a program says about writes: options of statements, failures."""

from __future__ import annotations

from dataclasses import dataclass, field

from millstream.base.errors import ConfigurationError
from millstream.connectors.cassandra.cluster import ClusterBuilder, ConsistencyLevel
from millstream.connectors.patience import Patience

__all__ = ["CassandraFailureHandler", "MapperOptions", "WriteSettings"]


class MapperOptions:
    """Options of the statements that are made for a table; each setter returns the options.

    Example:
        >>> from millstream.datastream.connectors.cassandra import ConsistencyLevel, MapperOptions
        >>> options = MapperOptions().ttl(86_400).consistency_level(ConsistencyLevel.LOCAL_QUORUM)
    """

    def __init__(self) -> None:
        self._ttl: int | None = None
        self._timestamp: int | None = None
        self._consistency_level: ConsistencyLevel | None = None
        self._tracing = False
        self._saves_nulls = True
        self._if_not_exists = False

    def ttl(self, ttl: int) -> MapperOptions:
        """Have rows vanish after so many seconds (`USING TTL`).

        Raises:
            ConfigurationError: If it is negative.
        """
        if ttl < 0:
            raise ConfigurationError(f"ttl of MapperOptions is {ttl}", detail="It must not be negative.")
        self._ttl = ttl
        return self

    def timestamp(self, timestamp: int) -> MapperOptions:
        """Write all rows with this timestamp, in microseconds (`USING TIMESTAMP`), in the place of the time."""
        self._timestamp = timestamp
        return self

    def consistency_level(self, cl: ConsistencyLevel) -> MapperOptions:
        """Choose how many replicas must answer; by default what the cluster's connection says (LOCAL_ONE)."""
        if not isinstance(cl, ConsistencyLevel):
            raise ConfigurationError(f"{cl!r} is no ConsistencyLevel", hint="ConsistencyLevel.LOCAL_QUORUM.")
        self._consistency_level = cl
        return self

    def tracing(self, enabled: bool) -> MapperOptions:
        """Have the cluster trace each write, in its table `system_traces.sessions`."""
        self._tracing = enabled
        return self

    def save_null_fields(self, enabled: bool) -> MapperOptions:
        """Choose whether None removes what a column held (the default), or leaves it as it is."""
        self._saves_nulls = enabled
        return self

    def if_not_exists(self, enabled: bool) -> MapperOptions:
        """Leave rows as they are whose key is there (`IF NOT EXISTS`)."""
        self._if_not_exists = enabled
        return self

    def _of_tables(self) -> list[str]:
        """Return the options that only count for tables: a query says these things itself."""
        named = (("ttl", self._ttl), ("timestamp", self._timestamp), ("if_not_exists", self._if_not_exists))
        return [name for name, value in named if value not in (None, False)]


class CassandraFailureHandler:
    """Decides about writes that failed; derive from it, and override `on_failure`. Picklable.

    Example:
        >>> import logging
        >>> from millstream.datastream.connectors.cassandra import CassandraFailureHandler
        >>> class LogTimeouts(CassandraFailureHandler):
        ...     def on_failure(self, failure):
        ...         if "timed out" not in str(failure):
        ...             raise failure
        ...         logging.getLogger("orders").warning("not written: %s", failure)
    """

    @staticmethod
    def no_op() -> CassandraFailureHandler:
        """Return the handler that has each failure fail the job."""
        return CassandraFailureHandler()

    def on_failure(self, failure: Exception) -> None:
        """Learn that a record could not be written: the cluster refused it, or stayed away; in the slot.

        Return, and the record is left out; raise, and the job fails.

        Args:
            failure: What the driver raised, such as a `cassandra.WriteTimeout`; by default it is raised.
        """
        raise failure


@dataclass(frozen=True, slots=True)
class WriteSettings:
    """How a sink writes.

    Attributes:
        builder: Makes connections.
        options: Of statements.
        handler: Decides about failures.
        max_requests: How many requests are under way at a time, in each subtask.
        request_wait_s: How long a place among them is waited for; None without end.
        ignores_nulls: Whether None leaves a column as it is.
        patience: How long a cluster that is away is waited for.
    """

    builder: ClusterBuilder
    options: MapperOptions = field(default_factory=MapperOptions)
    handler: CassandraFailureHandler = field(default_factory=CassandraFailureHandler)
    max_requests: int = 256
    request_wait_s: float | None = None
    ignores_nulls: bool = False
    patience: Patience = field(default_factory=Patience)
