"""Which subtask reads which file, and when.

One file is one split, or several where it may be cut (`FileSourceBuilder.set_split_size`): the records that begin
within a range of its bytes. Splits wait in a queue, in an order that depends on the files only; one goes to the
subtask with the fewest, stays there until it is finished, and a subtask reads its splits one after the other.
Where a file ends is found out by reading, so a plan names the file being read and some that follow; they
share one budget, and the reader starts the next only when the one before is finished. `FileSplit.turn` tells
it which ranges belong together::

    plan 7, subtask 0   [a from 900, b, c]   budget 1000
    read                 a ──► end (300)   b ──► end (50)   c ──► 650, not finished
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from typing import Any

from millstream.files.paths import FoundFile, list_files
from millstream.spi.source import PlanRequest, RangeEnd, SourcePlan, SplitEnumerator, SplitRange

__all__ = ["FileEnumerator", "FileEnumeratorSnapshot", "FilePart", "FileSplit"]

_BYTES_PER_RECORD = 16
"""So few bytes a record that files planned ahead suffice for an epoch's budget nearly always."""
_MAX_FILES_PLANNED = 1_000
"""So many files of one subtask are planned in an epoch at most."""
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
    ) -> None:
        """List the files, or go on from a snapshot.

        Args:
            paths: Files and directories.
            parallelism: Number of subtasks.
            interval_ms: How often to look for new files; None to look only now.
            restored: A snapshot, also of another parallelism.
            split_bytes: How large the parts of a file are; None, or of it, if the file is not cut.

        Raises:
            SourceError: If there is nothing at a path.
        """
        self._paths = list(paths)
        self._interval_ms = interval_ms
        snapshot = restored or FileEnumeratorSnapshot()
        self._split_bytes = split_bytes
        self._waiting: deque[FilePart] = deque(snapshot.waiting)
        self._positions = dict(snapshot.positions)
        self._done = set(snapshot.done)
        self._seen = self._done | {part.file.path for part in self._waiting}
        self._order = {part.split_id: number for number, part in enumerate(self._waiting)}
        self._next_number = len(self._order)
        self._assigned: list[dict[str, FilePart]] = [{} for _ in range(parallelism)]
        if snapshot.parallelism == parallelism:
            self._assign_again(snapshot.owners)
        self._next_poll_ms: int | None = None
        self._turn = 0
        if restored is None or interval_ms is not None:
            self._discover()

    def plan(self, request: PlanRequest) -> SourcePlan:
        """Look for new files if it is time, and plan what each subtask reads."""
        self._poll(request)
        self._assign(request.max_records * _BYTES_PER_RECORD)
        self._turn += 1
        ranges = {
            subtask: [
                SplitRange(
                    split_id,
                    FileSplit(part.file.path, self._turn, part.part),
                    self._positions.get(split_id),
                    None,
                    request.max_records,
                    sequential=True,
                )
                for split_id, part in files.items()
            ]
            for subtask, files in enumerate(self._assigned)
            if files
        }
        ends = self._interval_ms is None
        idle = frozenset(range(len(self._assigned))) - ranges.keys()
        return SourcePlan(
            ranges=ranges,
            finished=frozenset(idle) if ends and not self._waiting else frozenset(),
            backlog=bool(ranges or self._waiting),
            next_ms=None if ends else self._next_poll_ms,
        )

    def advance(self, ends: Sequence[RangeEnd]) -> None:
        """Take note of positions and finished files."""
        for end in ends:
            if not end.finished:
                if end.position is not None:
                    self._positions[end.split_id] = end.position
                continue
            self._positions.pop(end.split_id, None)
            self._order.pop(end.split_id, None)
            for files in self._assigned:
                part = files.pop(end.split_id, None)
                if part is not None and self._interval_ms is not None:
                    self._done.add(part.file.path)

    def snapshot(self) -> FileEnumeratorSnapshot:
        """Return the files not finished, the positions, and the files done."""
        begun = [part for files in self._assigned for part in files.values()]
        begun.sort(key=lambda part: self._order[part.split_id])
        return FileEnumeratorSnapshot(
            (*begun, *self._waiting),
            dict(self._positions),
            tuple(sorted(self._done)),
            {split_id: subtask for subtask, files in enumerate(self._assigned) for split_id in files},
            len(self._assigned),
        )

    def _assign_again(self, owners: Mapping[str, int]) -> None:
        """Leave files where they were: how far event time has come is kept for each subtask."""
        for part in [part for part in self._waiting if part.split_id in owners]:
            self._waiting.remove(part)
            self._assigned[owners[part.split_id]][part.split_id] = part

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
        new = [file for file in found.values() if file.path not in self._seen]
        if self._interval_ms is None:
            new.sort(key=lambda file: file.path)
        else:
            new = [file for file in new if not file.path.endswith(_UNFINISHED_SUFFIXES)]
            new.sort(key=lambda file: (file.modified_ns, file.path))
        for file in new:
            self._seen.add(file.path)
            for part in self._parts(file):
                self._waiting.append(part)
                self._order[part.split_id] = self._next_number
                self._next_number += 1

    def _parts(self, file: FoundFile) -> list[FilePart]:
        """Cut a file into parts of nearly equal size."""
        most = None if self._split_bytes is None else self._split_bytes(file)
        if most is None or file.size_bytes <= most:
            return [FilePart(file)]
        count = -(-file.size_bytes // most)
        bounds = [file.size_bytes * number // count for number in range(count + 1)]
        return [FilePart(file, part) for part in pairwise(bounds)]

    def _assign(self, budget_bytes: int) -> None:
        """Hand out waiting files until every subtask has enough for the epoch."""
        loads = [sum(part.size_bytes for part in files.values()) for files in self._assigned]
        hungry = [
            subtask
            for subtask, files in enumerate(self._assigned)
            if not files or loads[subtask] < budget_bytes
        ]
        while self._waiting and hungry:
            subtask = min(hungry, key=lambda index: (len(self._assigned[index]), index))
            part = self._waiting.popleft()
            self._assigned[subtask][part.split_id] = part
            loads[subtask] += part.size_bytes
            if loads[subtask] >= budget_bytes or len(self._assigned[subtask]) >= _MAX_FILES_PLANNED:
                hungry.remove(subtask)
