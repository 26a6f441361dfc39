"""What flows between operators.

A **batch** is a list of values with a parallel list of timestamps, or None if the records carry none.
Batches and **watermarks** travel in one list, in order. Watermarks stand between batches, or between the records
of one as columns of the batch: what a generator emits at each record does not cut the stream into pieces::

    [Batch([a, b], [5, 3]), Watermark(4), Batch([c], [9]), IDLE]
    [Batch([a, b, c], [5, 3, 9], Marks([2], [4])), IDLE]            the same

Operators take and give whole batches; the lists belong to the receiver, who may keep or change them.
"""

from __future__ import annotations

from bisect import bisect_right
from dataclasses import dataclass
from enum import Enum
from typing import Any, NamedTuple

__all__ = ["ACTIVE", "IDLE", "Batch", "Element", "Marks", "StreamStatus", "Watermark"]


class Marks(NamedTuple):
    """Watermarks between the records of a batch: two columns of the same length, both in ascending order.

    Attributes:
        positions: How many of the records come before each; several watermarks may be in one place.
        watermarks: The watermarks, epoch milliseconds.
    """

    positions: list[int]
    watermarks: list[int]

    def part(self, start: int, stop: int) -> Marks | None:
        """Return those between the records `[start, stop)`, as of a batch of these records; None if there are none.

        A watermark between two parts belongs to the one before it.
        """
        positions = self.positions
        first = bisect_right(positions, start) if start else 0
        end = bisect_right(positions, stop)
        if first == end:
            return None
        return Marks([position - start for position in positions[first:end]], self.watermarks[first:end])


class Batch(NamedTuple):
    """Records that are processed together.

    Attributes:
        values: The records, in order.
        timestamps: Event time of each in epoch milliseconds, or None if they have none.
        marks: Watermarks between them, or None if there are none.
    """

    values: list[Any]
    timestamps: list[int] | None = None
    marks: Marks | None = None


@dataclass(frozen=True, slots=True)
class Watermark:
    """Nothing with a timestamp at or before `timestamp_ms` is expected any more."""

    timestamp_ms: int


class StreamStatus(Enum):
    """Whether a channel counts when watermarks are combined."""

    ACTIVE = "active"
    IDLE = "idle"


ACTIVE = StreamStatus.ACTIVE
IDLE = StreamStatus.IDLE

Element = Batch | Watermark | StreamStatus
