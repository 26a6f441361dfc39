"""A collection held by the program."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import cloudpickle

from millstream.base.errors import NotSerializableError
from millstream.base.pickling import dump_by_value
from millstream.connectors.index_splits import IndexEnumerator, IndexReader
from millstream.spi.batch import Rows
from millstream.spi.source import (
    Boundedness,
    EmitBatch,
    RangeEnd,
    Source,
    SourceReader,
    SplitEnumerator,
    SplitRange,
)

__all__ = ["CollectionSource"]


class CollectionSource(Source):
    """The values of a collection, in order, read by one subtask."""

    def __init__(self, values: Iterable[Any]) -> None:
        """Pickle the values; later changes to them have no effect.

        Raises:
            NotSerializableError: If they cannot be pickled.
        """
        held = list(values)
        self._count = len(held)
        try:
            self._pickled: bytes = dump_by_value(held)
        except Exception as error:
            raise NotSerializableError(
                f"a value of the collection cannot be pickled: {error}",
                hint="Make unpicklable things, such as connections and locks, inside of functions' open().",
            ) from error

    def get_boundedness(self) -> Boundedness:
        """Return BOUNDED."""
        return Boundedness.BOUNDED

    def max_parallelism(self) -> int | None:
        """Return 1: a collection is read in order."""
        return 1

    def build_enumerator(self, parallelism: int, restored: Any | None) -> SplitEnumerator:
        """Plan ranges of indices; a collection that has grown since a savepoint is read on to its present end."""
        if restored is not None:
            restored = [(split_id, range(self._count), done) for split_id, _, done in restored]
        return IndexEnumerator([range(self._count)], parallelism, restored)

    def build_reader(self, subtask_index: int, parallelism: int) -> SourceReader:
        """Make the reader."""
        return _CollectionReader(self._pickled)


class _CollectionReader(SourceReader):
    """Unpickles the values when the first range is read: the other subtasks need none of them."""

    def __init__(self, pickled: bytes) -> None:
        self._pickled = pickled
        self._indices: IndexReader | None = None

    def read(self, split_range: SplitRange, emit: EmitBatch) -> RangeEnd:
        """Emit the values of a range."""
        if self._indices is None:
            values: list[Any] = cloudpickle.loads(self._pickled)
            self._indices = IndexReader(lambda indices: Rows(values[indices.start : indices.stop]))
        return self._indices.read(split_range, emit)
