"""Reads the data files of a table in one subtask."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager
from typing import Any, BinaryIO

from millstream.base.errors import MillstreamError, SourceError
from millstream.connectors.lake.conditions import Conditions
from millstream.connectors.lake.records import FileShape, TableFileRecords
from millstream.connectors.lake.table_file import TableFile, TableFileSplit
from millstream.connectors.turn_reader import TurnReader
from millstream.files.refusals import refusal_at
from millstream.spi.batch import Batch
from millstream.spi.formats import FileRecords
from millstream.types.datatypes import RowType

__all__ = ["DataFiles", "TableFileReader"]


class DataFiles(ABC):
    """Opens the data files of a table; one thread calls it."""

    @abstractmethod
    def row_type(self, schema: Any) -> RowType:
        """Return what is given of each file.

        Args:
            schema: As of `TableFile.schema`.
        """

    @abstractmethod
    def shape(self, file: TableFile) -> FileShape:
        """Return how the rows of the table are in a file."""

    @abstractmethod
    def open(self, file: TableFile) -> BinaryIO:
        """Open a file, seekable.

        Raises:
            OSError: If it cannot be opened.
        """

    def refusal(self, error: Exception) -> str:
        """Return what an error says, without credentials."""
        return str(error).partition("\n")[0]


class TableFileReader(TurnReader):
    """Reads files one after the other.

    Args:
        table: Which, for messages: `the Delta table at '/data/orders'`.
        files: Opens them.
        conditions: Which rows are given.
        in_utc: Whether moments are given in UTC; else in the machine's local zone.
    """

    def __init__(self, table: str, files: DataFiles, conditions: Conditions, *, in_utc: bool) -> None:
        super().__init__(gives_columns=True)
        self._table = table
        self._files = files
        self._conditions = conditions
        self._in_utc = in_utc
        self._read_rows = 0

    def identify(self, split: TableFileSplit) -> str:
        """Return the file's name."""
        return split.file.split_id

    def open_split(self, split: TableFileSplit, position: Any) -> FileRecords:
        """Open a file."""
        file = split.file
        stream = self._files.open(file)
        try:
            return TableFileRecords(
                stream,
                file,
                self._files.shape(file),
                self._files.row_type(file.schema),
                self._conditions,
                in_utc=self._in_utc,
                position=position,
            )
        except BaseException:
            stream.close()
            raise

    def read_some(self, records: FileRecords, split: TableFileSplit, most: int) -> Batch:
        """Read at most so many rows."""
        assert isinstance(records, TableFileRecords), "open_split makes them"
        before = records.position
        batch = records.read_batch(most, as_columns=self._gives_columns)
        self._read_rows = records.position - before
        return batch

    def spent(self, batch: Batch, records: FileRecords) -> int:
        """Return how many rows were looked at: those that are left out take time too."""
        return self._read_rows

    def reading(self, split: TableFileSplit) -> AbstractContextManager[None]:
        """Name the file that cannot be read."""
        return self._reading(split.file)

    @contextmanager
    def _reading(self, file: TableFile) -> Iterator[None]:
        try:
            yield
        except MillstreamError:
            raise
        except FileNotFoundError as error:
            raise SourceError(
                f"data file {file.path!r} of {self._table} is gone",
                detail=f"It belongs to version {file.version}.",
                hint="Keep versions (and their files) for longer than a job takes to read them, and to come back.",
            ) from error
        except (OSError, ValueError) as error:
            refusal = refusal_at(
                file.path, error, "Check that the file is whole, and that every host reaches it."
            )
            raise SourceError(
                refusal.after(f"data file {file.path!r} of {self._table} cannot be read"),
                detail=self._files.refusal(Exception(refusal.detail)),
                hint=refusal.hint,
            ) from None  # the cause could show what the store was reached by
