"""A batch with watermarks between its records, given to windows in few runs.

A watermark matters to windows only if it makes one of them fire, or if a record that follows is behind it. Where it
does neither, the records before and after it are added together; the watermark is handed on all the same::

    records      a b | c | d | e f | g        W1 to W3: nothing is due, no record is behind them
    watermarks       1   2   3     4          W4: a window is due
    runs        [a b   c   d   e f] W4 [g]

Reaching a watermark that does not matter changes nothing, so it is enough to know bounds: a time before which none of
a record's windows is due. A record that is late by then, whatever else comes, goes its way at once, between the
watermarks that it came between, and costs no cut.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from millstream.base.time import MAX_TIMESTAMP
from millstream.operators.base import Reach
from millstream.operators.values import cut
from millstream.spi.batch import Marks, Rows

if TYPE_CHECKING:
    from millstream.operators.windowing.base import TimedWindowOperator

__all__ = ["Runs", "first_end"]


class Runs:
    """Gathers the records of a batch up to the next watermark that matters to one of them, or to the windows.

    Args:
        operator: The windows.
        values: The records.
        timestamps: Their timestamps.
        marks: The watermarks between them.
        reach: Advances the operator's event time.

    Attributes:
        first_due_ms: Something may be due then: of the windows, or of the records that are gathered.
        lowest: The lowest timestamp of those that are gathered.
    """

    def __init__(
        self,
        operator: TimedWindowOperator,
        values: list[Any],
        timestamps: list[int],
        marks: Marks,
        reach: Reach,
    ) -> None:
        self._operator = operator
        self._values = values
        self._timestamps = timestamps
        self._watermarks = marks.watermarks
        self._reach = reach
        self._begin = 0
        self._told = 0
        self._gathered: list[Any] = []
        self._stamps: list[int] = []
        self.first_due_ms = self.lowest = MAX_TIMESTAMP
        self._look()

    def take_in(self, start: int, stop: int, mark: int, lowest: int) -> bool:
        """Take in the records `[start, stop)`, which are behind all watermarks before the one with index `mark`.

        Need not be called of records none of which is below `lowest`, or at or below the watermark before.

        Args:
            start: The first record.
            stop: Behind the last record.
            mark: The watermark that follows.
            lowest: Their lowest timestamp.

        Returns:
            Whether the last of those watermarks is there, if records are behind it that may still count.
        """
        due_ms = self._operator.first_due(lowest)
        if mark and due_ms <= self._watermarks[mark - 1]:
            late = self._late_among(start, stop, self._watermarks[mark - 1])
            if late is None:
                # Told and not reached are only watermarks that late records came behind: never the one just before.
                if mark > self._told and not self.reach(mark - 1, start):
                    return False
            else:
                self._part_with(late, mark)
                kept = set(range(start, stop)).difference(late)
                lowest = min((self._timestamps[index] for index in kept), default=MAX_TIMESTAMP)
                due_ms = self._operator.first_due(lowest)
        self.lowest = min(self.lowest, lowest)
        self.first_due_ms = min(self.first_due_ms, due_ms)
        return True

    def reach(self, mark: int, stop: int) -> bool:
        """Add what is gathered of the records before `stop`, then reach a watermark; return whether it is there."""
        self._gather(stop)
        if self._gathered:
            values, self._gathered = self._gathered, []
            stamps, self._stamps = self._stamps, []
            self._operator.process(Rows(values, stamps))
        self._tell(mark)
        self._told = mark + 1
        if not self._reach(self._watermarks[mark]):
            return False
        self._look()
        return True

    def _look(self) -> None:
        due_ms = self._operator.next_due()
        self.first_due_ms = MAX_TIMESTAMP if due_ms is None else due_ms
        self.lowest = MAX_TIMESTAMP

    def _tell(self, mark: int) -> None:
        """Hand on the watermarks before one that were passed over."""
        for watermark_ms in self._watermarks[self._told : mark]:
            self._operator.output.emit_watermark(watermark_ms)
        self._told = mark

    def _gather(self, stop: int) -> None:
        if self._begin < stop:
            self._gathered += cut(self._values, self._begin, stop)
            self._stamps += self._timestamps[self._begin : stop]
        self._begin = stop

    def _late_among(self, start: int, stop: int, watermark_ms: int) -> list[int] | None:
        """Return which of some records are late; None if one is behind the watermark and may not be late."""
        late = []
        for index in range(start, stop):
            timestamp = self._timestamps[index]
            if self._operator.first_due(timestamp) <= watermark_ms:
                from_ms = self._operator.late_from(timestamp)
                if from_ms is None or from_ms > watermark_ms:
                    return None
                late.append(index)
        return late

    def _part_with(self, late: list[int], mark: int) -> None:
        """Hand late records on, behind the watermarks before them."""
        self._tell(mark)
        for index in late:
            self._gather(index)
            self._operator.add_late(self._values[index], self._timestamps[index])
            self._begin = index + 1


def first_end(timestamp: int, size_ms: int, slide_ms: int, offset_ms: int) -> int:
    """Return the end of the window that holds a timestamp and ends first; just behind it if none holds it.

    >>> [first_end(time, 10, 5, 0) for time in (0, 4, 5, 11)], first_end(3, 2, 5, 0)
    ([5, 5, 10, 15], 4)
    """
    if size_ms < slide_ms:
        return timestamp + 1
    return timestamp - (timestamp - offset_ms - size_ms) % slide_ms + slide_ms
