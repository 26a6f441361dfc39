"""Failures of a job where a test wants them."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from enum import Enum
from typing import Any

from millstream.base.crash_points import CrashHook
from millstream.common.functions import MapFunction

__all__ = ["FailurePlan", "FailurePoint", "InjectedFailure", "Tap", "set_failure_plan"]


class InjectedFailure(Exception):
    """What goes wrong because a test said so.

    Example:
        >>> from millstream.testing import InjectedFailure, MiniCluster
        >>> with MiniCluster() as cluster:
        ...     numbers = cluster.environment().from_collection(range(10)).map(cluster.tap())
        ...     cluster.fail_after(4)
        ...     sorted(cluster.collect(numbers)) == list(range(10)), cluster.failures
        (True, ['record 4'])
    """


class FailurePoint(Enum):
    """Where the driver of a job may fail, in the order in which they are reached::

        BEFORE_EPOCH ─► the epoch runs ─► AFTER_EPOCH ─► BEFORE_CHECKPOINT ─► the checkpoint is published
            ─► AFTER_CHECKPOINT ─► BEFORE_COMMIT ─► sinks commit ─► AFTER_COMMIT

    Those in the middle are reached in epochs that end with a checkpoint.

    Example:
        >>> from millstream.testing import FailurePoint, MiniCluster
        >>> with MiniCluster() as cluster:
        ...     numbers = cluster.environment().from_collection([1, 2, 3])
        ...     cluster.fail_at(FailurePoint.AFTER_CHECKPOINT)
        ...     cluster.collect(numbers), cluster.failures
        ([1, 2, 3], ['AFTER_CHECKPOINT 1'])
    """

    BEFORE_EPOCH = "plan"
    AFTER_EPOCH = "epoch.report"
    BEFORE_CHECKPOINT = "manifest.write"
    AFTER_CHECKPOINT = "manifest.published"
    BEFORE_COMMIT = "seal"
    AFTER_COMMIT = "commit.done"


class FailurePlan:
    """What is to fail, and what failed, over all attempts of all jobs; a `CrashHook`, and what taps ask.

    Attributes:
        failed: What has failed, in order.
        records: Records that passed all taps.
        outer: The hook that was there before, which goes on to be told; None if there was none.
    """

    def __init__(self) -> None:
        self.outer: CrashHook | None = None
        self._points: set[tuple[str, int]] = set()
        self._reached: Counter[str] = Counter()
        self._gaps: list[int] = []
        self._since = 0
        self._actions: list[tuple[int, Callable[[], object]]] = []
        self.records = 0
        self.failed: list[str] = []

    @property
    def pending(self) -> int:
        """How many failures are still to come."""
        return len(self._points) + len(self._gaps)

    def add_point(self, point: FailurePoint, occurrence: int) -> None:
        """Plan a failure where a point is reached for the nth time from now on."""
        self._points.add((point.value, self._reached[point.value] + occurrence))

    def set_gaps(self, gaps: list[int]) -> None:
        """Plan failures after so many records at the taps, and so many more; forget those planned before."""
        self._gaps = list(gaps)
        self._since = 0

    def add_action(self, records: int, action: Callable[[], object]) -> None:
        """Have something done when so many records have passed the taps from now on."""
        self._actions.append((self.records + records, action))

    def tick(self) -> None:
        """Take note of a record at a tap."""
        self.records += 1
        self._since += 1
        for due in [each for each in self._actions if each[0] <= self.records]:
            self._actions.remove(due)
            due[1]()
        if self._gaps and self._since >= self._gaps[0]:
            self._gaps.pop(0)
            self._since = 0
            self._fail(f"record {self.records}")

    def reach(self, name: str, detail: str) -> None:
        """Take note of a place in the engine."""
        if self.outer is not None:
            self.outer.reach(name, detail)
        self._reached[name] += 1
        place = (name, self._reached[name])
        if place in self._points:
            self._points.discard(place)
            self._fail(f"{FailurePoint(name).name} {place[1]}")

    def around(self, name: str, detail: str, action: Callable[[], Any]) -> Any:
        """Perform an action of the engine: nothing of the plan fails there."""
        return action() if self.outer is None else self.outer.around(name, detail, action)

    def _fail(self, where: str) -> None:
        self.failed.append(where)
        raise InjectedFailure(f"injected at {where}")


_current: FailurePlan | None = None


def set_failure_plan(plan: FailurePlan | None) -> FailurePlan | None:
    """Set what the taps of this process ask, None for nothing; return what was there before."""
    global _current
    before, _current = _current, plan
    return before


class Tap(MapFunction[Any, Any]):
    """Hands records on, and counts them; fails where the plan of the cluster that runs says so.

    In the process of the test only: functions of all attempts find the plan there.
    """

    def map(self, value: Any) -> Any:
        """Count a record."""
        if _current is not None:
            _current.tick()
        return value
