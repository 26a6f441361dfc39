"""Files of blocks in which records wait until their checkpoint is complete.

::

    slot     write … write ─ prepare_commit ──► <name><suffix>, synced
    driver   checkpoint complete ─► what waits is sent ─► noted ─► file removed

A file is of one subtask and one checkpoint. It has a block for each batch::

    length: 8 bytes, big-endian   CRC-32: 4 bytes, big-endian   data

A note beside the files tells for each subtask what was sent last. It stays, as savepoints may refer to what is before
it at any time.
"""

from __future__ import annotations

import os
import tempfile
import zlib
from abc import ABC, abstractmethod
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any, BinaryIO, ClassVar

from millstream.base.errors import ConfigurationError, SinkError
from millstream.files.durable import make_directories, sync_directory, write_file
from millstream.files.file_systems import current
from millstream.files.private_files import create_own, open_own, private_directory, user_directory
from millstream.spi.sink import SinkWriter, WriterContext

__all__ = ["BlockWriter", "WaitingFile", "default_directory", "make_writable", "read_blocks"]

_PRIVATE = "write-ahead"
_HEAD_BYTES = 12


class WaitingFile(ABC):
    """A committable: a file of blocks. Derived classes are dataclasses with slots, and `path` is a field."""

    __slots__ = ()

    path: str

    @property
    @abstractmethod
    def order(self) -> tuple[int, ...]:
        """What is larger for what is sent later, among those of the same note."""

    @property
    @abstractmethod
    def note_name(self) -> str:
        """Name of the note: of those that are sent one after the other."""

    @property
    def _note_path(self) -> str:
        return os.path.join(os.path.dirname(self.path), self.note_name)

    def exists(self) -> bool:
        """Return whether the file is there."""
        return os.path.exists(self.path)

    def is_noted(self) -> bool:
        """Return whether it is noted that the file, or a later one, was sent."""
        try:
            with open_own(self._note_path, current().trust) as note:
                return tuple(map(int, note.read().split())) >= self.order
        except FileNotFoundError:
            return False

    def note(self) -> None:
        """Note that the file was sent, whatever was noted before, and only then remove it.

        Raises:
            SinkError: If that fails.
        """
        try:
            write_file(self._note_path, " ".join(map(str, self.order)).encode())
            self.remove()
        except OSError as error:
            raise SinkError(
                f"it could not be noted that {self.path!r} was sent", detail=str(error)
            ) from error

    def remove(self) -> None:
        """Remove the file."""
        Path(self.path).unlink(missing_ok=True)


class BlockWriter(SinkWriter):
    """Writes a file for each checkpoint; derived classes say what is in a block, and what is committed.

    Args:
        directory: Where files are written; None for `default_directory`.
        context: Of the subtask.
    """

    suffix: ClassVar[str]

    def __init__(self, directory: str | None, context: WriterContext) -> None:
        self._directory = directory or default_directory(context)
        self._context = context
        self._path = ""
        self._file: BinaryIO | None = None
        self._ended = False
        self._aborted = False

    @abstractmethod
    def _committable(self, path: str) -> Any:
        """Return what is committed for a file that is durable: a dataclass with a field `checkpoint_id`."""

    def open(self) -> None:
        """Make the directory; remove what killed attempts left: what a checkpoint holds has been sent before."""
        make_writable(self._directory)
        self._remove_leftovers(or_own=False)

    def _remove_leftovers(self, *, or_own: bool) -> None:
        """Remove the files of former attempts; one subtask does it for all."""
        if self._context.subtask_index != 0:
            return
        for name in os.listdir(self._directory):
            if name.endswith(self.suffix) and self._context.is_of_former(name, or_own=or_own):
                Path(self._directory, name).unlink(missing_ok=True)

    def _append(self, *data: bytes) -> None:
        """Write a block, whose data may come in parts.

        Raises:
            SinkError: If that fails.
        """
        checksum = 0
        for each in data:
            checksum = zlib.crc32(each, checksum)
        head = sum(map(len, data)).to_bytes(8, "big") + checksum.to_bytes(4, "big")
        try:
            if self._file is None:
                self._path = os.path.join(self._directory, f"{self._context.new_name()}{self.suffix}")
                self._file = create_own(self._path)
            self._file.write(head)
            for each in data:
                self._file.write(each)
        except OSError as error:
            raise self._failed(error) from error

    def prepare_commit(self, *, now_ms: int, checkpoint: bool, end_of_input: bool) -> list[Any]:
        """Make the file durable, and return it."""
        self._ended = end_of_input
        if self._file is None or not (checkpoint or end_of_input):
            return []
        try:
            self._file.flush()
            os.fsync(self._file.fileno())
            self._file.close()
            sync_directory(self._directory)
        except OSError as error:
            raise self._failed(error) from error
        self._file = None
        return [self._committable(self._path)]

    def number_committables(self, committables: list[Any], checkpoint_id: int) -> list[Any]:
        """Tell the file its checkpoint."""
        return [replace(each, checkpoint_id=checkpoint_id) for each in committables]

    def abort(self) -> None:
        """Remove the file that is being written."""
        self._aborted = True
        self._discard()

    def close(self) -> None:
        """Remove what no checkpoint refers to."""
        self._discard()
        if self._ended and not self._aborted:  # everything was sent: what waits is of zombies
            self._remove_leftovers(or_own=True)

    def _discard(self) -> None:
        if self._file is not None:
            self._file.close()
            self._file = None
            Path(self._path).unlink(missing_ok=True)

    def _failed(self, error: OSError) -> SinkError:
        return SinkError(f"records could not be staged in {self._directory!r}", detail=str(error))


def read_blocks(path: str) -> Iterator[bytes]:
    """Yield the data of a file's blocks.

    Raises:
        SinkError: If a block is damaged.
    """
    with open_own(path, current().trust) as file:
        while head := file.read(_HEAD_BYTES):
            data = file.read(int.from_bytes(head[:8], "big"))
            if len(head) < _HEAD_BYTES or zlib.crc32(data) != int.from_bytes(head[8:], "big"):
                raise SinkError(f"staged file {path!r} is damaged")
            yield data


def default_directory(context: WriterContext) -> str:
    """Return where records wait if a sink was given no directory: beside the checkpoints that refer to them.

    Raises:
        ConfigurationError: If checkpoints are where files cannot grow.
    """
    checkpoints = context.checkpoint_directory
    if checkpoints is None:
        return str(user_directory(_PRIVATE))
    if "://" in checkpoints:
        raise ConfigurationError(
            f"a sink whose records wait has no directory for them, and checkpoints are kept in {checkpoints}",
            detail="Its records wait in files of a directory that every slot and the driver see.",
            hint="Give the sink one (WriteAheadSink(directory=...), KafkaSink.builder().set_staging_directory(...)), "
            "as durable as the checkpoints are to be.",
        )
    return os.path.join(checkpoints, "written-ahead")


def make_writable(directory: str) -> None:
    """Make the directory in which records wait, and see that files can be written in it.

    Raises:
        SinkError: If not.
    """
    try:
        if directory == str(user_directory(_PRIVATE)):
            private_directory(_PRIVATE)
        make_directories(directory)
        with tempfile.TemporaryFile(dir=directory):
            pass
    except OSError as error:
        raise SinkError(
            f"directory {directory!r} of a write-ahead sink cannot be written", detail=str(error)
        ) from error
