"""Cancelling within an epoch: it ends only when every slot has ended it, and a function may never return.

::

    cancelled ─► slots are told ─► operators that wait give up ─► the epoch fails, the attempt is aborted
                        └── grace ──► still nothing: functions are interrupted, or slots killed ─► likewise
"""

from __future__ import annotations

import threading
from collections.abc import Callable

__all__ = ["CancelWatch", "GRACE_S", "INTERRUPT_AGAIN_S"]

GRACE_S = 0.3
"""How long a cancelled job's epoch may take to end by itself before its functions are interrupted."""
INTERRUPT_AGAIN_S = 0.5
"""Between two interruptions: a function may catch one."""


class CancelWatch:
    """Looks after the slots of one attempt on a daemon thread, from `start` to `stop`.

    Args:
        is_cancelled: Tells whether the job is being cancelled.
        tell: Tells every slot; on the watch's thread.
        kill: Ends every slot's epoch, or the slot; on the watch's thread.
        poll_s: How often to look.
        grace_s: How long slots have to end the epoch by themselves.
        again_s: Between two calls of `kill`; None calls it once.
    """

    def __init__(
        self,
        is_cancelled: Callable[[], bool],
        *,
        tell: Callable[[], None],
        kill: Callable[[], None],
        grace_s: float,
        poll_s: float = 0.1,
        again_s: float | None = None,
    ) -> None:
        self._is_cancelled = is_cancelled
        self._tell = tell
        self._kill = kill
        self._poll_s = poll_s
        self._grace_s = grace_s
        self._again_s = again_s
        self._stopped = threading.Event()
        self._thread = threading.Thread(target=self._run, name="cancel-watch", daemon=True)

    def start(self) -> None:
        """Begin to look."""
        self._thread.start()

    def stop(self) -> None:
        """Look no more; slots are neither told nor killed from now on. May be called again."""
        self._stopped.set()
        if self._thread.is_alive() and threading.current_thread() is not self._thread:
            self._thread.join()

    def _run(self) -> None:
        while not self._stopped.wait(self._poll_s):
            if self._is_cancelled():
                self._tell()
                pause_s: float | None = self._grace_s
                while pause_s is not None and not self._stopped.wait(pause_s):
                    self._kill()
                    pause_s = self._again_s
                return
