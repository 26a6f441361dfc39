"""Rows by number, on disk: runs, the newer ones over the older ones, merged as they become many.

What is written at once is a run. A look-up goes through the runs whose filter does not exclude it; of rows with an id
the newest version counts. When there are eight runs of about one size, or smaller ones, behind each other, they become
one, a portion with each run that is written, so that no epoch waits for a large merge::

    runs, old to new      [ 8 M ] [ 1 M ] [ 1 M ] [130 k] … [130 k]
                                                  └─ eight of them: merged into one of 1 M ─┘

Rows whose time to live is over are not found, and are gone when their run is merged, or as soon as that holds for all
rows of a run. (A log-structured merge-tree with tiers: O'Neil et al., The log-structured merge-tree, 1996; Dostoevsky,
Dayan and Idreos, 2018.)
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

from millstream.table.runtime.arrays import values_of_fixed
from millstream.table.runtime.sorting import distinct_sorted, first_places
from millstream.table.runtime.spill.run import Run, RunWriter

__all__ = ["ID", "STAMP", "WEIGHT", "RunStore"]

ID, WEIGHT, STAMP = "id", "weight", "stamp"
"""Columns that a store knows: of versions of one row the newest counts; 0 tells that it is gone; last use, in ms."""

_FAN = 8
_LEAST_ROWS = 1 << 14
_SLICE_ROWS = 1 << 17
_WORK = 4
_MOST_RUNS = 3 * _FAN
_LEAST_GARBAGE = 1 << 17


class RunStore:
    """The runs of one kind of rows; the subtask's thread calls it.

    Args:
        directory: Is made here, and is empty until then.
        schema: Of the rows. With a column `id` a row may have several versions, and `weight` 0 tells that it is gone.
            With `stamp` rows expire.
        ttl_ms: How long after their stamp; None for never.
        slice_rows: How many rows a merge has in memory, about.

    Attributes:
        now_ms: Processing time.
        settled: Runs up to this number are part of a checkpoint: of rows that are gone nothing needs to be kept.
    """

    def __init__(
        self, directory: Path, schema: pa.Schema, ttl_ms: int | None = None, *, slice_rows: int = _SLICE_ROWS
    ) -> None:
        directory.mkdir()
        self._directory = directory
        self._schema = schema
        self._versioned = ID in schema.names
        self._ttl_ms = ttl_ms
        self._slice_rows = slice_rows
        self._runs: list[Run] = []
        self._number = 0
        self._merge: Iterator[int] | None = None
        self._gone = 0
        self._owed = 0
        self.now_ms = 0
        self.settled = 0

    # What there is

    @property
    def count(self) -> int:
        """Rows on disk, with versions that do not count any more."""
        return sum(run.count for run in self._runs)

    @property
    def nbytes(self) -> int:
        """Bytes on disk."""
        return sum(run.nbytes for run in self._runs)

    @property
    def memory(self) -> int:
        """Bytes in memory, for filters."""
        return sum(run.memory for run in self._runs)

    @property
    def runs(self) -> int:
        """How many runs there are."""
        return len(self._runs)

    @property
    def newest(self) -> int:
        """The number of the last run."""
        return self._number

    # Rows in and out

    def add(self, keys: Any, rows: pa.RecordBatch, replaced: int = 0) -> None:
        """Write rows.

        Args:
            keys: The number of each, uint64.
            rows: The rows, in the store's schema.
            replaced: How many rows on disk do not count any more because of them.

        Raises:
            StateAccessError: If the disk is full or fails.
        """
        if not len(keys):
            return
        order = np.argsort(keys)
        writer = self._writer(len(keys))
        for start in range(0, len(order), self._slice_rows):
            places = order[start : start + self._slice_rows]
            part = rows.take(pa.array(places))
            writer.add(keys[places], part, self._newest_of(part))
        run = writer.finish()
        assert run is not None
        self._runs.append(run)
        self._gone += replaced
        self._work(_WORK * len(keys))

    def find(self, keys: Any, *, gone: bool = False) -> pa.RecordBatch | None:
        """Return all rows of some numbers that are there; None if there are none.

        Args:
            keys: The numbers: different ones, ascending.
            gone: Whether rows that are gone are wanted as well, with weight 0.
        """
        parts = [part for run in reversed(self._runs) for part in run.take(run.find(keys))]
        return self._alive(_whole(parts, self._schema), gone=gone) if parts else None

    def may_have(self, keys: Any) -> Any:
        """Return of which numbers there may be rows."""
        found = np.zeros(len(keys), bool)
        for run in self._runs:
            found |= run.may_have(keys)
        return found

    def scan(self) -> Iterator[tuple[Any, pa.RecordBatch]]:
        """Yield all rows that are there, with their numbers, ascending; all of one number at once."""
        runs = list(self._runs)
        for keys, rows in self._slices(runs):
            kept = self._kept(rows, gone=False)
            if kept is None:
                yield keys, rows
            elif len(kept):
                yield keys[kept], rows.take(pa.array(kept))

    def release(self) -> None:
        """Let go of memory that look-ups took."""
        for run in self._runs:
            run.release()

    def close(self) -> None:
        """Remove all runs."""
        self._merge = None
        for run in self._runs:
            run.remove()
        self._runs = []

    # What counts

    def _alive(self, rows: pa.RecordBatch, *, gone: bool) -> pa.RecordBatch:
        """Return the newest versions of rows that have not expired; newer ones come first."""
        if self._versioned and self.runs > 1:
            _, first = first_places(values_of_fixed(rows.column(ID)))
            if len(first) < len(rows):
                rows = rows.take(pa.array(first))
        kept = self._kept(rows, gone=gone)
        return rows if kept is None else rows.take(pa.array(kept))

    def _kept(self, rows: pa.RecordBatch, *, gone: bool) -> Any | None:
        """Return the places of rows that have not expired, and are not gone; None if those are all."""
        kept = None
        if self._ttl_ms is not None:
            kept = values_of_fixed(rows.column(STAMP)) + self._ttl_ms > self.now_ms
        if self._versioned and not gone:
            there = values_of_fixed(rows.column(WEIGHT)) != 0
            kept = there if kept is None else kept & there
        return None if kept is None or kept.all() else np.flatnonzero(kept)

    def _newest_of(self, rows: pa.RecordBatch) -> int | None:
        if self._ttl_ms is None or not len(rows):
            return None
        return int(values_of_fixed(rows.column(STAMP)).max())

    # Merging

    def _writer(self, most: int) -> RunWriter:
        self._number += 1
        return RunWriter(self._directory, self._number, self._schema, most)

    def _work(self, rows: int) -> None:
        """Drop what has expired, and merge some rows if runs are many."""
        self._owed += rows
        while self._owed > 0 or self.runs > _MOST_RUNS:
            if self._merge is None:
                self._drop_expired()
                chosen = self._choose()
                if chosen is None:
                    self._owed = 0
                    return
                self._merge = self._merging(chosen)
            done = next(self._merge, None)
            if done is None:
                self._merge = None
                continue
            # A portion may be more than is due: it counts for the runs to come.
            self._owed -= done
            if self._owed <= 0:
                return

    def expire(self, now_ms: int) -> None:
        """Remove runs of which all rows have expired."""
        self.now_ms = now_ms
        if self._merge is None:
            self._drop_expired()

    def _drop_expired(self) -> None:
        if self._ttl_ms is None:
            return
        kept = []
        for run in self._runs:
            if run.newest_ms is not None and run.newest_ms + self._ttl_ms <= self.now_ms:
                run.remove()
            else:
                kept.append(run)
        self._runs = kept

    def _choose(self) -> list[Run] | None:
        """Return the newest runs that are to be merged, all of them if most of what they hold does not count."""
        if self._gone > _LEAST_GARBAGE and 2 * self._gone > self.count and self.runs > 1:
            return list(self._runs)
        levels = [_level(run.count) for run in self._runs]
        for level in sorted(set(levels)):
            first = len(levels)
            while first and levels[first - 1] <= level:
                first -= 1
            if len(levels) - first >= _FAN:
                return self._runs[first:]
        return None

    def _merging(self, runs: list[Run]) -> Iterator[int]:
        """Merge runs that lie behind each other; yield how many rows were read."""
        whole = runs[0] is self._runs[0]
        # Somebody has to be told first of rows that are gone.
        gone = not (whole and runs[-1].number <= self.settled)
        writer = self._writer(sum(run.count for run in runs))
        try:
            for keys, rows in self._slices(runs):
                kept = self._kept(rows, gone=gone)
                if kept is not None:
                    keys, rows = keys[kept], rows.take(pa.array(kept))
                writer.add(keys, rows, self._newest_of(rows))
                yield len(keys) + 1
        except BaseException:  # closed before its end, or a full disk
            writer.abandon()
            raise
        merged = writer.finish()
        # What was added since is newer than the merged one.
        first = self._runs.index(runs[0])
        self._runs[first : first + len(runs)] = [] if merged is None else [merged]
        left = 0 if merged is None else merged.count
        self._gone = 0 if whole else max(self._gone - sum(run.count for run in runs) + left, 0)
        for run in runs:
            run.remove()

    def _slices(self, runs: Sequence[Run]) -> Iterator[tuple[Any, pa.RecordBatch]]:
        """Yield the newest versions of all rows with their numbers, ascending, in portions of whole numbers."""
        if not runs:
            return
        total = sum(run.count for run in runs)
        largest = max(runs, key=lambda run: run.count)
        step = max(self._slice_rows * largest.count // total, 1)
        bounds = distinct_sorted(largest.keys[step::step])
        edges = [
            np.concatenate([[0], np.searchsorted(run.keys, bounds, "left"), [run.count]]) for run in runs
        ]
        for run in runs:
            run.read_through(begins=True)
        for place in range(len(bounds) + 1):
            parts: list[pa.RecordBatch] = []
            numbers: list[Any] = []
            for run, edge in zip(reversed(runs), reversed(edges), strict=True):
                start, stop = int(edge[place]), int(edge[place + 1])
                if start < stop:
                    numbers.append(run.keys[start:stop])
                    parts += run.cut(start, stop)
            if not parts:
                continue
            keys = np.concatenate(numbers)
            rows = _whole(parts, self._schema)
            for run in runs:
                run.release()
            if self._versioned and len(runs) > 1:
                _, first = first_places(values_of_fixed(rows.column(ID)))
                order = first[np.argsort(keys[first])]
            else:
                order = np.argsort(keys)
            if len(numbers) > 1 or len(order) < len(keys):
                keys, rows = keys[order], rows.take(pa.array(order))
            yield keys, rows
        for run in runs:
            run.read_through(begins=False)


def _whole(parts: Sequence[pa.RecordBatch], schema: pa.Schema) -> pa.RecordBatch:
    if len(parts) == 1:
        return parts[0]
    return pa.RecordBatch.from_arrays(
        [pa.concat_arrays([part.column(place) for part in parts]) for place in range(len(schema))],
        schema=schema,
    )


def _level(count: int) -> int:
    level = 0
    while count > _LEAST_ROWS:
        count //= _FAN
        level += 1
    return level
