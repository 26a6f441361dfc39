"""The Parquet file of one partition while it is written, and what the driver is told of it."""

from __future__ import annotations

import contextlib
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from millstream.files.output import OutputFiles
from millstream.spi.serialization import BulkWriterFactory

__all__ = ["LAST", "Column", "DeltaCommittable", "PartitionFile"]

Column = tuple[str, str]
"""Name and type of a column, the type as the log has it."""

LAST = 2**62
"""Number of what is committed at the end of a job without checkpoints."""


@dataclass(frozen=True, slots=True)
class DeltaCommittable:
    """A finished file that is not in the log yet.

    Attributes:
        application: Under which its commit is noted: job, sink and attempt.
        staged_path: Where it is; hidden.
        final_path: Where it will be.
        path: The same below the table.
        partition: Its partition: columns and their values, as the log has them.
        columns: The columns that were written, those of the partition too.
        records: How many there are.
        size_bytes: Its size.
        written_ms: When it was finished, epoch milliseconds.
        number: Its checkpoint.
    """

    application: str
    staged_path: str
    final_path: str
    path: str
    partition: tuple[tuple[str, str | None], ...]
    columns: tuple[Column, ...]
    records: int
    size_bytes: int
    written_ms: int
    number: int = LAST


class PartitionFile:
    """A hidden file that takes the records of one partition up to a checkpoint.

    Args:
        files: Where the table is.
        directory: Of the partition.
        name: That the file will have.
        formats: Writes Parquet.
    """

    def __init__(self, files: OutputFiles, directory: str, name: str, formats: BulkWriterFactory) -> None:
        self._files = files
        self.final_path = files.join(directory, name)
        self.path = self.final_path[len(files.base) + 1 :]
        self._file, self.staged_path = files.stage(
            files.join(directory, f".{name}.inprogress"), self.final_path
        )
        self._parquet = formats.create(self._file)
        self._records = 0

    def add(self, batch: Any) -> None:
        """Add records, as a record batch."""
        self._records += batch.num_rows
        self._parquet.add_columns(batch)

    def finish(
        self,
        application: str,
        partition: Sequence[tuple[str, str | None]],
        columns: tuple[Column, ...],
        now_ms: int,
    ) -> DeltaCommittable:
        """Make it durable, and return what is to be committed."""
        self._parquet.finish()
        self._files.sync(self._file)
        size = self._file.tell()
        self._file.close()
        return DeltaCommittable(
            application,
            self.staged_path,
            self.final_path,
            self.path,
            tuple(partition),
            columns,
            self._records,
            size,
            now_ms,
        )

    def discard(self) -> None:
        """Close and remove it."""
        # Parquet's writer complains later if its file is closed before it; what was closed is closed.
        with contextlib.suppress(Exception):
            self._parquet.finish()
        with contextlib.suppress(OSError):
            self._file.close()
        self._files.remove(self.staged_path)
