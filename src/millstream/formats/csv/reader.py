"""CSV files as named rows.

Files are read in blocks: `columns.py` makes columns of a whole block at once with pyarrow, where it is installed and
its result is certain to be that of Python's csv module; else the block's records are read one by one
(`rows.py`), which also finds what is wrong with which line.
"""

from __future__ import annotations

from collections.abc import Iterable
from importlib.util import find_spec
from typing import Any, BinaryIO

from millstream.base.errors import ConfigurationError, MalformedRecordError, shorten
from millstream.formats.block import BlockLayout
from millstream.formats.block_records import BlockRecords
from millstream.formats.csv.columns import CsvBlocks
from millstream.formats.csv.rows import CsvRecords
from millstream.formats.csv.schema import CsvColumn, CsvSchema
from millstream.formats.text.lines import StreamFormat
from millstream.spi.formats import FileRecords
from millstream.types.basic import TypeInformation
from millstream.types.datatypes import DataTypes, RowField, RowType
from millstream.types.sql_types import row_type_info

__all__ = ["CsvReaderFormat"]

_BLOCK_BYTES = 1 << 20


class CsvReaderFormat(StreamFormat):
    """Rows of CSV files in UTF-8; a position is (byte, number of lines before it), and the number of rows behind that.

    Every row must have as many values as the schema has columns. Empty lines are left out. An empty value is
    None, except in string columns.

    Example:
        >>> from millstream.datastream.connectors.file_system import FileSource
        >>> from millstream.datastream.formats.csv import CsvReaderFormat, CsvSchema
        >>> schema = CsvSchema.builder().add_string_column("city").add_number_column("people").build()
        >>> csv = CsvReaderFormat.for_schema(schema)
        >>> csv.get_produced_type()
        RowTypeInfo(city: String, people: Long)
        >>> source = FileSource.for_record_stream_format(csv, "data/cities").build()
    """

    byte_positions = True

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

    def get_produced_type(self) -> TypeInformation | None:
        """Return the type of the rows, if it is known without the files."""
        return None if self._columns_from_header else row_type_info(_row_type(self._schema.columns))

    @property
    def is_splittable(self) -> bool:
        """Whether no value can hold a line break, and all rows are read."""
        schema = self._schema
        return schema.quote_char is None and schema.escape_char is None and not schema.skip_first_data_row

    def open(self, file: BinaryIO, path: str, position: Any) -> FileRecords:
        """Read rows from a position on.

        Raises:
            MalformedRecordError: If the header does not fit the schema.
        """
        return _open_rows(file, path, self._schema, position, columns_from_header=self._columns_from_header)


def _row_type(columns: Iterable[CsvColumn]) -> RowType:
    return RowType([RowField(column.name, column.data_type) for column in columns])


def _open_rows(
    file: BinaryIO,
    path: str,
    schema: CsvSchema,
    position: tuple[int, ...] | None,
    *,
    columns_from_header: bool,
) -> FileRecords:
    records = CsvRecords(file, path, schema)
    order = None
    if schema.use_header and (position is None or columns_from_header or schema.reorder_columns):
        order = _read_header(records, path, schema, columns_from_header=columns_from_header)
    columns = schema.columns or records.columns
    layout = BlockLayout(_row_type(columns))
    records.order = order
    decoder = CsvBlocks(schema, records.columns, layout, order) if find_spec("pyarrow") else None
    rows = BlockRecords(records, layout, decoder, _BLOCK_BYTES)
    if position is not None:
        rows.seek(position)
    elif schema.skip_first_data_row:
        records.read(1)
    return rows


def _read_header(
    records: CsvRecords, path: str, schema: CsvSchema, *, columns_from_header: bool
) -> list[int] | None:
    """Find the file's columns by its first line; return the schema's places in it, if they are to be reordered."""
    header = next(iter(records.read(1)), None)
    if header is None:  # an empty file
        return None
    columns = list(schema.columns)
    expected = [column.name for column in columns]
    order = None
    if columns_from_header:
        columns = [CsvColumn(name, DataTypes.STRING()) for name in header]
        problem = len(set(header)) < len(header)
    elif schema.reorder_columns:
        problem = sorted(header) != sorted(expected)
        if not problem:
            columns = [columns[expected.index(name)] for name in header]
            order = [header.index(name) for name in expected]
    else:
        problem = schema.strict_headers and header != expected
    if problem:
        raise MalformedRecordError(
            f"file {path!r}, line 1: header names the columns {shorten(header, 400)}",
            detail=f"Expected {shorten(expected, 400)}." if expected else "Each name may occur once.",
        )
    records.columns = columns
    return order
