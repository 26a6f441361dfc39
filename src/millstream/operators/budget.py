"""How much a subtask does in one epoch: it holds what does not fit, and goes on with it in the next.

An epoch has to end when its time is up, whatever it has read: checkpoints wait for its end, and so do the results
that it sends on. A subtask therefore begins its input in **slices**, and asks before each::

    input   [................................]
    slices   1 4  16   64        ...          a slice takes about 2 ms, whatever a record costs; of columns 50 ms
                        ▲ time is up: the rest is held, a part of the checkpoint like any state

Inputs of one subtask have slices of their own: records of one may be slow where those of the other are fast.

A slice is never given up in the middle. What takes long or emits much for a single record - a flat map of one to a
million - passes **safe points** instead, at which it can be suspended with its stack. It goes on in the next epoch;
no checkpoint is made while it is suspended, as Flink's barriers wait for the record in front of them, and sources wait
for its end. So what would end within a tenth of the epoch's time is not left.

Flink does the same by other means: unaligned checkpoints hold the buffers in flight, and senders wait for credit.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from millstream.base.clock import SystemClock

__all__ = ["UNLIMITED", "EpochLimits", "WorkBudget", "slice_seconds"]

_FIRST_SLICE = 1
_FIRST_LARGE = 256
"""What is worth a call may be many records, and nobody knows yet how much a function makes of each."""
_LARGEST_SLICE = 1 << 20
_SLICE_S = 0.002
_CALL_SLICE_S = 0.05
_SLICE_BYTES = 4 << 20
_TIMERS = 64
_GRACE = 0.1
"""What has begun is left in the middle when so much more than an epoch's time has passed."""


@dataclass(frozen=True, slots=True)
class EpochLimits:
    """What bounds the work of each subtask in one epoch; None bounds nothing.

    Attributes:
        time_ms: A subtask begins nothing more when it has worked for so long, milliseconds.
        size_bytes: Nor when what it sends to other subtasks is estimated at so many bytes.
        records: Nor when it has begun so many records; for tests, which know no time.
    """

    time_ms: int | None = None
    size_bytes: int | None = None
    records: int | None = None


UNLIMITED = EpochLimits()


def slice_seconds(smallest: int) -> float:
    """Return how long a slice is to take.

    A call for whole columns costs the same for few records as for many: slices that took as long as those of rows would
    be nothing but such costs.

    Args:
        smallest: So few records are worth a call.
    """
    return _SLICE_S if smallest == 1 else _CALL_SLICE_S


class WorkBudget:
    """The budget of one subtask; the subtask's thread calls it.

    Args:
        monotonic: Gives seconds from an arbitrary start; None for the machine's clock.

    Attributes:
        begun: Records that were begun in this epoch.
        spent: Whether nothing more is to be begun in this epoch.
        suspend: Leaves the stack until the next epoch; None where that cannot be done.
        scales: Each tells the bytes that it has gathered in this epoch, estimated.
    """

    def __init__(self, monotonic: Callable[[], float] | None = None) -> None:
        self._monotonic = monotonic or SystemClock().monotonic
        self.begun = 0
        self.spent = False
        self.suspend: Callable[[], None] | None = None
        self.scales: list[Callable[[], int]] = []
        self._deadline = self._leave_at = math.inf
        self._most_bytes: float = math.inf
        self._most_records: float = math.inf
        self._sizes: dict[Any, int] = {}
        self._caps: dict[Any, int] = {}
        self._lane: Any = None
        self._granted = self._left = 0
        self._slice_began = 0.0
        self._slice_s = _SLICE_S
        self._bytes = 0

    def begin(self, limits: EpochLimits = UNLIMITED) -> None:
        """Begin an epoch."""
        self._slice_began = self._monotonic()
        time_s = math.inf if limits.time_ms is None else limits.time_ms / 1000
        self._deadline = self._slice_began + time_s
        self._leave_at = self._deadline + time_s * _GRACE
        self._most_bytes = math.inf if limits.size_bytes is None else limits.size_bytes
        self._most_records = math.inf if limits.records is None else limits.records
        self.begun = self._granted = self._left = self._bytes = 0
        self.spent = False

    def take(self, wanted: int, lane: Any = None, smallest: int = 1) -> int:
        """Return how many of `wanted` records may be begun now; 0 when the rest has to be held.

        At least one record is granted in each epoch, so that whatever it costs, the job goes on.

        Args:
            wanted: How many there are.
            lane: Tells kinds of work apart that may take different times.
            smallest: So few are worth a call, whatever the time they take; an epoch's limit of records counts all the
                same.
        """
        if lane is not self._lane and lane != self._lane:
            self._change_lane(lane)
        left = self._left
        if wanted <= left:
            self._left = left - wanted
            self.begun += wanted
            return wanted
        if left >= smallest:
            self._left = 0
            self.begun += left
            return left
        return 0 if self.spent else self._next_slice(wanted, smallest)

    def seconds_left(self) -> float:
        """Return how much time the epoch has left; infinite where it has no limit."""
        return max(self._deadline - self._monotonic(), 0.0)

    def take_timers(self) -> int:
        """Return how many timers may be fired before this is asked again; 0 for no more in this epoch."""
        return self.take(_TIMERS, "timers")

    def now(self) -> float:
        """Return seconds from an arbitrary start."""
        return self._monotonic()

    def may_leave(self) -> bool:
        """Return whether what has begun may be left: space is up, or time and a tenth more; looks at the clock."""
        return self._monotonic() >= self._leave_at or self._is_full()

    def reach_safe_point(self) -> None:
        """Let work that takes long for one record be suspended here, if `may_leave` says so."""
        if self.suspend is not None and self.may_leave():
            self.spent = True
            self._left = 0
            self.suspend()

    def _change_lane(self, lane: Any) -> None:
        """End the slice, of which something may be left, and begin with work of another kind."""
        self._settle(self._monotonic())
        self._lane = lane
        self._left = 0

    def _settle(self, now: float) -> None:
        """Learn from the slice that has come to its end."""
        granted, self._granted = self._granted, 0
        if granted:
            before = self._bytes
            self._is_full()
            self._adapt(granted - self._left, granted, now - self._slice_began, self._bytes - before)

    def _next_slice(self, wanted: int, smallest: int) -> int:
        now = self._monotonic()
        self._settle(now)
        if self.begun and (now >= self._deadline or self._is_full() or self.begun >= self._most_records):
            self.spent = True
            return 0
        self._slice_began = now
        self._slice_s = slice_seconds(smallest)
        known = self._sizes.get(self._lane)
        size = min(max(_FIRST_SLICE, smallest), _FIRST_LARGE) if known is None else max(known, smallest)
        size = min(size, self._caps.get(self._lane, size))
        size = int(min(size, max(self._most_records - self.begun, 1)))
        granted = min(wanted, size)
        self._granted = size
        self._left = size - granted
        self.begun += granted
        return granted

    def _is_full(self) -> bool:
        self._bytes = sum(weigh() for weigh in self.scales)
        return self._bytes >= self._most_bytes

    def _adapt(self, done: int, granted: int, took_s: float, grown_bytes: int) -> None:
        self._adapt_cap(done, granted, grown_bytes)
        size = self._sizes.setdefault(self._lane, _FIRST_SLICE)
        share = max(took_s / self._slice_s, grown_bytes / _SLICE_BYTES)
        if share < 0.5 and done == granted:
            self._sizes[self._lane] = min(size * 4, _LARGEST_SLICE)
        elif share > 2.0:
            self._sizes[self._lane] = max(1, int(done / share))

    def _adapt_cap(self, done: int, granted: int, grown_bytes: int) -> None:
        """Bound slices by what is made of them, which is memory, whatever number of records is worth a call."""
        cap = self._caps.get(self._lane)
        if grown_bytes > 2 * _SLICE_BYTES:
            self._caps[self._lane] = max(1, done * _SLICE_BYTES // grown_bytes)
        elif cap is not None and done == granted and grown_bytes < _SLICE_BYTES / 2:
            self._caps[self._lane] = min(cap * 4, _LARGEST_SLICE)
