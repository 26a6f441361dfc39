"""How windows are made of slices: each row is in one slice, and a window is some slices behind each other.

::

    HOP 6, 2         |--|--|--|--|--|       slices of gcd(6, 2) = 2
                      [--------]
                         [--------]
    CUMULATE 6, 2     [--] [-----] [--------]   slices of 2, windows of 1, 2 and 3
"""

from __future__ import annotations

from dataclasses import dataclass
from math import gcd
from typing import Any

import numpy as np

from millstream.table.plan.logical import WindowKind
from millstream.table.runtime.times import cumulate_windows, hop_windows, tumble_starts

__all__ = ["Slices"]


@dataclass(frozen=True)
class Slices:
    """Slices of windows, on the clocks that windows go by.

    Attributes:
        windows: TUMBLE, HOP or CUMULATE.
        size_ms: Length of windows; of CUMULATE the largest.
        slide_ms: Of HOP the slide, of CUMULATE the step.
        offset_ms: Windows begin so much later.
    """

    windows: WindowKind
    size_ms: int
    slide_ms: int
    offset_ms: int

    @property
    def width_ms(self) -> int:
        """Length of a slice."""
        if self.windows is WindowKind.TUMBLE:
            return self.size_ms
        return gcd(self.size_ms, self.slide_ms) if self.windows is WindowKind.HOP else self.slide_ms

    @property
    def has_gaps(self) -> bool:
        """Whether there are times that are in no window."""
        return self.windows is WindowKind.HOP and self.slide_ms > self.size_ms

    def starts(self, millis: Any) -> Any:
        """Return the start of the slice of each time."""
        return tumble_starts(millis, self.width_ms, self.offset_ms)

    def first_ends(self, starts: Any) -> Any:
        """Return the end of the first window to end of each slice that is in one."""
        if self.windows is WindowKind.HOP:
            last = tumble_starts(starts, self.slide_ms, self.offset_ms)
            earliest = last - (last + self.size_ms - 1 - starts) // self.slide_ms * self.slide_ms
            return earliest + self.size_ms
        return starts + self.width_ms

    def last_ends(self, starts: Any) -> Any:
        """Return the end of the last window of each slice."""
        if self.windows is WindowKind.TUMBLE:
            return starts + self.size_ms
        unit = self.slide_ms if self.windows is WindowKind.HOP else self.size_ms
        return tumble_starts(starts, unit, self.offset_ms) + self.size_ms

    def windows_of(self, starts: Any) -> tuple[Any, Any, Any]:
        """Return places of slices, and starts and ends of the windows that they are in."""
        if self.windows is WindowKind.TUMBLE:
            return np.arange(len(starts)), starts, starts + self.size_ms
        if self.windows is WindowKind.HOP:
            places, begins = hop_windows(starts, self.size_ms, self.slide_ms, self.offset_ms)
            return places, begins, begins + self.size_ms
        return cumulate_windows(starts, self.size_ms, self.slide_ms, self.offset_ms)
