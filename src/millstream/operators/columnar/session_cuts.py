"""Which rows and sessions of a key become one session: a sort by key and time, cut where there is a gap.

A row stands for a session of its own, `[time, time + gap]`; sessions that overlap or touch are one::

    gap 3          a--|  b--|                 c--|         rows of a key, by time
    sessions            [==========)                       that are there
                   [===============)          [==)         parts: a session that grows, and a new one

What a part comes to is that of its rows one after the other, in the order in which they came. Mostly that is a plain
sum: each row overlaps or touches what is there already, and nothing has ended. Such a part is **smooth**, and its rows
are added all at once. In any other - of rows of two sessions, before the one comes that joins them, or of rows behind
their watermark, which may be late, or make a session fire - rows are looked at one by one (`session_steps.py`).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from millstream.operators.columnar.session_table import Found

__all__ = ["Parts", "cut_into_parts"]

_MOST = 1 << 62
_NO_ROW = 1 << 62


@dataclass(frozen=True, slots=True)
class Parts:
    """Rows and sessions that are to be one, in order of key and time.

    Attributes:
        of_rows: The part of each row.
        numbers: For each part the number of its key.
        starts: Where it begins.
        ends: Where it ends.
        first_rows: Which of its rows came first; -1 if it has none.
        sessions: Its one session, as a place in what was found; -1 if it has none, or several.
        of_found: The part of each session that was found.
        smooth: Whether all its rows can be added at once, by what is there before them.
    """

    of_rows: Any
    numbers: Any
    starts: Any
    ends: Any
    first_rows: Any
    sessions: Any
    of_found: Any
    smooth: Any


def cut_into_parts(numbers: Any, stamps: Any, gap_ms: int, found: Found) -> Parts:
    """Return the parts of some rows.

    Args:
        numbers: The number of each row's key; at least one row.
        stamps: Its time.
        gap_ms: Silence that ends a session.
        found: Sessions of these keys, all that overlap or touch one of the rows. Others may be among them.
    """
    before = len(found.slots)
    keys = np.concatenate((found.numbers, numbers))
    starts = np.concatenate((found.starts, stamps))
    ends = np.concatenate((found.ends, stamps + gap_ms))
    order = np.lexsort((starts, keys))
    keys, starts, ends = keys[order], starts[order], ends[order]
    places = order - before  # those of sessions are below 0
    begins = np.append(True, keys[1:] != keys[:-1])
    reach = _highest_so_far(ends, begins) if before else ends
    begins[1:] |= starts[1:] > reach[:-1]
    firsts = np.flatnonzero(begins)
    part = np.cumsum(begins) - 1
    are_rows = places >= 0
    counts = np.add.reduceat((~are_rows).astype(np.int64), firsts) if before else np.zeros(len(firsts), int)
    sizes = np.diff(firsts, append=len(part))
    sessions = np.full(len(firsts), -1)
    single = ~are_rows & (counts == 1)[part]
    sessions[part[single]] = order[single]
    of_rows, of_found = np.empty(len(numbers), np.int64), np.empty(before, np.int64)
    of_rows[places[are_rows]], of_found[order[~are_rows]] = part[are_rows], part[~are_rows]
    # A session counts as come before all rows. Who comes in order of time finds what came before.
    came = np.maximum(places, -1)
    rough = np.append(False, (came[1:] <= came[:-1]) & ~begins[1:])
    smooth = counts <= 1
    looked_at = np.isin(part, part[rough]) & smooth[part]
    if looked_at.any():
        smooth[_apart(part[looked_at], came[looked_at], starts[looked_at], ends[looked_at])] = False
    return Parts(
        of_rows=of_rows,
        numbers=keys[firsts],
        starts=starts[firsts],
        ends=np.maximum.reduceat(ends, firsts),
        first_rows=np.where(
            counts < sizes, np.minimum.reduceat(np.where(are_rows, places, _NO_ROW), firsts), -1
        ),
        sessions=sessions,
        of_found=of_found,
        smooth=smooth,
    )


def _apart(part: Any, came: Any, starts: Any, ends: Any) -> Any:
    """Return the parts in which one came that neither overlaps nor touches what had come before it."""
    order = np.lexsort((came, part))
    part, starts, ends = part[order], starts[order], ends[order]
    begins = np.append(True, part[1:] != part[:-1])
    highest, lowest = _highest_so_far(ends, begins), -_highest_so_far(-starts, begins)
    apart = (starts[1:] > highest[:-1]) | (ends[1:] < lowest[:-1])
    return part[1:][apart & ~begins[1:]]


def _highest_so_far(values: Any, begins: Any) -> Any:
    """Return for each value the highest since its group began.

    Args:
        values: Of groups one after the other.
        begins: Whether a group begins with a value.
    """
    group = np.cumsum(begins) - 1
    lowest, highest = int(values.min()), int(values.max())
    if (highest - lowest + 1) * (int(group[-1]) + 1) < _MOST:
        above = group * (highest - lowest + 1) - lowest
        return np.maximum.accumulate(values + above) - above
    levels, ranks = np.unique(values, return_inverse=True)
    above = group * len(levels)
    return levels[np.maximum.accumulate(ranks + above) - above]
