"""Cancelling within an epoch: Spark's job ends only when every slot has answered, and a function may never return.

::

    cancelled ─► every slot is told ─► operators that wait give up ─► the epoch's job fails, the attempt is aborted
                        └── grace ──► still nothing: the slots are killed ─► likewise
"""

from __future__ import annotations

import threading
from collections.abc import Callable

__all__ = ["CancelWatch"]


class CancelWatch:
    """Looks after the slots of one attempt on a daemon thread, from `start` to `stop`.

    Args:
        is_cancelled: Tells whether the job is being cancelled.
        tell: Tells every slot; on the watch's thread.
        kill: Ends every slot; on the watch's thread.
        poll_s: How often to look.
        grace_s: How long slots have to end the epoch by themselves.
    """

    def __init__(
        self,
        is_cancelled: Callable[[], bool],
        *,
        tell: Callable[[], None],
        kill: Callable[[], None],
        grace_s: float,
        poll_s: float = 0.5,
    ) -> None:
        self._is_cancelled = is_cancelled
        self._tell = tell
        self._kill = kill
        self._poll_s = poll_s
        self._grace_s = grace_s
        self._stopped = threading.Event()
        self._thread = threading.Thread(target=self._run, name="cancel-watch", daemon=True)

    def start(self) -> None:
        """Begin to look."""
        self._thread.start()

    def stop(self) -> None:
        """Look no more; slots are neither told nor killed from now on. May be called again."""
        self._stopped.set()
        if self._thread.is_alive():
            self._thread.join()

    def _run(self) -> None:
        while not self._stopped.wait(self._poll_s):
            if self._is_cancelled():
                self._tell()
                if not self._stopped.wait(self._grace_s):
                    self._kill()
                return
