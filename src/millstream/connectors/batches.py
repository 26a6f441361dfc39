"""Sends entries in batches, several under way at a time (after Flink's AsyncSinkBase): for services that take batches.

::

    add … add │ batch is full ─► send ─┬─► all were taken
                                       ├─► some were not: those are sent again, after a pause
                                       └─► an error: raised by the next `add` or `flush`

Entries with keys replace each other: one that waits goes when another one with its key comes, and a batch with a key
that is under way begins when that one has ended. So the last entry of a key is the last that the service takes.
"""

from __future__ import annotations

import random
from collections import deque
from collections.abc import Callable, Hashable, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass
from typing import Generic, TypeVar

from millstream.base.clock import Clock, SystemClock
from millstream.base.errors import ConfigurationError, MillstreamError
from millstream.connectors.patience import Patience

__all__ = ["BatchLimits", "BatchSender", "Refused"]

Entry = TypeVar("Entry")

_SLICE_S = 0.2


@dataclass(frozen=True, slots=True)
class BatchLimits:
    """How much is sent at a time.

    Attributes:
        max_batch_size: Entries of a batch.
        max_in_flight_requests: Batches that are under way.
        max_buffered_requests: Entries that wait, or are under way.
        max_batch_size_in_bytes: Of a batch.
        max_time_in_buffer_ms: Taken for the sake of programs: all is sent at the end of each epoch.
        max_record_size_in_bytes: Of an entry.
    """

    max_batch_size: int
    max_in_flight_requests: int
    max_buffered_requests: int
    max_batch_size_in_bytes: int
    max_time_in_buffer_ms: int
    max_record_size_in_bytes: int

    def check(self, *, batch_size: int, batch_bytes: int, record_bytes: int) -> None:
        """See whether a service takes so much.

        Args:
            batch_size: Entries of a batch that it takes.
            batch_bytes: Bytes of a batch.
            record_bytes: Bytes of an entry.

        Raises:
            ConfigurationError: If not, or if a limit is not positive.
        """
        most = {
            "max_batch_size": batch_size,
            "max_batch_size_in_bytes": batch_bytes,
            "max_record_size_in_bytes": record_bytes,
        }
        for name in self.__slots__:
            value = getattr(self, name)
            if isinstance(value, bool) or not isinstance(value, int) or value < 1:
                raise ConfigurationError(f"{name} is {value!r}", detail="It is a number, 1 at least.")
            if value > most.get(name, value):
                raise ConfigurationError(
                    f"{name} is {value}", detail=f"The service takes {most[name]} at most."
                )
        if self.max_buffered_requests < self.max_batch_size:
            raise ConfigurationError(
                f"max_buffered_requests is {self.max_buffered_requests}",
                detail=f"It cannot be smaller than max_batch_size, which is {self.max_batch_size}.",
            )


@dataclass(frozen=True, slots=True)
class Refused(Generic[Entry]):
    """Entries of a batch that were not taken, and may be if they are sent again.

    Attributes:
        entries: They.
        reason: Why not the first of them, for messages.
    """

    entries: Sequence[Entry]
    reason: str


class _Own:
    """A key of an entry that replaces none."""

    __slots__ = ()


class BatchSender(Generic[Entry]):
    """Gathers entries and sends them; one thread calls it.

    Args:
        limits: How much is sent at a time.
        send: Sends a batch, and returns what was not taken, if any; called by several threads at a time.
        patience: How long entries are sent again while none of a batch is taken.
        give_up: Makes the error that says that this was too long, of the reason.
        fail_on_error: Whether an entry that is not taken is an error at once.
        clock: What time it is.
    """

    def __init__(
        self,
        limits: BatchLimits,
        send: Callable[[Sequence[Entry]], Refused[Entry] | None],
        *,
        patience: Patience,
        give_up: Callable[[str], MillstreamError],
        fail_on_error: bool = False,
        clock: Clock | None = None,
    ) -> None:
        self._limits = limits
        self._send = send
        self._patience = patience
        self._give_up = give_up
        self._fails = fail_on_error
        self._clock = clock or SystemClock()
        self._waiting: dict[Hashable, tuple[Entry, int]] = {}
        self._bytes = 0
        self._under_way: deque[tuple[Future[None], frozenset[Hashable]]] = deque()
        self._closed = False
        self._threads = ThreadPoolExecutor(limits.max_in_flight_requests, thread_name_prefix="batches")

    def add(self, entry: Entry, size: int, key: Hashable | None = None) -> None:
        """Take an entry of so many bytes; may wait until others are taken.

        Args:
            entry: The entry.
            size: Its bytes.
            key: By which it replaces others; None if it replaces none.

        Raises:
            MillstreamError: If an earlier one was refused for good.
        """
        limits = self._limits
        key = _Own() if key is None else key
        if key in self._waiting:
            self._bytes -= self._waiting.pop(key)[1]
        if self._waiting and self._bytes + size > limits.max_batch_size_in_bytes:
            self._begin()
        self._waiting[key] = entry, size
        self._bytes += size
        if len(self._waiting) >= limits.max_batch_size:
            self._begin()

    def flush(self) -> None:
        """Send all, and wait until it is taken.

        Raises:
            MillstreamError: If an entry was refused for good.
        """
        self._begin()
        while self._under_way:
            self._end_first()

    def close(self) -> None:
        """End, without waiting: what is under way may be taken, and is not sent again."""
        self._closed = True
        self._threads.shutdown(wait=False, cancel_futures=True)

    def _begin(self) -> None:
        if not self._waiting:
            return
        waiting, self._waiting, self._bytes = self._waiting, {}, 0
        keys = frozenset(waiting)
        self._end_those_with(keys)
        while self._under_way and (
            len(self._under_way) >= self._limits.max_in_flight_requests
            or sum(len(others) for _, others in self._under_way) + len(keys)
            > self._limits.max_buffered_requests
        ):
            self._end_first()
        batch = [entry for entry, _ in waiting.values()]
        self._under_way.append((self._threads.submit(self._send_all, batch), keys))

    def _end_those_with(self, keys: frozenset[Hashable]) -> None:
        """Wait for batches that have one of these keys."""
        before = [turn for turn, (_, others) in enumerate(self._under_way, 1) if not others.isdisjoint(keys)]
        for _ in range(before[-1] if before else 0):
            self._end_first()

    def _end_first(self) -> None:
        self._under_way.popleft()[0].result()

    def _send_all(self, batch: Sequence[Entry]) -> None:
        """Send a batch until all of it is taken.

        Raises:
            MillstreamError: If some of it is not.
        """
        patience, pause = self._patience, self._patience.first_s
        since = self._clock.monotonic()
        while not self._closed:
            refused = self._send(batch)
            if refused is None:
                return
            now = self._clock.monotonic()
            if len(refused.entries) < len(batch):
                since, pause = now, patience.first_s
            if self._fails or now - since >= patience.total_s:
                raise self._give_up(refused.reason)
            batch = refused.entries
            self._wait(random.uniform(pause / 2, pause))
            pause = min(pause * 2, patience.longest_s)

    def _wait(self, seconds: float) -> None:
        while seconds > 0 and not self._closed:
            self._clock.wait(min(seconds, _SLICE_S))
            seconds -= _SLICE_S
