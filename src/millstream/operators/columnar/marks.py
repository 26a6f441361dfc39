"""Watermarks between the records of a batch, where records are processed all at once.

A watermark says what does not come any more, so it may be handed on later than where it stood, never earlier. Who does
not look at event time processes a batch whole, and hands the last watermark on behind it. Who keeps its rows keeps the
watermarks where they are: whoever comes next may look at them.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from millstream.operators.base import Operator, Reach
from millstream.spi.batch import Batch, Marks

__all__ = ["kept_between", "marks_before", "process_whole", "seen_by_each"]


def process_whole(operator: Operator, batch: Batch, reach: Reach) -> None:
    """Process a batch, then reach the last watermark in it, which has to be at once; what `process_marked` returns."""
    operator.process(batch.unmarked())
    reach(batch.last_mark_ms)


def kept_between(marks: Marks, places: Any) -> Marks:
    """Return the watermarks between the records of a batch that are kept; of those in one place the last counts.

    Args:
        marks: Between all records.
        places: Of those that are kept, an ascending array of integers.
    """
    positions = np.searchsorted(places, np.asarray(marks.positions, np.int64))
    last = np.append(np.diff(positions) > 0, True)
    return Marks(positions[last].tolist(), np.asarray(marks.watermarks, np.int64)[last].tolist())


def seen_by_each(marks: Marks, count: int, before_ms: int) -> Any:
    """Return for each of `count` records the watermark that it comes behind.

    Args:
        marks: Between the records.
        count: How many there are.
        before_ms: The watermark before the first of them.
    """
    watermarks = np.maximum(np.asarray(marks.watermarks, np.int64), before_ms)
    reached = np.searchsorted(np.asarray(marks.positions, np.int64), np.arange(count), side="right")
    return np.concatenate(([before_ms], watermarks))[reached]


def marks_before(marks: Marks, rows: Any) -> list[int]:
    """Return the index of the watermark before each of some rows, if there is one, and that of the last of all."""
    indices = np.searchsorted(np.asarray(marks.positions, np.int64), rows, side="right") - 1
    return sorted({*indices[indices >= 0].tolist(), len(marks.positions) - 1})
