"""A sequence of numbers."""

from __future__ import annotations

from typing import Any

from millstream.base.errors import ConfigurationError
from millstream.connectors.index_splits import IndexEnumerator, IndexReader, cut
from millstream.spi.source import Boundedness, Source, SourceReader, SplitEnumerator

__all__ = ["NumberSequenceSource"]


class NumberSequenceSource(Source):
    """The numbers from `start` to `end`, both included, one consecutive part for each subtask."""

    def __init__(self, start: int, end: int) -> None:
        """Declare the sequence.

        Raises:
            ConfigurationError: If `start` is larger than `end`.
        """
        if start > end:
            raise ConfigurationError(f"number sequence starts at {start}, after its end {end}")
        self._start = start
        self._end = end

    def get_boundedness(self) -> Boundedness:
        """Return BOUNDED."""
        return Boundedness.BOUNDED

    def build_enumerator(self, parallelism: int, restored: Any | None) -> SplitEnumerator:
        """Cut the sequence, or go on where a snapshot ends."""
        return IndexEnumerator(cut(self._start, self._end + 1, parallelism), parallelism, restored)

    def build_reader(self, subtask_index: int, parallelism: int) -> SourceReader:
        """Make the reader of one subtask."""
        return IndexReader()
