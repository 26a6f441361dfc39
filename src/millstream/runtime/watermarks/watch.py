"""Makes the watermark explain itself: a warning when it stands still, a view for whoever looks."""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence

from millstream.base.clock import Clock
from millstream.base.time import MIN_TIMESTAMP
from millstream.runtime.control.views import WatermarkFact, WatermarksView
from millstream.runtime.protocol.report import SlotReport
from millstream.runtime.watermarks.advice import (
    format_duration,
    format_timestamp,
    looks_like_seconds,
)
from millstream.runtime.watermarks.progress import WatermarkMonitor

__all__ = ["WatermarkWatch", "describe_stall"]

_LOG = logging.getLogger("millstream")
_INTERVAL_S = 1.0


class WatermarkWatch:
    """Feeds the monitor and acts on what it finds; the job master's thread calls it.

    Args:
        monitor: The facts.
        job_id: Of the job.
        job_name: Of the job.
        batch: Whether it runs in batch mode, where no watermark is expected before the end.
        clock: Time.
        publish: Given what is known about once a second, and not in the first.
    """

    def __init__(
        self,
        monitor: WatermarkMonitor,
        *,
        job_id: str,
        job_name: str,
        batch: bool,
        clock: Clock,
        publish: Callable[[WatermarksView], None],
    ) -> None:
        self.monitor = monitor
        self._job_id = job_id
        self._job_name = job_name
        self._batch = batch
        self._clock = clock
        self._started_ms = clock.now_ms()
        self._epoch = 0
        self._looked_at_unit = False
        self._publish = publish
        self._next_s = clock.monotonic() + _INTERVAL_S

    def record(self, reports: Sequence[SlotReport], now_ms: int) -> None:
        """Take an epoch's reports; warns once for each stall."""
        has_input = False
        for report in reports:
            for node_id, operator in report.operators:
                self.monitor.record(report.slot, node_id, operator)
                has_input = has_input or any(end.records for end in operator.range_ends)
            self._epoch = report.epoch
            if not self._looked_at_unit:
                self._warn_of_seconds(report)
        stalled = self.monitor.observe(
            now_ms, has_input=has_input, event_timers=any(report.event_timers for report in reports)
        )
        if stalled is not None and not self._batch:
            _LOG.warning("%s", describe_stall(stalled, now_ms))

    def _warn_of_seconds(self, report: SlotReport) -> None:
        """Look at the first timestamps only: those that begin at 0 and count up are no mistake."""
        stamps = [split.max_timestamp_ms for _, operator in report.operators for split in operator.splits]
        first_ms = max(stamps, default=MIN_TIMESTAMP)
        if first_ms == MIN_TIMESTAMP:
            return
        self._looked_at_unit = True
        if looks_like_seconds(first_ms):
            _LOG.warning(
                "timestamps are around %s, as those of seconds that are taken for milliseconds\n"
                "Hint: If they are seconds, have the timestamp assigner return seconds * 1000.",
                format_timestamp(first_ms),
            )

    def publish(self) -> None:
        """Tell what is known if it is time; called in every turn of the job master."""
        if self._clock.monotonic() >= self._next_s:
            self._next_s = self._clock.monotonic() + _INTERVAL_S
            self._publish(self.view())

    def view(self) -> WatermarksView:
        """Return what is known."""
        now_ms = self._clock.now_ms()
        return WatermarksView(
            job_id=self._job_id,
            name=self._job_name,
            started_ms=self._started_ms,
            written_ms=now_ms,
            batch=self._batch,
            epoch=self._epoch,
            watermark_ms=self.monitor.watermark_ms,
            facts=tuple(self.monitor.explain(now_ms)),
        )


def describe_stall(fact: WatermarkFact, now_ms: int) -> str:
    """Return the warning for a split that holds the watermark back: one line, and a line with the hint."""
    since_ms = fact.since_ms if fact.since_ms is not None else now_ms
    at = "has not begun" if fact.watermark_ms is None else f"stands at {format_timestamp(fact.watermark_ms)}"
    reason = f": {fact.reason}" if fact.reason else ""
    line = f"watermark {at} for {format_duration(now_ms - since_ms)}, held back by {fact.place}{reason}"
    return f"{line}\nHint: {fact.hint}" if fact.hint else line
