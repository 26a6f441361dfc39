"""The driver's end of carriers that stay: begins a stay, gives it epochs, ends it.

A stay is a job of Spark's with one task, see `staying_carrier.py`, which holds a core. It ends::

    task:     nothing came for some time                          driver sees the end, next epoch: a new stay
    driver:   an epoch was large, failed, or took long            ordinary jobs follow
              it has lasted long                                  Spark gives the core to who has waited
              another job of Spark's is there, asked now and then the same
              the attempt ends
    Spark:    task lost, job cancelled                            failure, if that was in an epoch

With Spark's own order (first come, first served) jobs that came meanwhile go first.
"""

from __future__ import annotations

import itertools
import logging
import pickle
import queue
import threading
from collections.abc import Callable, Mapping

from millstream.base.clock import Clock
from millstream.runtime.connect.channel import Channel
from millstream.runtime.spark.carrier import Carried

__all__ = ["CarrierStays"]

_log = logging.getLogger(__name__)
_LOOK_S = 0.1
_END_S = 2.0
_NUMBER_BYTES = 8

BeginStay = Callable[[int, int], Callable[[], bytes]]
"""Has Spark run the task of a stay, by its number and its first epoch; returns what waits for the task's frame."""


class _Link:
    """A connection to a task; the thread that has accepted it waits until it is needed no more."""

    def __init__(self, channel: Channel) -> None:
        self.channel = channel
        self._done = threading.Event()

    def wait(self) -> None:
        self._done.wait()

    def close(self) -> None:
        """Have the thread that waits close the connection."""
        self._done.set()


class _Stay:
    """One job of Spark's, and the tasks that came of it: more than one if Spark tries again.

    Threads: the job master's asks; the listener's threads tell of tasks, another one of the job's end.
    """

    def __init__(self, number: int, running: set[object]) -> None:
        self.number = number
        self._running = running
        self._lock = threading.Lock()
        self._events: queue.SimpleQueue[_Link | bytes | Exception] = queue.SimpleQueue()
        self._link: _Link | None = None
        self._left = False
        self._has_ended = threading.Event()
        self.outcome: bytes | Exception = b""

    def watch(self, wait: Callable[[], bytes]) -> None:
        """Wait for the job's end, on a thread of its own."""
        threading.Thread(target=self._watch, args=(wait,), name="carrier-stay", daemon=True).start()

    def _watch(self, wait: Callable[[], bytes]) -> None:
        outcome: bytes | Exception
        try:
            outcome = wait()
        except Exception as error:  # noqa: BLE001 - raised again by who asks
            outcome = error
        self._events.put(outcome)
        with self._lock:
            self._has_ended.set()
            self._running.discard(self)
            if self._link is not None:
                self._link.channel.shut_down()  # a task that is cancelled may hang on for seconds

    def arrived(self, link: _Link) -> bool:
        """Take the connection of a task; return whether it may be needed."""
        with self._lock:
            if not self._left:
                self._events.put(link)
            return not self._left

    @property
    def is_waiting(self) -> bool:
        """Whether a task waits for an epoch."""
        return self._link is not None and not self._has_ended.is_set() and not self._link.channel.poll(0)

    def ask(self, order: bytes) -> bytes | None:
        """Give an epoch to a task and return its answer; None if the job ended without one, see `outcome`."""
        while True:
            if self._link is None and not self._take_event():
                return None
            assert self._link is not None
            channel = self._link.channel
            try:
                channel.send_bytes(order)
                return channel.recv_bytes()
            except (OSError, EOFError) as error:
                _log.debug("a carrier is gone: %s", error)
                self._drop_link()

    def _take_event(self) -> bool:
        """Wait for a task or the end of the job; return whether it is a task."""
        event = self._events.get()
        if not isinstance(event, _Link):
            self.outcome = event
            return False
        with self._lock:
            self._link = event
            if self._has_ended.is_set():
                event.channel.shut_down()
            else:
                self._running.add(self)
        return True

    def _drop_link(self) -> None:
        with self._lock:
            link, self._link = self._link, None
        if link is not None:
            link.close()

    def leave(self) -> None:
        """Need no task any more: those that are there end, and the job with them."""
        self._drop_link()
        with self._lock:
            self._left = True
        while not self._events.empty():
            event = self._events.get()
            if isinstance(event, _Link):
                event.close()

    def wait_for_end(self, seconds: float) -> bool:
        """Wait until Spark's job has ended; return whether it has."""
        return self._has_ended.wait(seconds)


class CarrierStays:
    """Has the small epochs of one attempt carried by tasks that stay; the job master's thread calls it.

    Args:
        begin: Has Spark run the task of a stay.
        hold_s: How long a stay may last.
        running: The stays of all jobs of the session whose tasks run.
        others_wait: Tells whether Spark has other jobs than those to run.
        clock: Time.
    """

    def __init__(
        self,
        begin: BeginStay,
        *,
        hold_s: float,
        running: set[object],
        others_wait: Callable[[], bool],
        clock: Clock,
    ) -> None:
        self._begin = begin
        self._hold_s = hold_s
        self._running = running
        self._others_wait = others_wait
        self._clock = clock
        self._numbers = itertools.count(1)
        self._stay: _Stay | None = None
        self._last: _Stay | None = None
        self._began_s = self._looked_s = 0.0
        self._are_possible = True

    def converse(self, channel: Channel) -> None:
        """Take a task that has connected, on a thread of the listener's; return when it is needed no more."""
        number = int.from_bytes(channel.recv_bytes(_NUMBER_BYTES), "big")
        stay, link = self._stay, _Link(channel)
        if stay is not None and stay.number == number and stay.arrived(link):
            link.wait()

    def carry(self, epoch: int, headers: Mapping[int, bytes]) -> Carried | None:
        """Have an epoch carried.

        Args:
            epoch: Its number.
            headers: By slot, pickled.

        Returns:
            What became of it; None if no task can reach the driver.

        Raises:
            Exception: What Spark says if it lost the task in the middle of the epoch.
        """
        order = pickle.dumps(headers, protocol=5)
        if self._stay is not None and not self._stay.is_waiting:
            self.end()
        while self._are_possible:
            stay = self._stay or self._begin_stay(epoch)
            answer = stay.ask(order)
            if answer is not None:
                carried: Carried = pickle.loads(answer)
                if carried.is_large or self._has_to_make_room():
                    self.end()
                return carried
            self.end()
            if isinstance(stay.outcome, Exception):
                raise stay.outcome
            # Without a word, it had waited for too long just when the epoch came.
            if stay.outcome:
                self._are_possible = False
                _log.info(
                    "Spark's tasks cannot reach the driver, so each epoch is a job: %s", stay.outcome.decode()
                )
        return None

    def end(self) -> None:
        """Let the task end; its core is free at once."""
        stay, self._stay = self._stay, None
        if stay is not None:
            stay.leave()

    def close(self) -> bool:
        """End the stay, and wait for its job; return whether that has ended."""
        self.end()
        return self._last is None or self._last.wait_for_end(_END_S)

    def _begin_stay(self, epoch: int) -> _Stay:
        self._stay = self._last = stay = _Stay(next(self._numbers), self._running)
        stay.watch(self._begin(stay.number, epoch))
        self._began_s = self._looked_s = self._clock.monotonic()
        return stay

    def _has_to_make_room(self) -> bool:
        now_s = self._clock.monotonic()
        if now_s - self._began_s >= self._hold_s:
            return True
        if now_s - self._looked_s < _LOOK_S:
            return False
        self._looked_s = now_s
        return self._others_wait()
