"""How busy a subtask is: Flink's three times that add up to a second, what waits at its input, how much it exchanges.

Time in which a source reads nothing because others have not kept up is back pressure; time in which a subtask has
nothing to do is idle. They are told of the first operator of a chain, once a second and when records begin or cease to
wait. Bytes are counted of what travels encoded between slots: within a slot records are handed on as they are.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from millstream.metrics.groups import MetricKind, MetricName, MetricValue
from millstream.operators.base import OperatorReport
from millstream.runtime.protocol.blocks import Block

__all__ = [
    "BACK_PRESSURED",
    "BACK_PRESSURED_MS",
    "BACK_PRESSURED_TIME",
    "BUSY_MS",
    "BUSY_TIME",
    "BYTES_IN",
    "BYTES_OUT",
    "HELD_RECORDS",
    "IDLE_MS",
    "IDLE_TIME",
    "SubtaskLoad",
]

BUSY_TIME = MetricName(("busyTimeMsPerSecond",))
BACK_PRESSURED_TIME = MetricName(("backPressuredTimeMsPerSecond",))
IDLE_TIME = MetricName(("idleTimeMsPerSecond",))
HELD_RECORDS = MetricName(("heldRecords",))
BACK_PRESSURED = MetricName(("isBackPressured",))
BUSY_MS = MetricName(("accumulateBusyTimeMs",))
IDLE_MS = MetricName(("accumulateIdleTimeMs",))
BACK_PRESSURED_MS = MetricName(("accumulateBackPressuredTimeMs",))
BYTES_IN = MetricName(("numBytesIn",))
BYTES_OUT = MetricName(("numBytesOut",))

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
        self._total_s = dict.fromkeys((BUSY_MS, BACK_PRESSURED_MS, IDLE_MS), 0.0)
        self._bytes_in = self._bytes_out = self._told_in = self._told_out = 0

    def received(self, blocks: Sequence[Block]) -> None:
        """Count what came from other slots."""
        for block in blocks:
            if type(block.payload) is bytes:
                self._bytes_in += len(block.payload)

    def sent(self, blocks: Sequence[Block]) -> None:
        """Count what goes to other slots."""
        for block in blocks:
            if type(block.payload) is bytes:
                self._bytes_out += len(block.payload)

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

    def tell(self, report: OperatorReport, *, held: int, final: bool = False) -> None:
        """Add what is to be told to the report of the chain's first operator.

        Args:
            report: The report.
            held: Records that wait.
            final: Whether the epoch may be the last: what has been exchanged is told at once.
        """
        if bool(held) != bool(self._held):
            self._held = held
            report.metrics[HELD_RECORDS] = MetricValue(MetricKind.GAUGE, held)
        passed_s = self._monotonic() - self._told
        if final or passed_s >= _TELL_S:
            self._tell_bytes(report)
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
        report.metrics[BACK_PRESSURED] = MetricValue(MetricKind.GAUGE, pressed > 0)
        self._tell_total(report, passed_s)
        if held != self._held:
            self._held = held
            report.metrics[HELD_RECORDS] = MetricValue(MetricKind.GAUGE, held)
        self._told = self._monotonic()
        self._busy_s = self._pressed_s = 0.0

    def _tell_total(self, report: OperatorReport, passed_s: float) -> None:
        busy_s = min(self._busy_s, passed_s)
        pressed_s = min(self._pressed_s, passed_s - busy_s)
        for name, more_s in (
            (BUSY_MS, busy_s),
            (BACK_PRESSURED_MS, pressed_s),
            (IDLE_MS, passed_s - busy_s - pressed_s),
        ):
            self._total_s[name] += more_s
            report.metrics[name] = MetricValue(MetricKind.COUNTER, round(self._total_s[name] * 1_000))

    def _tell_bytes(self, report: OperatorReport) -> None:
        if self._bytes_in != self._told_in:
            self._told_in = self._bytes_in
            report.metrics[BYTES_IN] = MetricValue(MetricKind.COUNTER, self._bytes_in)
        if self._bytes_out != self._told_out:
            self._told_out = self._bytes_out
            report.metrics[BYTES_OUT] = MetricValue(MetricKind.COUNTER, self._bytes_out)
