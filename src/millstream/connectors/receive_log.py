"""What a source function has received, kept in files until it is processed and part of a checkpoint.

One directory for each subtask, numbered segments in it; each entry is written before the function goes on, so a slot
may be killed at any time. What a killed slot was just writing ends in a torn entry: its `collect` never returned::

    <root>/0/000001.log   [length crc pickle] [length crc pickle] … (torn)      of attempt 0
    <root>/0/000002.log   [length crc pickle] …                                 of attempt 1, which reads 1 again first

A checkpoint syncs what was received up to then, and refers to it: from what is processed to what is synced. What has
come since is there after any failure but that of the machine.
"""

from __future__ import annotations

import os
import pickle
import re
import shutil
import struct
import zlib
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from millstream.base.errors import LostInputError, NotSerializableError, SourceError
from millstream.base.pickling import dump_lasting
from millstream.files.durable import make_directories, sync_directory
from millstream.files.file_systems import current
from millstream.files.private_files import open_own, private_directory, user_directory

__all__ = ["LogPosition", "ReceiveLog", "check_log", "read_log"]

_HEAD = struct.Struct(">II")
_SEGMENT_BYTES = 64 << 20
_PRIVATE = "received"


@dataclass(frozen=True, slots=True, order=True)
class LogPosition:
    """A place in a subtask's log.

    Attributes:
        directory: The subtask's directory.
        segment: Number of the segment.
        offset: Bytes in it that were read.
    """

    directory: str
    segment: int
    offset: int


class ReceiveLog:
    """Appends what one subtask receives; the function's thread calls `append`, the subtask's the rest.

    Args:
        directory: The subtask's directory.

    Raises:
        SourceError: If it cannot be written.
    """

    def __init__(self, directory: str) -> None:
        self._directory = directory
        self._descriptor = -1
        try:
            if Path(directory).is_relative_to(user_directory(_PRIVATE)):
                private_directory(_PRIVATE)
            make_directories(directory)
            # Of attempts that were killed: they are read again, and referred to from now on.
            for former in _segments(directory):
                with open(_segment_path(directory, former), "rb") as file:
                    os.fsync(file.fileno())
        except OSError as error:
            raise self._failed(error) from error
        self._segment = max(_segments(directory), default=0)
        self._offset = _SEGMENT_BYTES
        self._has_new_names = False
        self._roll()

    @property
    def segment(self) -> int:
        """Number of the segment that is written."""
        return self._segment

    def append(self, entry: Any) -> LogPosition:
        """Write an entry; return the position behind it.

        Raises:
            SourceError: If it cannot be written.
            NotSerializableError: If it cannot be pickled.
        """
        data = _pickle(entry)
        if self._offset >= _SEGMENT_BYTES:
            self._roll()
        record = _HEAD.pack(len(data), zlib.crc32(data)) + data
        try:
            written = os.write(self._descriptor, record)
            while written < len(record):
                written += os.write(self._descriptor, record[written:])
        except OSError as error:
            raise self._failed(error) from error
        self._offset += len(record)
        return LogPosition(self._directory, self._segment, self._offset)

    def sync(self) -> LogPosition:
        """Make it durable against the loss of the machine, too; return its end.

        Raises:
            SourceError: If that fails.
        """
        try:
            os.fsync(self._descriptor)
            if self._has_new_names:
                sync_directory(self._directory)
        except OSError as error:
            raise self._failed(error) from error
        self._has_new_names = False
        return LogPosition(self._directory, self._segment, self._offset)

    def forget_before(self, position: LogPosition) -> None:
        """Remove the segments before a position."""
        for segment in _segments(self._directory):
            if position.directory == self._directory and segment < position.segment:
                Path(_segment_path(self._directory, segment)).unlink(missing_ok=True)

    def close(self, *, remove: bool) -> None:
        """End; with `remove` nothing of it is wanted any more."""
        if self._descriptor >= 0:
            os.close(self._descriptor)
            self._descriptor = -1
        if remove:
            shutil.rmtree(self._directory, ignore_errors=True)
            _remove_if_empty(os.path.dirname(self._directory))

    def _roll(self) -> None:
        """Begin a segment that nobody has begun: a zombie may still write to the last one."""
        if self._descriptor >= 0:
            os.fsync(self._descriptor)
            os.close(self._descriptor)
            self._descriptor = -1
        while True:
            self._segment += 1
            try:
                self._descriptor = os.open(
                    _segment_path(self._directory, self._segment), os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o644
                )
            except FileExistsError:
                continue
            except OSError as error:
                raise self._failed(error) from error
            self._offset = 0
            self._has_new_names = True
            return

    def _failed(self, error: OSError) -> SourceError:
        return SourceError(
            f"what a source function receives cannot be written to {self._directory!r}",
            detail=str(error),
            hint="Check the space and the permissions of the directory of checkpoints.",
        )


def check_log(directory: str, *, behind: LogPosition | None, through: LogPosition) -> None:
    """Check that what a checkpoint refers to is there, but for segments that were removed since: they were processed.

    Args:
        directory: The subtask's directory.
        behind: How far it was processed; None if nothing of it was.
        through: Up to where it was synced.

    Raises:
        LostInputError: If it is not.
    """
    if behind is not None and behind >= through:
        return
    there = set(_segments(directory))
    first = max(min(there, default=1), 1 if behind is None else behind.segment)
    if first > through.segment:
        return
    missing = set(range(first, through.segment + 1)) - there
    path = _segment_path(directory, min(missing, default=through.segment))
    if missing:
        seen = "is gone"
    elif (size := os.path.getsize(path)) < through.offset:
        seen = f"has {size} bytes, {through.offset} were written"
    else:
        return
    raise LostInputError(
        f"records that a source function received and that were not processed are lost: {path!r} {seen}",
        detail="They do not come again, so the job does not go on without them.",
        hint="Restore the directory, or go on from a checkpoint or savepoint that was made later.",
    )


def read_log(
    directory: str, *, behind: LogPosition | None = None, before: int | None = None
) -> Iterator[tuple[Any, LogPosition]]:
    """Yield the entries of a subtask's log, each with the position behind it.

    Args:
        directory: The subtask's directory; nothing is yielded if there is none.
        behind: Where to begin; None for the first segment that is left.
        before: Number of the first segment that is not read; None to read all.
    """
    first = 0 if behind is None else behind.segment
    for segment in sorted(_segments(directory)):
        if segment < first or (before is not None and segment >= before):
            continue
        offset = behind.offset if behind is not None and segment == first else 0
        with open_own(_segment_path(directory, segment), current().trust) as file:
            file.seek(offset)
            while len(head := file.read(_HEAD.size)) == _HEAD.size:
                length, crc = _HEAD.unpack(head)
                data = file.read(length)
                if len(data) < length or zlib.crc32(data) != crc:
                    break
                offset += _HEAD.size + length
                yield pickle.loads(data), LogPosition(directory, segment, offset)


def _segments(directory: str) -> list[int]:
    try:
        names = os.listdir(directory)
    except FileNotFoundError:
        return []
    return [int(match[1]) for name in names if (match := re.fullmatch(r"(\d{6,})\.log", name))]


def _segment_path(directory: str, segment: int) -> str:
    return os.path.join(directory, f"{segment:06d}.log")


def _remove_if_empty(directory: str) -> None:
    try:
        os.rmdir(directory)
    except OSError:
        return  # other subtasks are not done


def _pickle(entry: Any) -> bytes:
    try:
        return dump_lasting(entry)
    except Exception as error:
        raise NotSerializableError(f"a record of a source function cannot be pickled: {error}") from error
