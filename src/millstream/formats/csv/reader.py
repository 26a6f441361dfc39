"""CSV files as named rows.

Files are read in blocks: `columns.py` makes columns of a whole block at once with pyarrow, where it is installed and
its result is certain to be that of Python's csv module; else the block's records are read one by one
(`rows.py`), which also finds what is wrong with which line. A reader may stop in the middle of a block: the
position is then the block's beginning and the number of rows taken of it.
"""

from __future__ import annotations

import sys
from importlib.util import find_spec
from typing import Any, BinaryIO

from millstream.base.errors import ConfigurationError, MalformedRecordError, shorten
from millstream.formats.csv.columns import CsvBlocks
from millstream.formats.csv.rows import CsvRecords
from millstream.formats.csv.schema import CsvColumn, CsvSchema
from millstream.formats.text.lines import StreamFormat
from millstream.spi.formats import FileRecords
from millstream.types.datatypes import DataTypes
from millstream.types.row import rows_of

__all__ = ["CsvReaderFormat"]

_BLOCK_BYTES = 256 << 10
_SMALLEST_BLOCK_BYTES = 8 << 10
"""So few bytes are read sooner record by record than pyarrow is set up for them."""


class CsvReaderFormat(StreamFormat):
    """Rows of CSV files in UTF-8; a position is (byte, number of lines before it), and the number of rows behind that.

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


class _CsvRows(FileRecords):
    """The rows of one open file."""

    def __init__(
        self,
        file: BinaryIO,
        path: str,
        schema: CsvSchema,
        position: tuple[int, ...] | None,
        *,
        columns_from_header: bool,
    ) -> None:
        self._path = path
        self._schema = schema
        self._records = CsvRecords(file, path, schema)
        self._order: list[int] | None = None
        if schema.use_header and (position is None or columns_from_header or schema.reorder_columns):
            self._read_header(columns_from_header)
        if position is not None:
            byte, line, *taken = position  # two numbers where no block was begun
            self._records.seek((byte, line))
            self._records.skip(sum(taken))
        elif schema.skip_first_data_row:
            self._records.read(1)
        columns = self._records.columns
        self._fields = tuple(column.name for column in schema.columns or columns)
        self._blocks = CsvBlocks(schema, columns) if find_spec("pyarrow") else None
        self._block_bytes = _BLOCK_BYTES
        self._row_by_row_until = 0  # byte up to which a block was refused
        self._row_by_row_lines = sys.maxsize  # in that block
        self._block: list[list[Any]] = []  # columns of the block being read
        self._taken = 0
        self._block_rows = 0
        self._block_size = (0, 0)  # bytes and lines

    def read(self, max_records: int) -> list[Any]:
        if not self._block_rows and not self._next_block():
            return self._rows(self._records.read_columns(min(max_records, self._row_by_row_lines)))
        first, last = self._taken, min(self._taken + max_records, self._block_rows)
        whole = first == 0 and last == self._block_rows
        columns = self._block if whole else [column[first:last] for column in self._block]
        if last == self._block_rows:
            self._end_block()
        else:
            self._taken = last
        return self._rows(columns)

    @property
    def position(self) -> tuple[int, ...]:
        return (*self._records.position, self._taken) if self._taken else self._records.position

    @property
    def exhausted(self) -> bool:
        return not self._block_rows and self._records.exhausted

    def close(self) -> None:
        self._records.close()

    def _next_block(self) -> bool:
        """Parse the next block; return whether there is one, else records are to be read one by one.

        A block that is refused is tried again in smaller pieces: what is odd is in one of them.
        """
        start = self._records.position[0]
        if self._blocks is None or start < self._row_by_row_until:
            return False
        while True:
            data, ends = self._records.peek(self._block_bytes)
            piece = data[: self._block_bytes]
            ends = ends and len(piece) == len(data)
            size = len(piece) if ends else self._blocks.whole_records(piece)
            columns = self._blocks.parse(piece[:size]) if size >= _SMALLEST_BLOCK_BYTES else None
            if columns is not None:
                self._block_bytes = min(self._block_bytes * 2, _BLOCK_BYTES)
                self._block, self._block_rows = columns, len(columns[0])
                self._block_size = (size, piece.count(b"\n", 0, size))
                return True
            if self._block_bytes // 4 < _SMALLEST_BLOCK_BYTES:
                self._row_by_row_until = start + len(piece)
                self._row_by_row_lines = piece.count(b"\n") + 1
                return False
            self._block_bytes //= 4

    def _end_block(self) -> None:
        self._records.take(*self._block_size)
        self._block, self._block_rows, self._taken = [], 0, 0

    def _rows(self, columns: list[list[Any]]) -> list[Any]:
        if self._order is not None and columns:
            columns = [columns[index] for index in self._order]
        return rows_of(self._fields, zip(*columns, strict=True))

    def _read_header(self, columns_from_header: bool) -> None:
        header = next(iter(self._records.read(1)), None)
        if header is None:  # an empty file
            return
        columns = list(self._schema.columns)
        expected = [column.name for column in columns]
        if columns_from_header:
            columns = [CsvColumn(name, DataTypes.STRING()) for name in header]
            problem = len(set(header)) < len(header)
        elif self._schema.reorder_columns:
            problem = sorted(header) != sorted(expected)
            if not problem:
                columns = [columns[expected.index(name)] for name in header]
                self._order = [header.index(name) for name in expected]
        else:
            problem = self._schema.strict_headers and header != expected
        if problem:
            raise MalformedRecordError(
                f"file {self._path!r}, line 1: header names the columns {shorten(header, 400)}",
                detail=f"Expected {shorten(expected, 400)}." if expected else "Each name may occur once.",
            )
        self._records.columns = columns
