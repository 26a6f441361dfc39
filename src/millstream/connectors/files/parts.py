"""Part files of a file sink: their names, the one being written, and what is told of it.

::

    part-2-3f0c…-7.csv                                           finished: readers see it
    .part-2-3f0c…-7.csv.inprogress.<job>-<operator>-<began>-<attempt>-9c…    hidden: being written, or pending

A hidden name tells whose it is, so that a later attempt of the same job can remove what no checkpoint refers to.
"""

from __future__ import annotations

import contextlib
import zlib
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, BinaryIO

from millstream.base.errors import SinkError
from millstream.connectors.files.compaction import FileCompactor
from millstream.files.output import OutputFiles
from millstream.files.refusals import refusal_at
from millstream.spi.serialization import BulkWriter, BulkWriterFactory, Encoder
from millstream.spi.sink import WriterContext

__all__ = [
    "FileCommittable",
    "InProgressFile",
    "PartFile",
    "PendingFile",
    "WriterSnapshot",
    "hidden_name",
    "not_written",
]


@dataclass(frozen=True, slots=True)
class FileCommittable:
    """A finished file that readers do not see yet.

    Attributes:
        staged_path: Where it is.
        final_path: Where it will be.
        in_bucket: Whether its directory is a bucket below the base path.
        size_bytes: Its size.
        merged: Staged files that it was made of by compaction: removed when it is published.
        kept: Whether an earlier checkpoint refers to the staged file: it stays if it is not published.
    """

    staged_path: str
    final_path: str
    in_bucket: bool = False
    size_bytes: int = 0
    merged: tuple[str, ...] = ()
    kept: bool = False


@dataclass(frozen=True, slots=True)
class InProgressFile:
    """A file that was open at a checkpoint.

    Attributes:
        bucket_id: Its bucket.
        staged_path: Where it is.
        final_path: Where it will be.
        length: How many of its bytes belong to the checkpoint.
        crc: CRC-32 of these.
        begun_ms: When it was begun, processing time in epoch milliseconds.
        written_ms: When it was last written to.
    """

    bucket_id: str
    staged_path: str
    final_path: str
    length: int
    crc: int
    begun_ms: int
    written_ms: int


@dataclass(frozen=True, slots=True)
class PendingFile:
    """A finished file that waits for compaction.

    Attributes:
        bucket_id: Its bucket.
        file: The file.
    """

    bucket_id: str
    file: FileCommittable


@dataclass(frozen=True, slots=True)
class WriterSnapshot:
    """What a writer keeps beyond a checkpoint.

    Attributes:
        counter: Number of the next part file.
        open: Files being written.
        waiting: Files that wait for compaction.
        checkpoints: How many checkpoints ago files were compacted last.
    """

    counter: int
    open: tuple[InProgressFile, ...] = ()
    waiting: tuple[PendingFile, ...] = ()
    checkpoints: int = 0

    def paths(self) -> set[str]:
        """Return the files that it refers to."""
        return {each.staged_path for each in self.open} | {each.file.staged_path for each in self.waiting}


def hidden_name(name: str, context: WriterContext) -> str:
    """Return a name for a file that is not finished; it tells whose it is."""
    return f".{name}.inprogress.{context.new_name()}"


def not_written(what: str, path: str, error: OSError) -> SinkError:
    """Return the error to raise for what a file system refused.

    Args:
        what: What was being written, in words.
        path: Its path or URI.
        error: What came of it.
    """
    refusal = refusal_at(path, error, "Check the disk's free space and the directory's permissions.")
    return SinkError(
        refusal.after(f"{what} {path!r} could not be written"), detail=refusal.detail, hint=refusal.hint
    )


class PartFile:
    """A file being written.

    Args:
        files: Where it is.
        bucket_id: Its bucket.
        committable: Its names.
        output: How records are written.
        now_ms: Processing time, epoch milliseconds.
        waits: Whether it is read before it is published: it waits to be merged.

    Attributes:
        bucket_id: Its bucket.
        committable: Its names.
        begun_ms: When it was begun.
        written_ms: When it was last written to.
        size_bytes: How much was written to it; 0 for bulk formats, which tell only at the end.
        kept: Whether a snapshot refers to it.
        finished: What `settle` left; None before.
    """

    def __init__(
        self,
        files: OutputFiles,
        bucket_id: str,
        committable: FileCommittable,
        output: Encoder | BulkWriterFactory,
        now_ms: int,
        *,
        waits: bool = False,
    ) -> None:
        self._files = files
        self.bucket_id = bucket_id
        self.begun_ms = now_ms
        self.written_ms = now_ms
        self.size_bytes = 0
        self.kept = False
        self.finished: FileCommittable | None = None
        self._crc = 0
        self._file: BinaryIO
        if waits:
            self._file, staged = files.create(committable.staged_path), committable.staged_path
        else:
            self._file, staged = files.stage(committable.staged_path, committable.final_path)
        self.committable = replace(committable, staged_path=staged)
        self._encoder = output if isinstance(output, Encoder) else None
        self._bulk: BulkWriter | None = (
            output.create(self._file) if isinstance(output, BulkWriterFactory) else None
        )

    def resume(self, former: InProgressFile, path: str) -> None:
        """Begin with what an earlier file held at a checkpoint.

        Args:
            former: That file.
            path: Where it, or a copy of it, is now.

        Raises:
            SinkError: If it is not what it was.
        """
        self._crc = self._files.copy_prefix(path, former.length, self._file)
        self.size_bytes = former.length
        if self._crc != former.crc:
            raise SinkError(
                f"in-progress file {path!r} was altered",
                detail="Its checksum is another than in the checkpoint.",
            )
        self.begun_ms, self.written_ms = former.begun_ms, former.written_ms

    def write(self, values: list[Any], now_ms: int) -> None:
        """Add records."""
        self.written_ms = now_ms
        if self._bulk is not None:
            self._bulk.add_elements(values)
        elif self._encoder is not None:
            data = self._encoder.encode_all(values)
            self._file.write(data)
            self._crc = zlib.crc32(data, self._crc)
            self.size_bytes += len(data)

    def write_columns(self, batch: Any, now_ms: int) -> None:
        """Add the records of a `pyarrow.RecordBatch` to a file of a bulk format."""
        assert self._bulk is not None, "a format that writes record by record"
        self.written_ms = now_ms
        self._bulk.add_columns(batch)

    def merge(self, compactor: FileCompactor, inputs: Sequence[BinaryIO]) -> None:
        """Fill it with what a compactor makes of other files."""
        compactor.compact(inputs, self._file)

    def snapshot(self) -> InProgressFile:
        """Make what was written durable, and return where it is; any thread may call it.

        Raises:
            SinkError: If that fails.
        """
        try:
            self._files.sync(self._file)
        except OSError as error:
            raise self._failed(error) from error
        self.kept = True
        names = self.committable
        return InProgressFile(
            self.bucket_id,
            names.staged_path,
            names.final_path,
            self.size_bytes,
            self._crc,
            self.begun_ms,
            self.written_ms,
        )

    def complete(self) -> None:
        """Write the end of a bulk format; called on the subtask's thread, as the format may be a user's.

        Raises:
            SinkError: If that fails.
        """
        try:
            if self._bulk is not None:
                self._bulk.finish()
        except OSError as error:
            raise self._failed(error) from error

    def settle(self) -> FileCommittable:
        """Write it out to the disk, or to the server, and close it; called after `complete`, on any thread.

        Raises:
            SinkError: If that fails.
        """
        try:
            self._files.sync(self._file)
            size = self._file.tell()
            self._file.close()
        except OSError as error:
            raise self._failed(error) from error
        names = self.committable
        self.finished = FileCommittable(
            names.staged_path, names.final_path, names.in_bucket, size, kept=self.kept
        )
        return self.finished

    def release(self) -> None:
        """Close it, and leave it where it is."""
        self._file.close()

    def discard(self) -> None:
        """Close and remove it."""
        if self._bulk is not None:
            # Parquet's writer complains later if its file is closed before it.
            with contextlib.suppress(Exception):
                self._bulk.finish()
        # What cannot be written any more is thrown away all the same.
        with contextlib.suppress(OSError):
            self._file.close()
        self._files.remove(self.committable.staged_path)

    def _failed(self, error: OSError) -> SinkError:
        return not_written("file", self.committable.final_path, error)
