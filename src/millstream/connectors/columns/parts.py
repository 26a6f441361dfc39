"""Tables that are read in parts: rows by number, so a position is how many rows of a part were read."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from millstream.base.errors import SourceError
from millstream.connectors.columns.event_time import EventTime
from millstream.connectors.index_splits import IndexEnumerator, Remaining, length
from millstream.spi.batch import Batch, Columns
from millstream.spi.source import EmitBatch, RangeEnd, SourceReader, SplitRange

__all__ = ["PartsEnumerator", "PartsReader", "PartsSnapshot", "batch_rows"]

_BATCH_ROWS = 20_000
_BATCH_BYTES = 4 << 20


def batch_rows(row_bytes: int) -> int:
    """Return how many rows to emit at a time: some megabytes at most."""
    return max(1, min(_BATCH_ROWS, _BATCH_BYTES // max(row_bytes, 1)))


@dataclass(frozen=True, slots=True)
class PartsSnapshot:
    """Where reading stands.

    Attributes:
        sizes: How many rows there are, in each part if they are parts by nature.
        remaining: What is still to be read.
    """

    sizes: tuple[int, ...]
    remaining: tuple[Remaining, ...]


class PartsEnumerator(IndexEnumerator):
    """Plans the rows of parts, and takes no snapshot of other rows than there are now.

    Args:
        splits: What is to be read, if nothing was restored.
        parallelism: Number of subtasks.
        sizes: As in the snapshot.
        restored: A snapshot, also of another parallelism.

    Raises:
        SourceError: If there were not as many rows when the snapshot was taken.
    """

    def __init__(
        self,
        splits: Sequence[range],
        parallelism: int,
        sizes: tuple[int, ...],
        restored: PartsSnapshot | None,
    ) -> None:
        if restored is not None and restored.sizes != sizes:
            raise SourceError(
                f"the table has {_described(sizes)}, and had {_described(restored.sizes)} when the checkpoint was made",
                detail="Positions in it are numbers of rows.",
                hint="Give the program the same table, or begin without the checkpoint.",
            )
        super().__init__(splits, parallelism, None if restored is None else restored.remaining)
        self._sizes = sizes

    def snapshot(self) -> Any:
        """Return what remains."""
        return PartsSnapshot(self._sizes, tuple(super().snapshot()))


def _described(sizes: tuple[int, ...]) -> str:
    partitions = "" if len(sizes) == 1 else f" in {len(sizes)} partitions"
    return f"{sum(sizes)} rows{partitions}"


class PartsReader(SourceReader):
    """Emits rows of parts, with event time if a column holds it."""

    gives_away = True

    def __init__(self, event_time: EventTime | None) -> None:
        self._event_time = event_time

    @abstractmethod
    def batches(self, split_range: SplitRange) -> Iterator[Any]:
        """Give the rows of a range as record batches of the plain schema, in order."""

    def read(self, split_range: SplitRange, emit: EmitBatch) -> RangeEnd:
        """Emit the rows of a range, or as many as are wanted."""
        position = start = split_range.start
        for batch in self.batches(split_range):
            position += batch.num_rows
            if not emit(self._batch(batch)):
                break
        finished = position >= length(split_range.split)
        return RangeEnd(split_range.split_id, position, finished, position - start)

    def _batch(self, data: Any) -> Batch:
        stamps = None if self._event_time is None else self._event_time.stamps(data)
        columns = Columns(data, stamps)
        return columns if self.wants_columns else columns.to_rows()
