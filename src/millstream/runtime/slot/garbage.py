"""How often Python's garbage collector looks while records flow.

Records are made and dropped by the million, and hardly ever in cycles. By default the collector looks at the youngest
objects after each 700 that are made, and now and then at all that a job keeps; while records flow it looks at them
rarely, and never at what was there before.

A slot's process belongs to its job. The local executor runs jobs in the program's own process: there it is so only
while a job runs, and then as it was, whatever else the program has set.
"""

from __future__ import annotations

import gc
import threading

__all__ = ["THRESHOLDS", "RareCollections", "collect_rarely"]

THRESHOLDS = (200_000, 20, 50)
"""Objects made for a look at the youngest; looks after which older ones are looked at; and those that stay."""


def collect_rarely() -> None:
    """Have this process collect rarely from now on, and let it forget about what is there."""
    gc.collect()
    gc.freeze()
    gc.set_threshold(*THRESHOLDS)


class RareCollections:
    """Has this process collect rarely while jobs run in it; called by any thread.

    What the program itself has frozen, switched off, or sets while a job runs stays as it is.
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._jobs = 0
        self._before: tuple[int, int, int] | None = None
        self._frozen = False

    def begin(self) -> None:
        """Learn that a job runs."""
        with self._lock:
            self._jobs += 1
            if self._jobs > 1:
                return
            before = gc.get_threshold()
            if before[0]:
                self._before = before
                gc.set_threshold(*THRESHOLDS)
            if not gc.get_freeze_count():
                self._frozen = True
                gc.freeze()

    def end(self) -> None:
        """Learn that a job runs no more; as it was with the last."""
        with self._lock:
            self._jobs -= 1
            if self._jobs:
                return
            before, self._before = self._before, None
            if before is not None and gc.get_threshold() == THRESHOLDS:
                gc.set_threshold(*before)
            if self._frozen:
                self._frozen = False
                gc.unfreeze()
