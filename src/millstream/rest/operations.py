"""What takes longer than a request: a client triggers it, gets an id, and asks for that until it is done."""

from __future__ import annotations

import threading
from collections.abc import Callable
from concurrent.futures import Future
from dataclasses import dataclass
from typing import Any

from millstream.base.clock import Clock
from millstream.base.ids import new_id
from millstream.rest.errors import RestError

__all__ = ["Operations"]

_KEPT_S = 300.0
"""Flink's `rest.async.store-duration`."""
_MOST = 1_000


@dataclass(slots=True)
class _Operation:
    future: Future[Any]
    done_s: float | None = None


class Operations:
    """Operations that were triggered here; any thread may ask.

    What is done is kept for five minutes. At most 1,000 are kept: those that are done go first; if all run, no more
    are begun.

    Args:
        clock: Time.
    """

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._lock = threading.Lock()
        self._operations: dict[tuple[str, str, str], _Operation] = {}

    def trigger(
        self, kind: str, job_id: str, trigger_id: str | None, begin: Callable[[], Future[Any]]
    ) -> str:
        """Begin an operation, unless one of that trigger id has begun; returns the trigger id.

        Args:
            kind: Such as "savepoint".
            job_id: Of the job.
            trigger_id: The client's, so that it can ask twice; None makes one up.
            begin: Begins it.

        Raises:
            RestError: 503 if too many run.
        """
        chosen = new_id() if trigger_id is None else trigger_id
        key = (kind, job_id, chosen)
        with self._lock:
            self._sweep()
            if key in self._operations:
                return chosen
            if len(self._operations) >= _MOST:
                raise RestError(503, f"{_MOST} operations run already; ask again when some of them are done")
            operation = self._operations[key] = _Operation(Future())
        try:
            operation.future = begin()
        except BaseException:
            with self._lock:
                del self._operations[key]
            raise
        operation.future.add_done_callback(lambda _: self._note_end(operation))
        return chosen

    def find(self, kind: str, job_id: str, trigger_id: str) -> Future[Any]:
        """Return what comes of an operation.

        Raises:
            RestError: 404 if there is none, or it was done long ago.
        """
        with self._lock:
            operation = self._operations.get((kind, job_id, trigger_id))
        if operation is None:
            raise RestError(
                404,
                f"there is no operation with trigger id {trigger_id} for job {job_id}. Results are kept for "
                f"{_KEPT_S / 60:.0f} minutes, by the server that was asked",
            )
        return operation.future

    def _note_end(self, operation: _Operation) -> None:
        operation.done_s = self._clock.monotonic()

    def _sweep(self) -> None:
        now_s = self._clock.monotonic()
        done = [(key, each.done_s) for key, each in self._operations.items() if each.done_s is not None]
        done.sort(key=lambda item: item[1])
        too_many = len(self._operations) - _MOST + 1
        for index, (key, done_s) in enumerate(done):
            if index < too_many or now_s - done_s > _KEPT_S:
                del self._operations[key]
