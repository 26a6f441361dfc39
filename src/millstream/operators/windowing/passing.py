"""How time passes for operators with windows by time: by the watermark or by the clock, within an epoch's budget."""

from __future__ import annotations

from abc import abstractmethod

from millstream.base.time import MIN_TIMESTAMP
from millstream.operators.base import Operator
from millstream.operators.portions import Pace

__all__ = ["PassingTime"]


class PassingTime(Operator):
    """Lets time pass up to a watermark, or to the clock's, and fires what is due on the way.

    Who derives from it sets `_event_time` and `_pace`.
    """

    _event_time: bool
    _pace: Pace
    _passed_ms: int = MIN_TIMESTAMP
    """Time that has passed: the watermark, or the last millisecond before the clock's."""
    _restored = False
    _stride_ms = 0

    def process_watermark(self, timestamp_ms: int) -> None:
        """Fire what is due, hand on the results, then the watermark."""
        if timestamp_ms > self.watermark_ms:
            self.watermark_ms = timestamp_ms
            if self._event_time:
                self._pass(timestamp_ms)
        self.output.emit_watermark(timestamp_ms)

    def advance_watermark(self, timestamp_ms: int) -> bool:
        """Fire as many of the windows that are due as the epoch has room for; if that is all, hand the watermark on."""
        if timestamp_ms > self.watermark_ms:
            self.watermark_ms = timestamp_ms
            if self._event_time and not self._pass_some(timestamp_ms):
                self.watermark_ms = self._passed_ms
                return False
        self.output.emit_watermark(timestamp_ms)
        return True

    def on_processing_time(self) -> None:
        """Fire what is due by the clock, as much as the epoch has room for."""
        if not self._event_time and self.context.time.now_ms - 1 > self._passed_ms:
            passed_ms = self.context.time.now_ms - 1
            if self.context.batch:
                self._pass(passed_ms)
            else:
                self._pass_some(passed_ms)

    def _pass_some(self, passed_ms: int) -> bool:
        """Let time pass, window by window, as far as there is room; return whether all of it has passed.

        Windows of one time fire together; where they are quick, several times are taken together.
        """
        take, pace = self.context.budget.take, self._pace
        due_ms = self.next_due()
        while due_ms is not None and due_ms < passed_ms:
            if not take(1, "windows"):
                return False
            pace.is_quick()
            self._pass(min(due_ms + self._stride_ms, passed_ms))
            self._stride_ms = self._stride_ms * 4 + 1 if pace.is_quick() else 0
            due_ms = self.next_due()
        if due_ms == passed_ms and not take(1, "windows"):
            return False
        if passed_ms > self._passed_ms or due_ms == passed_ms:
            self._pass(passed_ms)
        return True

    def next_processing_time(self) -> int | None:
        """Return when the next window by the clock fires."""
        next_ms = None if self._event_time else self.next_due()
        return None if next_ms is None else next_ms + 1

    def _restore_time(self, passed_ms: int) -> None:
        """Go on from the time of a snapshot; of several the lowest, so that nothing is late that was not."""
        self._passed_ms = min(self._passed_ms, passed_ms) if self._restored else passed_ms
        self._restored = True
        if self._event_time:
            self.watermark_ms = self._passed_ms

    def _pass(self, passed_ms: int) -> None:
        self._passed_ms = passed_ms
        self._advance(passed_ms)
        self._flush()

    @abstractmethod
    def _advance(self, passed_ms: int) -> None: ...

    @abstractmethod
    def next_due(self) -> int | None:
        """Return when the next window is due, or None."""

    @abstractmethod
    def _flush(self) -> None:
        """Hand on what fired."""
