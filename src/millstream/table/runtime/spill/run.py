"""One run: rows on disk, sorted by number, that never change.

::

    <n>.keys     the number of each row, ascending: 8 bytes each
    <n>.arrow    an Arrow IPC file: the rows, in batches, in the same order

Both are mapped into memory, so that a look-up reads the pages that it needs. The system caches them; `release` lets go
of them, so that they do not count as memory of the process. A Bloom filter in memory says which numbers are not there.
"""

from __future__ import annotations

import contextlib
import mmap
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

from millstream.base.errors import StateAccessError
from millstream.table.runtime.multimap import spread
from millstream.table.runtime.spill.bloom import BloomFilter

__all__ = ["Run", "RunWriter"]


class RunWriter:
    """Writes one run, part by part.

    Args:
        directory: Where.
        number: Names the run; later ones are newer.
        schema: Of the rows.
        most: How many rows there will be at most.

    Raises:
        StateAccessError: If the disk is full or fails, here and in `add` and `finish`.
    """

    def __init__(self, directory: Path, number: int, schema: pa.Schema, most: int) -> None:
        self._directory, self._number = directory, number
        self._filter = BloomFilter(most)
        self._bounds = [0]
        self._newest_ms: int | None = None
        self._paths = [directory / f"{number}.keys", directory / f"{number}.arrow"]
        self._stack = contextlib.ExitStack()
        try:
            self._keys = self._stack.enter_context(self._paths[0].open("wb"))
            self._rows = self._stack.enter_context(pa.ipc.new_file(str(self._paths[1]), schema))
        except OSError as error:
            raise self._failed(error) from error

    def add(self, keys: Any, rows: pa.RecordBatch, newest_ms: int | None) -> None:
        """Add the next rows.

        Args:
            keys: Their numbers, ascending.
            rows: The rows.
            newest_ms: When the last of them was used; None if they do not expire.
        """
        if not len(keys):
            return
        try:
            self._keys.write(np.ascontiguousarray(keys, np.uint64).data)
            self._rows.write_batch(rows)
        except OSError as error:
            raise self._failed(error) from error
        self._filter.add(keys)
        self._bounds.append(self._bounds[-1] + len(keys))
        if newest_ms is not None:
            self._newest_ms = newest_ms if self._newest_ms is None else max(self._newest_ms, newest_ms)

    def finish(self) -> Run | None:
        """Return the run; None if it has no rows."""
        try:
            self._stack.close()
        except OSError as error:
            raise self._failed(error) from error
        if self._bounds[-1] == 0:
            self.abandon()
            return None
        return Run(self._paths, self._number, self._bounds, self._filter, self._newest_ms)

    def abandon(self) -> None:
        """Remove what was written."""
        with contextlib.suppress(OSError):  # closing writes what is left, and the disk may be full
            self._stack.close()
        for path in self._paths:
            path.unlink(missing_ok=True)

    def _failed(self, error: OSError) -> StateAccessError:
        self.abandon()
        return StateAccessError(
            f"state could not be written to {self._directory}: {error.strerror or error}",
            hint="Give state.backend.rocksdb.localdir a directory with more room.",
        )


class Run:
    """Rows by number; made by `RunWriter`.

    Attributes:
        number: Later runs have larger ones.
        count: How many rows there are.
        keys: Their numbers, ascending, on disk.
        newest_ms: When the last of them was used; None if they do not expire.
        nbytes: Bytes on disk.
    """

    def __init__(
        self, paths: list[Path], number: int, bounds: list[int], filter_: BloomFilter, newest_ms: int | None
    ) -> None:
        self._paths, self._filter = paths, filter_
        self.number, self.count, self.newest_ms = number, bounds[-1], newest_ms
        self._bounds = np.array(bounds)
        self._maps = [_mapped(path) for path in paths]
        self.nbytes = sum(map(len, self._maps))
        self.keys = np.frombuffer(self._maps[0], np.uint64)
        reader = pa.ipc.open_file(pa.py_buffer(self._maps[1]))
        self._batches = [reader.get_batch(place) for place in range(reader.num_record_batches)]

    @property
    def memory(self) -> int:
        """Memory that it takes."""
        return self._filter.nbytes

    def find(self, keys: Any) -> Any:
        """Return the places of rows that have one of some numbers, ascending.

        Args:
            keys: The numbers: different ones, ascending.
        """
        keys = keys[self._filter.may_have(keys)]
        starts = np.searchsorted(self.keys, keys, "left")
        lengths = np.searchsorted(self.keys, keys, "right") - starts
        return spread(starts, lengths)

    def may_have(self, keys: Any) -> Any:
        """Return which numbers may be there."""
        return self._filter.may_have(keys)

    def take(self, places: Any) -> list[pa.RecordBatch]:
        """Return the rows in some places, ascending."""
        edges = np.searchsorted(places, self._bounds)
        return [
            batch.take(pa.array(places[first:last] - bound))
            for batch, bound, first, last in zip(
                self._batches, self._bounds[:-1], edges[:-1], edges[1:], strict=True
            )
            if last > first
        ]

    def cut(self, start: int, stop: int) -> list[pa.RecordBatch]:
        """Return the rows from one place to another, as they lie on disk."""
        parts = []
        for batch, bound in zip(self._batches, self._bounds.tolist(), strict=False):
            first, last = max(start - bound, 0), min(stop - bound, len(batch))
            if last > first:
                parts.append(batch.slice(first, last - first))
        return parts

    def read_through(self, *, begins: bool) -> None:
        """Have the system read ahead from now on, or not any more."""
        for each in self._maps:
            each.madvise(mmap.MADV_SEQUENTIAL if begins else mmap.MADV_RANDOM)

    def release(self) -> None:
        """Let go of the pages that were read: they stay in the system's cache."""
        for each in self._maps:
            each.madvise(mmap.MADV_DONTNEED)

    def remove(self) -> None:
        """Remove it from disk; it is not used any more."""
        for path in self._paths:
            path.unlink(missing_ok=True)


def _mapped(path: Path) -> mmap.mmap:
    with open(path, "rb") as file:
        mapped = mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ)
    mapped.madvise(mmap.MADV_RANDOM)
    return mapped
