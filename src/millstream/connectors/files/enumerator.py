"""Which files there are, and which of them are read: one file is one split (`split_queue`), or several.

Where it may be cut (`FileSourceBuilder.set_split_size`), a split is the records that begin within a range of the file's
bytes. Splits wait in an order that depends on the files only.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from typing import Any

from millstream.connectors.split_queue import QueueSnapshot, SplitQueue
from millstream.files.compression import is_compressed
from millstream.files.paths import FoundFile, list_files
from millstream.spi.source import Pending, PlanRequest, RangeEnd, SourcePlan, SplitEnumerator

__all__ = ["FileEnumerator", "FileEnumeratorSnapshot", "FilePart", "FileSplit"]

_SCHEME = re.compile(r"^[a-z][a-z0-9+.-]*://[^/]*/?")
_UNFINISHED_SUFFIXES = (".tmp", ".inprogress")


@dataclass(frozen=True, slots=True)
class FileSplit:
    """What a reader needs.

    Attributes:
        path: The file.
        turn: Number of the plan; ranges of one turn share one budget.
        part: Bytes within which records begin, from the first up to the last; None for the whole file.
    """

    path: str
    turn: int
    part: tuple[int, int] | None = None


@dataclass(frozen=True, slots=True)
class FilePart:
    """A file that was found, or a part of it.

    Attributes:
        file: The file.
        part: As of `FileSplit`.
    """

    file: FoundFile
    part: tuple[int, int] | None = None

    @property
    def split_id(self) -> str:
        """Names it."""
        return self.file.path if self.part is None else f"{self.file.path}[{self.part[0]}:{self.part[1]}]"

    @property
    def size_bytes(self) -> int:
        """How many bytes it has."""
        return self.file.size_bytes if self.part is None else self.part[1] - self.part[0]


@dataclass(frozen=True)
class FileEnumeratorSnapshot:
    """Where reading stands.

    Attributes:
        waiting: Splits not finished, in order.
        positions: Position in splits that were begun, by their names.
        done: Paths of files that were finished in part at least; only kept when a directory is followed.
        owners: Subtask of each split that was assigned, by its name.
        parallelism: Number of subtasks.
    """

    waiting: tuple[FilePart, ...] = ()
    positions: dict[str, Any] = field(default_factory=dict)
    done: tuple[str, ...] = ()
    owners: dict[str, int] = field(default_factory=dict)
    parallelism: int = 0


class FileEnumerator(SplitEnumerator):
    """Plans the files of a `FileSource`."""

    def __init__(
        self,
        paths: Sequence[str],
        parallelism: int,
        *,
        interval_ms: int | None,
        restored: FileEnumeratorSnapshot | None,
        split_bytes: Callable[[FoundFile], int | None] | None = None,
        byte_positions: bool = False,
        pattern: str | None = None,
    ) -> None:
        """List the files, or go on from a snapshot.

        Args:
            paths: Files and directories.
            parallelism: Number of subtasks.
            interval_ms: How often to look for new files; None to look only now.
            restored: A snapshot, also of another parallelism.
            split_bytes: How large the parts of a file are; None, or of it, if the file is not cut.
            byte_positions: As of `FileFormat`.
            pattern: What the whole path of a file has to fit; None for any.

        Raises:
            SourceError: If there is nothing at a path.
        """
        self._paths = list(paths)
        self._interval_ms = interval_ms
        snapshot = restored or FileEnumeratorSnapshot()
        self._split_bytes = split_bytes
        self._byte_positions = byte_positions
        self._pattern = None if pattern is None else re.compile(pattern)
        self._queue: SplitQueue[FilePart] = SplitQueue(
            parallelism,
            QueueSnapshot(snapshot.waiting, snapshot.positions, snapshot.owners, snapshot.parallelism),
        )
        self._parallelism = parallelism
        self._done = set(snapshot.done)
        self._seen = self._done | {part.file.path for part in snapshot.waiting}
        self._next_poll_ms: int | None = None
        if restored is None or interval_ms is not None:
            self._discover()

    def plan(self, request: PlanRequest) -> SourcePlan:
        """Look for new files if it is time, and plan what each subtask reads."""
        self._poll(request)
        ranges = self._queue.plan(request, lambda part, turn: FileSplit(part.file.path, turn, part.part))
        ends = self._interval_ms is None
        idle = frozenset(range(self._parallelism)) - ranges.keys()
        waiting = self._queue.has_waiting()
        return SourcePlan(
            ranges=ranges,
            finished=frozenset(idle) if ends and not waiting else frozenset(),
            backlog=bool(ranges) or waiting,
            next_ms=None if ends else self._next_poll_ms,
        )

    def advance(self, ends: Sequence[RangeEnd]) -> None:
        """Take note of positions and finished files."""
        finished = self._queue.advance(ends)
        if self._interval_ms is not None:
            self._done.update(part.file.path for part in finished)

    def pending(self) -> Pending:
        """Return how many bytes and files are not read; files whose positions are no bytes count whole until then."""
        return self._queue.pending(self._left_of)

    def _left_of(self, part: FilePart, position: Any) -> int:
        if position is None or not self._byte_positions or is_compressed(part.file.path):
            return part.size_bytes
        end = part.file.size_bytes if part.part is None else part.part[1]
        return min(max(end - int(position[0]), 0), part.size_bytes)

    def snapshot(self) -> FileEnumeratorSnapshot:
        """Return the files not finished, the positions, and the files done."""
        queue = self._queue.snapshot()
        return FileEnumeratorSnapshot(
            queue.waiting, queue.positions, tuple(sorted(self._done)), queue.owners, queue.parallelism
        )

    def _poll(self, request: PlanRequest) -> None:
        if self._interval_ms is None:
            return
        if self._next_poll_ms is None:  # listed when it was built
            self._next_poll_ms = request.now_ms + self._interval_ms
        elif request.now_ms >= self._next_poll_ms:
            self._discover()
            self._next_poll_ms = request.now_ms + self._interval_ms

    def _discover(self) -> None:
        found = {file.path: file for path in self._paths for file in list_files(path)}
        new = [file for file in found.values() if file.path not in self._seen and self._fits(file.path)]
        if self._interval_ms is None:
            new.sort(key=lambda file: file.path)
        else:
            new = [file for file in new if not file.path.endswith(_UNFINISHED_SUFFIXES)]
            new.sort(key=lambda file: (file.modified_ns, file.path))
        for file in new:
            self._seen.add(file.path)
            self._queue.add(self._parts(file))

    def _fits(self, path: str) -> bool:
        """Return whether a path fits the pattern; that of a URI is what stands behind scheme and host."""
        if self._pattern is None:
            return True
        return self._pattern.fullmatch(_SCHEME.sub("/", path)) is not None

    def _parts(self, file: FoundFile) -> list[FilePart]:
        """Cut a file into parts of nearly equal size."""
        most = None if self._split_bytes is None else self._split_bytes(file)
        if most is None or file.size_bytes <= most:
            return [FilePart(file)]
        count = -(-file.size_bytes // most)
        bounds = [file.size_bytes * number // count for number in range(count + 1)]
        return [FilePart(file, part) for part in pairwise(bounds)]
