"""How tumbling and sliding windows cut time into slices, for columns.

The starts and ends of all windows cut time; every record is in one slice, and a window consists of whole slices::

    size 7, slide 3     event time   0  1  2  3  4  5  6  7  8  9  10
                        slices       |a-|b----|a-|b----|a-|b----|
                        windows      [====================)
                                              [===================

If the slide divides the size there is one slice for each slide, else two. Tumbling windows are one slice each. With a
slide that is larger than the size there are slices in which no window is.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np

__all__ = ["SliceGrid"]


@dataclass(frozen=True)
class SliceGrid:
    """The slices of windows by time; all numbers in milliseconds.

    Attributes:
        size_ms: Length of a window.
        slide_ms: From start to start; the size for tumbling windows.
        offset_ms: Moves all starts.
    """

    size_ms: int
    slide_ms: int
    offset_ms: int = 0

    def __str__(self) -> str:
        return f"slices of windows of {self.size_ms} ms every {self.slide_ms} ms, offset {self.offset_ms} ms"

    @property
    def tumbles(self) -> bool:
        """Whether each timestamp is in one window only."""
        return self.slide_ms == self.size_ms

    @property
    def has_gaps(self) -> bool:
        """Whether there are slices in which no window is."""
        return self.slide_ms > self.size_ms

    def starts(self, stamps: Any) -> Any:
        """Return the start of the slice of each timestamp."""
        into = (stamps - self.offset_ms) % self.slide_ms
        starts = stamps - into
        cut = self.size_ms % self.slide_ms
        if cut:
            starts += np.where(into < cut, 0, cut)
        return starts

    def first_ends(self, starts: Any) -> Any:
        """Return the last millisecond of the oldest window of slices; in a gap of the one behind it."""
        before = starts - self.size_ms
        return starts + self.slide_ms - 1 - (before - self.offset_ms) % self.slide_ms

    def last_ends(self, starts: Any) -> Any:
        """Return the last millisecond of the newest window of slices; in a gap of the one before it."""
        return starts - (starts - self.offset_ms) % self.slide_ms + self.size_ms - 1

    def windows_of(self, slice_start: int) -> range:
        """Return the starts of the windows that hold a slice, the newest first; none in a gap."""
        newest = slice_start - (slice_start - self.offset_ms) % self.slide_ms
        return range(newest, slice_start - self.size_ms, -self.slide_ms)

    def slices_of(self, window: int) -> Iterator[int]:
        """Yield the starts of the slices of a window, in order of time."""
        cut, end = self.size_ms % self.slide_ms, window + self.size_ms
        for start in range(window, end, self.slide_ms):
            yield start
            if cut and start + cut < end:
                yield start + cut
