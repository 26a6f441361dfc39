"""CSV files as named rows.

Python's csv reader takes the file's lines one at a time, and exactly as many as a record has, so after each
batch the file's own position is the position behind the batch: resuming needs no search for a record's start,
even where quoted values hold newlines. Values are converted column by column; only if that fails is the batch
read again row by row to name the line and the column.
"""

from __future__ import annotations

import csv
from collections.abc import Iterator
from itertools import islice
from typing import Any, BinaryIO

from millstream.common.datatypes import DataTypes
from millstream.common.errors import ConfigurationError, MalformedRecordError, shorten
from millstream.common.types import rows_of
from millstream.formats.csv_schema import CsvColumn, CsvSchema
from millstream.formats.text import StreamFormat
from millstream.spi.formats import FileRecords

__all__ = ["CsvReaderFormat"]

_BOM = b"\xef\xbb\xbf"


class CsvReaderFormat(StreamFormat):
    """Rows of CSV files in UTF-8; a position is (byte, number of lines before it).

    Every row must have as many values as the schema has columns. Empty lines are left out. An empty value is
    None, except in string columns.
    """

    def __init__(self, schema: CsvSchema, *, columns_from_header: bool = False) -> None:
        if not columns_from_header and not schema.columns:
            raise ConfigurationError(
                "CSV schema has no columns", hint="Add columns, or use CsvReaderFormat.for_header()."
            )
        if schema.reorder_columns and not schema.use_header:
            raise ConfigurationError(
                "CSV schema reorders columns but reads no header", hint="Call set_use_header()."
            )
        self._schema = schema
        self._columns_from_header = columns_from_header

    @staticmethod
    def for_schema(schema: CsvSchema) -> CsvReaderFormat:
        """Make the format of files with the schema's columns.

        Raises:
            ConfigurationError: If the schema has no columns.
        """
        return CsvReaderFormat(schema)

    @staticmethod
    def for_header(separator: str = ",") -> CsvReaderFormat:
        """Make the format of files whose header names the columns, all of them strings (millstream's own)."""
        schema = CsvSchema.builder().set_use_header().set_column_separator(separator).build()
        return CsvReaderFormat(schema, columns_from_header=True)

    def open(self, file: BinaryIO, path: str, position: Any) -> FileRecords:
        """Read rows from a position on.

        Raises:
            MalformedRecordError: If the header does not fit the schema.
        """
        return _CsvRows(file, path, self._schema, position, columns_from_header=self._columns_from_header)


class _Uncommented:
    """The records of a file, without the comments between them; in place of a csv reader.

    Lines within a quoted value are no comments, whatever they begin with.

    Attributes:
        comments: How many were left out.
    """

    def __init__(self, file: BinaryIO, schema: CsvSchema) -> None:
        self._file = file
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
        for line in self._file:
            if self._between_records and line.lstrip(b" ").startswith(b"#"):
                self.comments += 1
            else:
                self._between_records = False
                yield line.decode()


def _records(file: BinaryIO, schema: CsvSchema) -> Any:
    """Return an iterator over a file's records that counts lines, as csv's reader does."""
    if schema.allow_comments:
        return _Uncommented(file, schema)
    return csv.reader(map(bytes.decode, file), **schema.dialect())


class _CsvRows(FileRecords):
    """The rows of one open file."""

    def __init__(
        self,
        file: BinaryIO,
        path: str,
        schema: CsvSchema,
        position: tuple[int, int] | None,
        *,
        columns_from_header: bool,
    ) -> None:
        self._file = file
        self._path = path
        self._schema = schema
        self._columns = list(schema.columns)
        self._order: list[int] | None = None
        self._position = (0, 0)
        self._seek((0, 0))
        if schema.use_header and (position is None or columns_from_header or schema.reorder_columns):
            self._read_header(columns_from_header)
        if position is not None:
            self._seek(position)
        elif schema.skip_first_data_row:
            self._raw(1)
        self._fields = tuple(column.name for column in schema.columns or self._columns)

    def read(self, max_records: int) -> list[Any]:
        start = self._position
        rows = self._raw(max_records)
        if [] in rows:
            rows = [row for row in rows if row]
        if not rows:
            return []
        width = len(self._columns)
        try:
            # strict: a row of another length fails here
            texts = list(zip(*rows, strict=True))
            if len(texts) != width:
                raise ValueError
            columns = [
                self._convert(column, values) for column, values in zip(self._columns, texts, strict=True)
            ]
        except ValueError:
            self._explain(start, max_records)
            raise
        if self._order is not None:
            columns = [columns[index] for index in self._order]
        return rows_of(self._fields, zip(*columns, strict=True))

    @property
    def position(self) -> tuple[int, int]:
        return self._position

    @property
    def exhausted(self) -> bool:
        return not self._file.peek(1)  # type: ignore[attr-defined]

    def close(self) -> None:
        self._file.close()

    def _seek(self, position: tuple[int, int]) -> None:
        self._file.seek(position[0])
        if position[0] == 0 and self._file.peek(3)[:3] == _BOM:  # type: ignore[attr-defined]
            self._file.seek(3)
        self._position = (self._file.tell(), position[1])
        self._start_line = position[1]
        self._reader = _records(self._file, self._schema)

    def _raw(self, max_records: int) -> list[list[str]]:
        start = self._position
        try:
            rows = list(islice(self._reader, max_records))
        except (csv.Error, UnicodeDecodeError):
            self._explain(start, max_records)
            raise
        self._position = (self._file.tell(), self._start_line + self._reader.line_num)
        return rows

    def _convert(self, column: CsvColumn, texts: tuple[str, ...]) -> list[Any]:
        null = self._schema.null_value
        if null is None or null not in texts:
            return column.parse_column(texts)
        present = iter(column.parse_column([text for text in texts if text != null]))
        return [None if text == null else next(present) for text in texts]

    def _read_header(self, columns_from_header: bool) -> None:
        header = next(iter(self._raw(1)), None)
        if header is None:  # an empty file
            return
        expected = [column.name for column in self._columns]
        if columns_from_header:
            self._columns = [CsvColumn(name, DataTypes.STRING()) for name in header]
            problem = len(set(header)) < len(header)
        elif self._schema.reorder_columns:
            problem = sorted(header) != sorted(expected)
            if not problem:
                self._columns = [self._columns[expected.index(name)] for name in header]
                self._order = [header.index(name) for name in expected]
        else:
            problem = self._schema.strict_headers and header != expected
        if problem:
            raise MalformedRecordError(
                f"file {self._path!r}, line 1: header names the columns {shorten(header, 400)}",
                detail=f"Expected {shorten(expected, 400)}." if expected else "Each name may occur once.",
            )

    # ---- what was wrong: the slow way, once ----

    def _explain(self, start: tuple[int, int], max_records: int) -> None:
        """Read a batch again, row by row, and raise for the first row that is malformed."""
        self._seek(start)
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
        if len(row) != len(self._columns):
            raise MalformedRecordError(
                f"{where}: row has {len(row)} values, the schema has {len(self._columns)} columns",
                detail=f"Seen: {shorten(row)}",
                hint="Check the column separator and the quotes of this line.",
            )
        for index, (column, text) in enumerate(zip(self._columns, row, strict=True), 1):
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
