"""The records of a CSV file one by one, as Python's csv module takes them: with exact positions and error messages.

Its reader takes the file's lines one at a time, and exactly as many as a record has, so after each batch the file's
own position is the position behind the batch, even where quoted values hold newlines. Values are converted column by
column; only if that fails is the batch read again row by row to name the line and the column.
"""

from __future__ import annotations

import csv
from collections.abc import Iterator, Sequence
from itertools import islice
from typing import Any, BinaryIO

from millstream.base.errors import MalformedRecordError, shorten
from millstream.formats.csv.columns import parse_texts
from millstream.formats.csv.schema import CsvColumn, CsvSchema
from millstream.formats.line_file import LineFile

__all__ = ["CsvRecords"]


class _Uncommented:
    """The records of a file, without the comments between them; in place of a csv reader.

    Lines within a quoted value are no comments, whatever they begin with.

    Attributes:
        comments: How many were left out.
    """

    def __init__(self, file_lines: Iterator[bytes], schema: CsvSchema) -> None:
        self._file_lines = file_lines
        self._between_records = True
        self.comments = 0
        self._reader = csv.reader(self._lines(), **schema.dialect())

    @property
    def line_num(self) -> int:
        """Number of lines that were read, comments included."""
        return self._reader.line_num + self.comments

    def __iter__(self) -> _Uncommented:
        return self

    def __next__(self) -> list[str]:
        self._between_records = True
        return next(self._reader)

    def _lines(self) -> Iterator[str]:
        for line in self._file_lines:
            if self._between_records and line.lstrip(b" ").startswith(b"#"):
                self.comments += 1
            else:
                self._between_records = False
                yield line.decode()


def _records(file_lines: Iterator[bytes], schema: CsvSchema) -> Any:
    """Return an iterator over a file's records that counts lines, as csv's reader does."""
    if schema.allow_comments:
        return _Uncommented(file_lines, schema)
    return csv.reader(map(bytes.decode, file_lines), **schema.dialect())


class CsvRecords(LineFile):
    """Reads an open file's records, from any position at which one begins.

    Attributes:
        columns: The columns in the order of the file; rows have to have as many values.
        order: In which order `read_columns` gives them: places in the file; None as they are.
    """

    _start_line: int
    _reader: Any

    def __init__(self, file: BinaryIO, path: str, schema: CsvSchema) -> None:
        self._schema = schema
        self.columns: Sequence[CsvColumn] = schema.columns
        self.order: Sequence[int] | None = None
        super().__init__(file, path)

    def read(self, max_records: int) -> list[list[str]]:
        """Return the next records as they are; empty lines are empty lists.

        Raises:
            MalformedRecordError: If one of them does not parse or fit.
        """
        start = self.position
        try:
            rows = list(islice(self._reader, max_records))
        except (csv.Error, UnicodeDecodeError):
            self._explain(start, max_records)
            raise
        self.position = (self._reached, self._start_line + self._reader.line_num)
        return rows

    def read_columns(self, max_records: int) -> list[list[Any]]:
        """Return the values of the next records by column, without empty lines; no columns if there is no record.

        Raises:
            MalformedRecordError: If one of them does not parse or fit.
        """
        start = self.position
        rows = self.read(max_records)
        if [] in rows:
            rows = [row for row in rows if row]
        if not rows:
            return []
        try:
            # strict: a row of another length fails here
            texts = list(zip(*rows, strict=True))
            null = self._schema.null_value
            columns = [
                parse_texts(column, values, null) for column, values in zip(self.columns, texts, strict=True)
            ]
        except ValueError:
            self._explain(start, max_records)
            raise
        return columns if self.order is None else [columns[place] for place in self.order]

    def skip(self, count: int) -> None:
        """Leave out so many records; empty lines are none."""
        while count and not self.exhausted:
            count -= sum(map(bool, self.read(count)))

    def _begin(self, position: tuple[int, int]) -> None:
        super()._begin(position)
        self._start_line = position[1]
        self._reader = _records(self._lines(), self._schema)

    # ---- what was wrong: the slow way, once ----

    def _explain(self, start: tuple[int, int], max_records: int) -> None:
        """Read a batch again, row by row, and raise for the first row that is malformed."""
        self.seek(start)
        for line, row in islice(self._numbered_rows(), max_records):
            if row:
                self._explain_row(line, row)

    def _numbered_rows(self) -> Iterator[tuple[int, list[str]]]:
        while True:
            line, comments = self._start_line + self._reader.line_num + 1, self._comments()
            try:
                row = next(self._reader, None)
            except csv.Error as error:
                line += self._comments() - comments
                raise MalformedRecordError(
                    f"file {self._path!r}, line {line}: CSV does not parse: {error}",
                    detail=f"Seen: {self._line_text(line)}",
                    hint="Check the quotes of this line; one that is never closed runs on to the file's end.",
                ) from error
            except UnicodeDecodeError as error:
                raise MalformedRecordError(
                    f"file {self._path!r}, line {self._start_line + self._reader.line_num + 1}, "
                    f"column {error.start + 1}: bytes are no UTF-8 text: {shorten(error.object)}",
                    hint="Convert the file to UTF-8.",
                ) from error
            if row is None:
                return
            yield line + self._comments() - comments, row

    def _comments(self) -> int:
        """Return how many comments were left out; those of one record all stand before it."""
        return self._reader.comments if isinstance(self._reader, _Uncommented) else 0

    def _explain_row(self, line: int, row: list[str]) -> None:
        where = f"file {self._path!r}, line {line}"
        if len(row) != len(self.columns):
            raise MalformedRecordError(
                f"{where}: row has {len(row)} values, the schema has {len(self.columns)} columns",
                detail=f"Seen: {shorten(row)}",
                hint="Check the column separator and the quotes of this line.",
            )
        for index, (column, text) in enumerate(zip(self.columns, row, strict=True), 1):
            if text == self._schema.null_value:
                continue
            try:
                column.parse(text)
            except ValueError as error:
                raise MalformedRecordError(
                    f"file {self._path!r}, line {line}, column {index} ({column.name!r}): "
                    f"{shorten(text)} is no {column.data_type}",
                    detail=str(error),
                    hint="Correct the file or declare another type; set_null_value names a text for None.",
                ) from error

    def _line_text(self, line: int) -> str:
        self._file.seek(0)
        text = next(islice(self._file, line - 1, None), b"")
        return shorten(text.decode("utf-8", "replace").rstrip("\r\n"))
