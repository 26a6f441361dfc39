"""What flows between operators.

A **batch** is one object: a list of values with a parallel list of timestamps, or None if the records carry none.
Batches and **watermarks** travel in one list, in order. Watermarks stand between batches, or between the records
of one as columns of the batch: what a generator emits at each record does not cut the stream into pieces::

    [Rows([a, b], [5, 3]), Watermark(4), Rows([c], [9]), IDLE]
    [Rows([a, b, c], [5, 3, 9], Marks([2], [4])), IDLE]            the same

Operators take and give whole batches; a batch and its lists belong to the receiver, who may keep or change them.
"""

from __future__ import annotations

from bisect import bisect_right
from dataclasses import dataclass
from enum import Enum
from itertools import repeat
from typing import Any, NamedTuple

__all__ = ["ACTIVE", "IDLE", "Element", "Marks", "Rows", "StreamStatus", "Watermark"]


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

    def behind(self, index: int) -> Marks | None:
        """Return those after the one with an index, as of a batch of the records behind it; None if there are none."""
        start = self.positions[index]
        positions = [position - start for position in self.positions[index + 1 :]]
        return Marks(positions, self.watermarks[index + 1 :]) if positions else None


class Rows:
    """Records that are processed together, as a list of Python objects.

    Args:
        values: The records, in order.
        timestamps: Event time of each in epoch milliseconds, or None if they have none.
        marks: Watermarks between them, or None if there are none.
    """

    __slots__ = ("marks", "timestamps", "values")

    def __init__(
        self, values: list[Any], timestamps: list[int] | None = None, marks: Marks | None = None
    ) -> None:
        self.values = values
        self.timestamps = timestamps
        self.marks = marks

    def __len__(self) -> int:
        return len(self.values)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Rows) and self._parts() == other._parts()

    __hash__ = None  # type: ignore[assignment]

    def __repr__(self) -> str:
        return f"Rows{self._parts()!r}"

    def __reduce__(self) -> Any:
        return Rows, self._parts()

    def _parts(self) -> tuple[list[Any], list[int] | None, Marks | None]:
        return self.values, self.timestamps, self.marks

    @property
    def last_mark_ms(self) -> int:
        """The last watermark between the records; there must be one."""
        assert self.marks is not None, "a batch without watermarks between its records"
        return self.marks.watermarks[-1]

    def unmarked(self) -> Rows:
        """Return the same records, in the same lists, without the watermarks between them."""
        return Rows(self.values, self.timestamps)

    def cut(self, start: int, stop: int) -> Rows:
        """Take records out, with the watermarks between them; the whole is the batch itself.

        The batch no longer refers to the values that were taken out: what is in the part stays its holder's alone.
        """
        values, timestamps, marks = self.values, self.timestamps, self.marks
        if start == 0 and stop >= len(values):
            return self
        part = values[start:stop]
        values[start:stop] = repeat(None, len(part))
        return Rows(
            part,
            None if timestamps is None else timestamps[start:stop],
            None if marks is None else marks.part(start, stop),
        )

    def pieces(self) -> list[Rows | Watermark]:
        """Take the batch apart: records and the watermarks between them, in order."""
        if self.marks is None:
            return [self]
        whole, count, start = self.unmarked(), len(self.values), 0
        pieces: list[Rows | Watermark] = []
        for position, watermark_ms in zip(*self.marks, strict=True):
            if position > start:
                pieces.append(whole.cut(start, position))
                start = position
            pieces.append(Watermark(watermark_ms))
        if start < count:
            pieces.append(whole.cut(start, count))
        return pieces

    def behind(self, index: int, count: int) -> Rows:
        """Take out what is behind one of the watermarks between the records: records and further watermarks.

        Args:
            index: Of the watermark.
            count: How many records the batch has; who got the first ones may have put more behind them.
        """
        assert self.marks is not None, "a batch without watermarks between its records"
        rest = self.unmarked().cut(self.marks.positions[index], count)
        rest.marks = self.marks.behind(index)
        return rest


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

Element = Rows | Watermark | StreamStatus
