"""How busy a subtask is: Flink's three times that add up to a second, and what waits at its input.

Time in which a source reads nothing because others have not kept up is back pressure; time in which a subtask has
nothing to do is idle. They are told of the first operator of a chain, once a second and when records begin or cease to
wait.
"""

from __future__ import annotations

from collections.abc import Callable

from millstream.metrics.groups import MetricKind, MetricName, MetricValue
from millstream.operators.base import OperatorReport

__all__ = ["BACK_PRESSURED_TIME", "BUSY_TIME", "HELD_RECORDS", "IDLE_TIME", "SubtaskLoad"]

BUSY_TIME = MetricName(("busyTimeMsPerSecond",))
BACK_PRESSURED_TIME = MetricName(("backPressuredTimeMsPerSecond",))
IDLE_TIME = MetricName(("idleTimeMsPerSecond",))
HELD_RECORDS = MetricName(("heldRecords",))

_TELL_S = 1.0


class SubtaskLoad:
    """The load of one subtask; the subtask's thread calls it.

    Args:
        monotonic: Gives seconds from an arbitrary start.
    """

    def __init__(self, monotonic: Callable[[], float]) -> None:
        self._monotonic = monotonic
        self._told = self._seen = monotonic()
        self._busy_s = self._pressed_s = 0.0
        self._held: int | None = None

    def ran(self, began: float, *, pressed: bool) -> None:
        """Take note that the subtask has run from `began` until now.

        Args:
            began: When, by the same clock.
            pressed: Whether what it did not do before then it did not do because others had not kept up.
        """
        now = self._monotonic()
        if pressed:
            self._pressed_s += max(began - self._seen, 0.0)
        self._busy_s += now - began
        self._seen = now

    def tell(self, report: OperatorReport, *, held: int) -> None:
        """Add what is to be told to the report of the chain's first operator."""
        if bool(held) != bool(self._held):
            self._held = held
            report.metrics[HELD_RECORDS] = MetricValue(MetricKind.GAUGE, held)
        passed_s = self._monotonic() - self._told
        if passed_s < _TELL_S:
            return
        busy = min(round(1_000 * self._busy_s / passed_s), 1_000)
        pressed = min(round(1_000 * self._pressed_s / passed_s), 1_000 - busy)
        for name, share in (
            (BUSY_TIME, busy),
            (BACK_PRESSURED_TIME, pressed),
            (IDLE_TIME, 1_000 - busy - pressed),
        ):
            report.metrics[name] = MetricValue(MetricKind.GAUGE, share)
        if held != self._held:
            self._held = held
            report.metrics[HELD_RECORDS] = MetricValue(MetricKind.GAUGE, held)
        self._told = self._monotonic()
        self._busy_s = self._pressed_s = 0.0
