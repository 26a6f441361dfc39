"""Which data files of a table are read, and when new ones are looked for.

::

    begin()    a snapshot, or all changes of a range of versions ──► files, and the version behind them
    follow()   each interval: the versions since ──────────────────► files, and the version behind them

The version and the files that are not finished go into checkpoints, so each version is asked for once.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from millstream.connectors.lake.table_file import TableFile, TableFileSplit, cut_files
from millstream.connectors.split_queue import QueueSnapshot, SplitQueue
from millstream.spi.source import PlanRequest, RangeEnd, SourcePlan, SplitEnumerator

__all__ = ["Found", "TableFileEnumerator", "TableFilesSnapshot", "TableHistory"]


@dataclass(frozen=True)
class Found:
    """Files to be read.

    Attributes:
        files: In order.
        position: What `follow` goes on from: which version, and what is read of each.
    """

    files: Sequence[TableFile]
    position: Any


class TableHistory(ABC):
    """The versions of a table; on the driver."""

    @abstractmethod
    def begin(self) -> Found:
        """Return what is read first.

        Raises:
            SourceError: If the table or the version is not there, or cannot be read.
            NotSupportedError: If it holds what is not read.
            ConfigurationError: If it lacks a column.
        """

    @abstractmethod
    def follow(self, position: Any) -> Found:
        """Return what came since a position.

        Raises:
            SourceError: If versions are gone, or rows were changed.
            NotSupportedError: If there is what is not read.
        """


@dataclass(frozen=True)
class TableFilesSnapshot:
    """Where reading stands.

    Attributes:
        queue: Files that are not finished.
        position: As of `Found`.
    """

    queue: QueueSnapshot[TableFile] = field(default_factory=QueueSnapshot)
    position: Any = None


class TableFileEnumerator(SplitEnumerator):
    """Plans the data files of a table.

    Args:
        history: Its versions.
        parallelism: Number of subtasks.
        interval_ms: How often to look for new versions; None to look only now.
        split_bytes: How large the parts of a file are at most.
        restored: A snapshot, also of another parallelism.
    """

    def __init__(
        self,
        history: TableHistory,
        parallelism: int,
        *,
        interval_ms: int | None,
        split_bytes: int,
        restored: TableFilesSnapshot | None,
    ) -> None:
        self._history = history
        self._parallelism = parallelism
        self._interval_ms = interval_ms
        self._split_bytes = split_bytes
        snapshot = restored or TableFilesSnapshot()
        self._queue: SplitQueue[TableFile] = SplitQueue(parallelism, snapshot.queue)
        self._position = snapshot.position
        self._next_look_ms: int | None = None
        if restored is None:
            self._take(history.begin())

    def plan(self, request: PlanRequest) -> SourcePlan:
        """Look for new versions if it is time, and plan what each subtask reads."""
        if self._interval_ms is not None and (
            self._next_look_ms is None or request.now_ms >= self._next_look_ms
        ):
            self._take(self._history.follow(self._position))
            self._next_look_ms = request.now_ms + self._interval_ms
        ranges = self._queue.plan(request, TableFileSplit)
        ends = self._interval_ms is None
        waiting = self._queue.has_waiting()
        idle = frozenset(range(self._parallelism)) - ranges.keys()
        return SourcePlan(
            ranges=ranges,
            finished=idle if ends and not waiting else frozenset(),
            backlog=bool(ranges) or waiting,
            next_ms=None if ends else self._next_look_ms,
        )

    def advance(self, ends: Sequence[RangeEnd]) -> None:
        """Take note of positions and finished files."""
        self._queue.advance(ends)

    def snapshot(self) -> TableFilesSnapshot:
        """Return the files not finished, and the version."""
        return TableFilesSnapshot(self._queue.snapshot(), self._position)

    def _take(self, found: Found) -> None:
        self._queue.add(cut_files(found.files, self._split_bytes))
        self._position = found.position
