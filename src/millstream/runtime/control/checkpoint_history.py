"""Counts, figures and the last ones of a job's checkpoints (Flink's `CheckpointStatsTracker`): a pure machine.

::

    triggered ─► IN_PROGRESS ─► COMPLETED (later discarded, when newer ones take its place)
                      │
                      ├───────► FAILED    (its own error, or its attempt's)
                      └───────► gone      (postponed: it is ordered again under another number)
"""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass, field, replace

from millstream.runtime.control.events import (
    CheckpointCompleted,
    CheckpointEvent,
    CheckpointFailed,
    CheckpointPostponed,
    CheckpointRestored,
    CheckpointTriggered,
)
from millstream.runtime.control.views import (
    CheckpointConfigView,
    CheckpointCounts,
    CheckpointsView,
    CheckpointView,
    RestoredView,
    SummaryView,
)

__all__ = ["CheckpointHistory"]

_Key = tuple[int, bool]
_SAMPLES = 1_000
_QUANTILES = (0.5, 0.9, 0.95, 0.99, 0.999)


@dataclass(slots=True)
class _Figure:
    """Least, greatest and mean of all values; quantiles of the last."""

    count: int = 0
    total: int = 0
    least: int = 0
    greatest: int = 0
    last: deque[int] = field(default_factory=lambda: deque(maxlen=_SAMPLES))

    def add(self, value: int) -> None:
        self.least = value if not self.count else min(self.least, value)
        self.greatest = max(self.greatest, value)
        self.count += 1
        self.total += value
        self.last.append(value)

    def summary(self) -> SummaryView:
        if not self.count:
            return SummaryView()
        values = sorted(self.last)
        quantiles = [_quantile(values, each) for each in _QUANTILES]
        return SummaryView(self.least, self.greatest, self.total // self.count, *quantiles)


def _quantile(values: Sequence[int], quantile: float) -> float:
    """Return a quantile of sorted values, between two of them in proportion.

    >>> _quantile([1, 2, 3, 4], 0.5), _quantile([7], 0.99)
    (2.5, 7.0)
    """
    place = quantile * (len(values) - 1)
    below = int(place)
    above = min(below + 1, len(values) - 1)
    return values[below] + (values[above] - values[below]) * (place - below)


class CheckpointHistory:
    """Takes events, gives the view; one thread at a time.

    Args:
        config: What the options say of checkpoints.
        size: How many ended ones are kept (`web.checkpoints.history`).
    """

    def __init__(self, config: CheckpointConfigView, *, size: int = 10) -> None:
        self._config = config
        self._size = size
        self._counts = CheckpointCounts()
        self._in_progress: dict[_Key, CheckpointView] = {}
        self._ended: deque[CheckpointView] = deque(maxlen=size)
        self._retained: deque[_Key] = deque()
        self._duration, self._written, self._state = _Figure(), _Figure(), _Figure()
        self._latest_completed: CheckpointView | None = None
        self._latest_failed: CheckpointView | None = None
        self._latest_savepoint: CheckpointView | None = None
        self._latest_restored: RestoredView | None = None

    def handle(self, event: CheckpointEvent) -> None:
        """Take note of what happened."""
        match event:
            case CheckpointTriggered():
                self._trigger(event)
            case CheckpointCompleted():
                self._complete(event)
            case CheckpointFailed():
                self._fail((event.checkpoint_id, event.is_savepoint), event.at_ms, event.reason)
            case CheckpointPostponed():
                if self._in_progress.pop((event.checkpoint_id, event.is_savepoint), None) is not None:
                    self._count(triggered=-1)
            case CheckpointRestored():
                self._latest_restored = event.restored
                self._count(restored=1)

    def fail_all(self, at_ms: int, reason: str) -> None:
        """Take note that what is in progress comes to nothing: the attempt has ended."""
        for key in list(self._in_progress):
            self._fail(key, at_ms, reason)

    def view(self) -> CheckpointsView:
        """Return all that is known."""
        return CheckpointsView(
            counts=replace(self._counts, in_progress=len(self._in_progress)),
            duration_ms=self._duration.summary(),
            checkpointed_size=self._written.summary(),
            state_size=self._state.summary(),
            latest_completed=self._latest_completed,
            latest_failed=self._latest_failed,
            latest_savepoint=self._latest_savepoint,
            latest_restored=self._latest_restored,
            history=(*reversed(self._in_progress.values()), *reversed(self._ended)),
            config=self._config,
        )

    @property
    def counts(self) -> CheckpointCounts:
        """How many there were."""
        return replace(self._counts, in_progress=len(self._in_progress))

    @property
    def latest_completed(self) -> CheckpointView | None:
        """The last that was completed, without savepoints."""
        return self._latest_completed

    @property
    def latest_restored(self) -> RestoredView | None:
        """What an attempt began from last."""
        return self._latest_restored

    def _trigger(self, event: CheckpointTriggered) -> None:
        self._count(triggered=1)
        self._in_progress[event.checkpoint_id, event.is_savepoint] = CheckpointView(
            checkpoint_id=event.checkpoint_id,
            is_savepoint=event.is_savepoint,
            stops=event.stops,
            status="IN_PROGRESS",
            epoch=event.epoch,
            triggered_ms=event.at_ms,
            slot_count=event.slot_count,
        )

    def _complete(self, event: CheckpointCompleted) -> None:
        key = (event.checkpoint_id, event.is_savepoint)
        begun = self._in_progress.pop(key, None)
        if begun is None:
            return
        done = replace(
            begun,
            status="COMPLETED",
            ended_ms=event.at_ms,
            checkpointed_size=event.checkpointed_size,
            state_size=event.state_size,
            path=event.path,
            slots=event.slots,
            operators=event.operators,
        )
        self._ended.append(done)
        self._count(completed=1)
        if event.is_savepoint:
            self._latest_savepoint = done
            return
        self._latest_completed = done
        self._duration.add(done.duration_ms or 0)
        self._written.add(done.checkpointed_size)
        self._state.add(done.state_size)
        self._retained.append(key)
        while len(self._retained) > self._config.retained:
            self._discard(self._retained.popleft())

    def _discard(self, key: _Key) -> None:
        for position, each in enumerate(self._ended):
            if (each.checkpoint_id, each.is_savepoint) == key and each.status == "COMPLETED":
                self._ended[position] = replace(each, is_discarded=True)

    def _fail(self, key: _Key, at_ms: int, reason: str) -> None:
        begun = self._in_progress.pop(key, None)
        if begun is None:
            return
        self._latest_failed = replace(begun, status="FAILED", ended_ms=at_ms, failure=reason)
        self._ended.append(self._latest_failed)
        self._count(failed=1)

    def _count(self, *, triggered: int = 0, completed: int = 0, failed: int = 0, restored: int = 0) -> None:
        counts = self._counts
        self._counts = CheckpointCounts(
            triggered=counts.triggered + triggered,
            completed=counts.completed + completed,
            failed=counts.failed + failed,
            restored=counts.restored + restored,
        )
