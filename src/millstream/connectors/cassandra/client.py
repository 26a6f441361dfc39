"""A connection to a cluster: waits while it is away, says what its errors mean, gives writes their timestamps."""

from __future__ import annotations

import contextlib
import logging
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, TypeVar

from millstream.base.clock import Clock, SystemClock
from millstream.base.errors import ConfigurationError, MillstreamError
from millstream.connectors.cassandra.cluster import ClusterBuilder, load_driver
from millstream.connectors.patience import Patience

__all__ = ["CassandraClient"]

log = logging.getLogger(__name__)

Result = TypeVar("Result")

_HINTS = {
    "AuthenticationFailed": "Check user and password: ClusterBuilder(host, username=..., password=...).",
    "Unauthorized": "Have somebody allow it to the user: GRANT MODIFY ON TABLE ... (or SELECT, to read).",
    "InvalidRequest": "Correct the names of keyspace, table and columns, or create them; names with capital letters "
    'are quoted in CQL: "Orders".',
    "SyntaxException": "Correct the statement; it is CQL, with ? for the fields of a record.",
    "ProtocolException": "If the cluster was upgraded since the checkpoint: start the job anew, without it.",
    "Unavailable": "Fewer replicas are alive than the consistency level needs: see the nodes of the cluster.",
}
_AWAY = "Check that the cluster runs and can be reached from the driver and from where slots run."
_TOO_LONG = "The cluster has more to do than it can: write less at a time (set_max_concurrent_requests)."


class CassandraClient:
    """Speaks to a cluster. For one thread.

    The timestamp of a write is the client's, and larger with each: of two writes to a row the later one counts, in
    whatever order they arrive, and one that is repeated keeps its place.

    Args:
        builder: Makes connections.
        patience: How long the cluster is waited for.
        error_type: What is raised: a SourceError or a SinkError.
        clock: What time it is.
    """

    def __init__(
        self,
        builder: ClusterBuilder,
        patience: Patience,
        error_type: type[MillstreamError],
        clock: Clock | None = None,
    ) -> None:
        driver, protocol = load_driver(), load_driver("cassandra.protocol")
        package = load_driver("cassandra")
        self._builder = builder
        self._patience = patience
        self._error_type = error_type
        self._clock = clock or SystemClock()
        self._no_host = driver.NoHostAvailable
        self._refusals = (package.AuthenticationFailed, package.Unauthorized, package.UnsupportedOperation)
        self._passing = (
            package.Timeout,
            package.OperationTimedOut,
            package.Unavailable,
            package.CoordinationFailure,
            package.UnresolvableContactPoints,
            protocol.OverloadedErrorMessage,
            protocol.IsBootstrappingErrorMessage,
            protocol.ServerError,
            load_driver("cassandra.connection").ConnectionException,
            OSError,
        )
        self._errors = (
            package.DriverException,
            protocol.ErrorMessage,
            self._no_host,
            *self._passing,
        )
        self._cluster: Any = None
        self._session: Any = None
        self._timestamp = 0

    def open(self) -> None:
        """Connect.

        Raises:
            MillstreamError: If the cluster stays away, or refuses the user.
        """
        self._waiting("connecting", self._connect)

    def _connect(self) -> None:
        cluster = self._builder.build_cluster()
        cluster.timestamp_generator = lambda: self._timestamp
        try:
            with _quiet():
                self._session = cluster.connect()
        except BaseException:
            cluster.shutdown()
            raise
        self._cluster = cluster

    def prepare(self, statement: str) -> Any:
        """Have the cluster look at a statement; return it prepared.

        Raises:
            MillstreamError: If it is refused.
        """
        return self._waiting("preparing a statement", lambda: self._session.prepare(statement))

    def execute(self, statement: Any, parameters: Sequence[Any] | None = None, *, what: str) -> list[Any]:
        """Execute a statement; return its rows.

        Args:
            statement: CQL, or a statement with its values.
            parameters: For `%s` in CQL.
            what: What is being done, for messages.

        Raises:
            MillstreamError: If it is refused, or the cluster stays away.
        """
        self._timestamp = self.next_timestamp()
        return self._waiting(what, lambda: list(self._session.execute(statement, parameters)))

    def fetch(self, statement: Any, position: bytes | None, *, what: str) -> tuple[list[Any], bytes | None]:
        """Execute a statement up to the end of a page.

        Args:
            statement: With its values and the size of a page.
            position: Where the page before ended; None to begin.
            what: What is being done, for messages.

        Returns:
            The page's rows, and where it ended; None if that was the last one.

        Raises:
            MillstreamError: If it is refused, or the cluster stays away.
        """

        def page() -> tuple[list[Any], bytes | None]:
            found = self._session.execute(statement, paging_state=position)
            return found.current_rows, found.paging_state

        return self._waiting(what, page)

    def ask(self, statement: Any) -> Any:
        """Send a statement that reads, and return the driver's future; any thread may."""
        return self._session.execute_async(statement)

    def answer(self, future: Any, statement: Any, *, what: str) -> list[Any]:
        """Wait for what `ask` gave, and return all rows; it is asked again while the cluster is away. Any thread may.

        Raises:
            MillstreamError: If it is refused, or the cluster stays away.
        """
        asked = iter((future.result,))  # once

        def rows() -> list[Any]:
            return list(next(asked, lambda: self._session.execute(statement))())

        return self._waiting(what, rows)

    def next_timestamp(self) -> int:
        """Return the time in microseconds, or one more than the last if it has not gone on."""
        return max(self._timestamp + 1, self._clock.now_ms() * 1000)

    def send(self, statement: Any, timestamp: int, *, trace: bool = False) -> Any:
        """Send a statement, and return the driver's future of its answer."""
        self._timestamp = timestamp
        return self._session.execute_async(statement, trace=trace)

    def send_again(self, statement: Any, timestamp: int, patience: Patience) -> None:
        """Execute a statement that failed for reasons that pass; it keeps its timestamp.

        Raises:
            Exception: What the driver raised last.
        """
        latest, self._timestamp = self._timestamp, timestamp
        try:
            self._patiently(patience, "writing", lambda: self._session.execute(statement))
        finally:
            self._timestamp = latest

    def is_passing(self, error: Exception) -> bool:
        """Return whether an error may pass by itself."""
        if isinstance(error, self._no_host):
            return not any(isinstance(each, self._refusals) for each in _causes(error))
        return isinstance(error, self._passing)

    def explain(self, what: str, error: Exception) -> MillstreamError:
        """Return the error that says what one of the driver means.

        Args:
            what: What was being done.
            error: The driver's.
        """
        causes = _causes(error) if isinstance(error, self._no_host) else []
        cause = next((each for each in causes if isinstance(each, self._refusals)), error)
        name = type(cause).__name__
        hint = _HINTS.get(name.removesuffix("Message").removesuffix("ErrorMessage"))
        if hint is None and self.is_passing(error):
            hint = _AWAY if isinstance(cause, (self._no_host, OSError)) else _TOO_LONG
        return self._error_type(
            f"Cassandra refused or did not answer, {what}: {name}",
            detail=f"Cluster {self._builder}. {' '.join(str(cause).split())[:600]}",
            hint=hint,
        )

    def close(self) -> None:
        """End it."""
        if self._cluster is not None:
            cluster, self._cluster, self._session = self._cluster, None, None
            cluster.shutdown()

    def _waiting(self, what: str, action: Callable[[], Result]) -> Result:
        try:
            return self._patiently(self._patience, what, action)
        except ConfigurationError:
            raise
        except self._errors as error:
            raise self.explain(what, error) from error

    def _patiently(self, patience: Patience, what: str, action: Callable[[], Result]) -> Result:
        return patience.call(
            action,
            is_passing=self.is_passing,
            what=f"Cassandra {self._builder}, {what}",
            log=log,
            clock=self._clock,
        )


def _causes(no_host: Any) -> list[Exception]:
    """Return why hosts were of no use: the driver tells it by host, or names the hosts alone if it has tried none."""
    errors = no_host.errors
    return list(errors.values()) if isinstance(errors, Mapping) else []


@contextlib.contextmanager
def _quiet() -> Iterator[None]:
    """Keep the driver from logging a traceback for each attempt to connect: the error is raised, and said once."""
    thread = threading.get_ident()

    def is_of_others(record: logging.LogRecord) -> bool:
        return record.thread != thread

    logger = logging.getLogger("cassandra.cluster")
    logger.addFilter(is_of_others)
    try:
        yield
    finally:
        logger.removeFilter(is_of_others)
