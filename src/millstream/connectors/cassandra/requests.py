"""Requests under way at a time: bounded, answered before a checkpoint, repeated while the cluster is away."""

from __future__ import annotations

import threading
from collections import deque
from typing import Any

from millstream.base.clock import SystemClock
from millstream.base.errors import SinkError, shorten
from millstream.connectors.cassandra.client import CassandraClient
from millstream.connectors.cassandra.options import CassandraFailureHandler, WriteSettings
from millstream.connectors.cassandra.statements import Binder
from millstream.connectors.patience import Patience
from millstream.operators.user_code import attach_element

__all__ = ["Requests"]

_NO_PATIENCE = Patience(total_s=0)


class Requests:
    """Writes records, many at a time; the oldest is waited for when there are enough. For one thread.

    Args:
        client: The connection, open.
        binder: Makes statements.
        settings: How many; how long the cluster is waited for; who decides about failures.
    """

    def __init__(self, client: CassandraClient, binder: Binder, settings: WriteSettings) -> None:
        self._client = client
        self._binder = binder
        self._handler: CassandraFailureHandler = settings.handler
        self._max = settings.max_requests
        self._wait_s = settings.request_wait_s
        self._trace = settings.options._tracing
        self._patience = settings.patience
        self._gave_up = False
        self._clock = SystemClock()
        self._pending: deque[tuple[Any, Any, int, Any]] = deque()

    def write(self, record: Any) -> None:
        """Send a record's statement.

        Raises:
            SinkError: If an earlier one failed, or no place became free in time.
        """
        try:
            bound = self._binder.bind(record)
        except BaseException as error:
            attach_element(error, record)
            raise
        if bound is None:
            return
        while len(self._pending) >= self._max:
            self._wait_for_place()
            self._settle_oldest()
        timestamp = self._client.next_timestamp()
        future = self._client.send(bound, timestamp, trace=self._trace)
        self._pending.append((future, bound, timestamp, record))

    def finish(self) -> None:
        """Wait for all answers.

        Raises:
            SinkError: If a record could not be written.
        """
        while self._pending:
            self._settle_oldest()

    def _wait_for_place(self) -> None:
        if self._wait_s is None:
            return
        answered = threading.Event()
        self._pending[0][0].add_callbacks(lambda _: answered.set(), lambda _: answered.set())
        if not self._clock.wait(self._wait_s, answered):
            raise SinkError(
                f"none of {self._max} requests to Cassandra was answered for {self._wait_s:g} s",
                hint="Allow more time or fewer requests: set_max_concurrent_requests(requests, duration).",
            )

    def _settle_oldest(self) -> None:
        future, bound, timestamp, record = self._pending.popleft()
        try:
            future.result()
        except Exception as error:  # noqa: BLE001 - errors of the driver have no common class
            self._fail(error, bound, timestamp, record)
        else:
            self._gave_up = False

    def _fail(self, error: Exception, bound: Any, timestamp: int, record: Any) -> None:
        if self._client.is_passing(error):
            patience = _NO_PATIENCE if self._gave_up else self._patience
            try:
                self._client.send_again(bound, timestamp, patience)
            except Exception as last:  # noqa: BLE001 - likewise
                error = last
                self._gave_up = self._client.is_passing(last)
            else:
                self._gave_up = False
                return
        try:
            self._handler.on_failure(error)
        except BaseException as raised:
            attach_element(raised, record)
            if raised is not error:
                raise
            explained = self._client.explain(f"writing {shorten(record)}", error)
            attach_element(explained, record)
            raise explained from error
