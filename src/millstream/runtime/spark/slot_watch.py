"""Looks after the slots, all the while an attempt runs.

An epoch's job asks each slot through Spark's tasks, and Spark itself takes minutes to notice that a task's host has
gone without a word (a cable, a switch, a kernel). Where an executor is lost, Spark waits for another one and runs the
epoch's job again, though the slot beside it is gone for good. And a slot that has done its level waits, asked by
nobody, until the slowest has done its own. So the driver watches too, past Spark::

    a connection to each slot that nobody writes to ──► ends ─► ping ─► gone: the attempt ends
    every `interval_s`: ping each slot ─► answers: its lease is renewed
                             ├──────────► silent, but its connection is held and its process runs: it is busy
                             └──────────► silent `patience` times, or gone: the attempt ends
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from multiprocessing import Pipe
from multiprocessing.connection import wait

from millstream.base.errors import SlotLostError
from millstream.runtime.connect.channel import Channel
from millstream.runtime.slot.wire import SlotAddress, SlotSilentError

__all__ = ["SlotWatch"]

_GRACE_S = 0.5
_AGAIN_S = 1.0


class SlotWatch:
    """Looks after the slots of one attempt on a daemon thread, from `start` to `stop`.

    Args:
        addresses: The slots.
        hold: Opens the connection that ends when a slot does; raises `SlotLostError`.
        ping: Asks one; raises `SlotLostError`.
        on_lost: Told about the first loss, half a second behind it and then every second until `stop`: often the
            epoch's job finds the loss itself, which is gentler than to cancel it; and one that is being submitted
            cannot be cancelled yet. On the watch's thread.
        interval_s: Between two pings of a slot.
        is_busy: Tells whether the process of a silent slot runs: its function holds the interpreter's lock.
        patience: How many pings one after the other a slot may leave unanswered whose process does not run.
        on_look: Called after each round of pings, on the watch's thread.

    Attributes:
        lost: The first loss; None while there is none.
    """

    def __init__(
        self,
        addresses: Sequence[SlotAddress],
        *,
        hold: Callable[[SlotAddress], Channel],
        ping: Callable[[SlotAddress], object],
        on_lost: Callable[[], None],
        interval_s: float,
        is_busy: Callable[[SlotAddress], bool] = lambda _: False,
        patience: int = 1,
        on_look: Callable[[], None] = lambda: None,
    ) -> None:
        self._is_busy = is_busy
        self._patience = patience
        self._on_look = on_look
        self._silent: dict[int, int] = {}
        self._addresses = addresses
        self._hold = hold
        self._ping = ping
        self._on_lost = on_lost
        self._interval_s = interval_s
        self._stopped = threading.Event()
        self._wake, self._waker = Pipe(duplex=False)
        self._thread = threading.Thread(target=self._run, name="slot-watch", daemon=True)
        self.lost: SlotLostError | None = None

    def start(self) -> None:
        """Begin to watch."""
        self._thread.start()

    def stop(self) -> None:
        """Watch no more; does not wait for an answer that is still to come. May be called again."""
        self._stopped.set()
        self._waker.close()

    def _run(self) -> None:
        try:
            with self._wake, ExitStack() as stack:
                self._watch({stack.enter_context(self._hold(each)): each for each in self._addresses})
        except SlotLostError as error:
            if not self._stopped.is_set():
                self._tell(error)

    def _watch(self, held: dict[Channel, SlotAddress]) -> None:
        """Return when the watch is stopped; raise `SlotLostError` for the first loss."""
        while not self._stopped.is_set():
            ready = wait([self._wake, *(each.fileno() for each in held)], self._interval_s)
            ended = [each for each in held if each.fileno() in ready]
            # One whose connection ends though it lives (a network may do that) is pinged from then on like the others.
            suspects = [held.pop(each) for each in ended] or self._addresses
            for address in suspects:
                if self._stopped.is_set():
                    return
                self._look_after(address, held=address in held.values())
            self._on_look()

    def _look_after(self, address: SlotAddress, *, held: bool) -> None:
        try:
            self._ping(address)
        except SlotSilentError:
            if held and self._is_busy(address):
                self._silent.pop(address.slot, None)
                return
            self._silent[address.slot] = self._silent.get(address.slot, 0) + 1
            if not held or self._silent[address.slot] >= self._patience:
                raise
        else:
            self._silent.pop(address.slot, None)

    def _tell(self, error: SlotLostError) -> None:
        self.lost = error
        pause_s = _GRACE_S
        while not self._stopped.wait(pause_s):
            self._on_lost()
            pause_s = _AGAIN_S
