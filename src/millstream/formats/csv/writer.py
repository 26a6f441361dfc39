"""CSV files written from rows."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, BinaryIO

from millstream.base.errors import ConfigurationError, TypeMismatchError
from millstream.formats.column_values import check_column, double_texts
from millstream.formats.csv.schema import CsvColumn, CsvSchema
from millstream.formats.csv.text import CsvLines
from millstream.formats.tabulator import Tabulator
from millstream.spi.serialization import BulkWriter, BulkWriterFactory
from millstream.types import datatypes as types
from millstream.types.arrow_values import values_of
from millstream.types.java_text import double_text, float_text

__all__ = ["CsvBulkWriters"]


class CsvBulkWriters:
    """Makes writers of CSV files for `FileSink.for_bulk_format`.

    Example:
        >>> from millstream.datastream.connectors.file_system import FileSink
        >>> from millstream.datastream.formats.csv import CsvBulkWriters, CsvSchema
        >>> schema = CsvSchema.builder().add_string_column("city").add_number_column("people").build()
        >>> sink = FileSink.for_bulk_format("out/cities", CsvBulkWriters.for_schema(schema)).build()
    """

    @staticmethod
    def for_schema(schema: CsvSchema) -> BulkWriterFactory:
        """Write rows, tuples or lists with the schema's columns; a header too if the schema uses one.

        Raises:
            ConfigurationError: If the schema has no columns.
        """
        if not schema.columns:
            raise ConfigurationError("CSV schema has no columns", hint="Add columns.")
        return _CsvWriterFactory(schema)


class _CsvWriterFactory(BulkWriterFactory):
    def __init__(self, schema: CsvSchema) -> None:
        self._schema = schema

    def create(self, file: BinaryIO) -> BulkWriter:
        return _CsvWriter(file, self._schema)


class _CsvWriter(BulkWriter):
    def __init__(self, file: BinaryIO, schema: CsvSchema) -> None:
        self._file = file
        self._schema = schema
        names = [column.name for column in schema.columns]
        self._tabulator = Tabulator(tuple(names))
        self._lines = CsvLines(
            schema.column_separator,
            quote=schema.quote_char,
            escape=schema.escape_char,
            end=schema.line_separator,
        )
        self._renderers = [self._column_renderer(column) for column in schema.columns]
        if schema.use_header:
            self._write([[self._lines.text(name)] for name in names])

    def add_elements(self, elements: Sequence[Any]) -> None:
        self._add(self._tabulator.columns(elements))

    def add_columns(self, batch: Any) -> None:
        self._add(list(map(values_of, self._tabulator.arrays(batch))))

    def _add(self, columns: Sequence[Sequence[Any]]) -> None:
        texts = []
        for column, render, values in zip(self._schema.columns, self._renderers, columns, strict=True):
            check_column(column.name, column.data_type, values)
            try:
                texts.append(render(values))
            except ValueError as error:
                raise TypeMismatchError(
                    f"column {column.name!r} cannot be written as CSV: {error}",
                    hint="Set a quote or an escape character in the schema.",
                ) from error
        self._write(texts)

    def finish(self) -> None:
        """Nothing is buffered and CSV has no end mark."""

    def _write(self, columns: Sequence[Sequence[str]]) -> None:
        self._file.write(self._lines.join_columns(columns).encode())

    def _column_renderer(self, column: CsvColumn) -> Callable[[Sequence[Any]], Sequence[str]]:
        """Return what makes the fields of a column."""
        null = self._schema.null_value or ""
        kind = column.data_type
        lines = self._lines
        if isinstance(kind, types.VarCharType):
            return lambda values: lines.texts(values, null)
        render = _renderer(kind, column.array_separator, null)
        if type(kind) is types.DoubleType:
            return lambda values: double_texts(values, null)
        if isinstance(kind, (types.NumericType, types.BooleanType)):
            return lambda values: [null if value is None else render(value) for value in values]
        return lambda values: lines.texts(
            [None if value is None else render(value) for value in values], null
        )


def _renderer(kind: types.DataType, separator: str, null: str) -> Callable[[Any], str]:
    """Return what writes a value that is not None, as Java writes it."""
    if isinstance(kind, types.BooleanType):
        return lambda value: "true" if value else "false"
    if isinstance(kind, types.FloatType):
        return float_text
    if isinstance(kind, types.DoubleType):
        return double_text
    if isinstance(kind, types.DecimalType):
        return lambda value: str(kind.rounded(value))
    if isinstance(kind, types.ArrayType):
        render = _renderer(kind.element_type, separator, null)
        return lambda values: separator.join(null if value is None else render(value) for value in values)
    return str
