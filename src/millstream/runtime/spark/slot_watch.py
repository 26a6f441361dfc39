"""Asks the slots, all the while an attempt runs, whether they are there.

An epoch's job asks each slot through Spark's tasks, and Spark itself takes minutes to notice that a task's host has
gone without a word (a cable, a switch, a kernel). And a slot that has done its level waits, asked by nobody, until
the slowest has done its own. So the driver asks too, past Spark::

    every `interval_s`: ping each slot ─► answers: its lease is renewed
                             └──────────► silent for `timeout_s`, or gone ─► told once; the attempt ends
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence

from millstream.common.errors import SlotLostError
from millstream.runtime.slot.wire import SlotAddress

__all__ = ["SlotWatch"]


class SlotWatch:
    """Looks after the slots of one attempt on a daemon thread, from `start` to `stop`.

    Args:
        addresses: The slots.
        ping: Asks one; raises `SlotLostError`.
        on_lost: Told about the first loss, then every second until `stop`: a job of Spark's that is being
            submitted cannot be cancelled yet. On the watch's thread.
        interval_s: From the end of one round to the next.

    Attributes:
        lost: The first loss; None while there is none.
    """

    def __init__(
        self,
        addresses: Sequence[SlotAddress],
        *,
        ping: Callable[[SlotAddress], object],
        on_lost: Callable[[], None],
        interval_s: float,
    ) -> None:
        self._addresses = addresses
        self._ping = ping
        self._on_lost = on_lost
        self._interval_s = interval_s
        self._stopped = threading.Event()
        self._thread = threading.Thread(target=self._run, name="slot-watch", daemon=True)
        self.lost: SlotLostError | None = None

    def start(self) -> None:
        """Begin to ask."""
        self._thread.start()

    def stop(self) -> None:
        """Ask no more; does not wait for an answer that is still to come. May be called again."""
        self._stopped.set()

    def _run(self) -> None:
        while not self._stopped.wait(self._interval_s):
            for address in self._addresses:
                try:
                    self._ping(address)
                except SlotLostError as error:
                    if not self._stopped.is_set():
                        self._tell(error)
                    return
                if self._stopped.is_set():
                    return

    def _tell(self, error: SlotLostError) -> None:
        self.lost = error
        self._on_lost()
        while not self._stopped.wait(1.0):
            self._on_lost()
