"""What flows between operators.

A **batch** is a list of values with a parallel list of timestamps, or None if the records carry none.
Batches are separated by **watermarks**; both travel in one list, in order, so a batch never straddles
a watermark::

    [Batch([a, b], [5, 3]), Watermark(4), Batch([c], [9]), IDLE]

Operators take and give whole batches; the lists belong to the receiver, who may keep or change them.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum
from typing import Any, NamedTuple

__all__ = ["ACTIVE", "IDLE", "Batch", "Element", "StreamStatus", "Watermark"]


class Batch(NamedTuple):
    """Values between two watermarks.

    Attributes:
        values: The records, in order.
        timestamps: Event time of each in epoch milliseconds, or None if they have none.
    """

    values: list[Any]
    timestamps: list[int] | None = None


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
