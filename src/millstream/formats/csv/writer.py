"""CSV files written from rows."""

from __future__ import annotations

import datetime
from collections.abc import Callable, Sequence
from typing import Any, BinaryIO

from millstream.base.errors import ConfigurationError, TypeMismatchError, shorten
from millstream.formats.csv.schema import CsvColumn, CsvSchema
from millstream.formats.csv.text import CsvLines
from millstream.formats.tabulator import Tabulator
from millstream.spi.serialization import BulkWriter, BulkWriterFactory
from millstream.types import datatypes as types
from millstream.types.java_text import double_text, float_text

__all__ = ["CsvBulkWriters"]


class CsvBulkWriters:
    """Makes writers of CSV files for `FileSink.for_bulk_format`."""

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
        columns = self._tabulator.columns(elements)
        texts = []
        for column, render, values in zip(self._schema.columns, self._renderers, columns, strict=True):
            _check_column(column, values)
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
            return lambda values: _double_texts(values, null)
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


def _double_texts(values: Sequence[float | None], null: str) -> list[str]:
    return [  # what double_text() does with most numbers in place, which saves a call for each
        repr(value)
        if type(value) is float and 1e-3 <= value < 1e7
        else null
        if value is None
        else double_text(value)
        for value in values
    ]


def _fits_at_a_glance(kind: types.DataType, values: Sequence[Any]) -> bool:
    """Return whether all values belong to a type, told without a call for each; False if that cannot be told."""
    exact = _EXACT.get(type(kind))
    if exact is None or set(map(type, values)) != {exact}:
        return False
    if exact is int:
        limit = 1 << (kind.bits - 1)  # type: ignore[attr-defined]
        return bool(-limit <= min(values) and max(values) < limit)
    return exact is not str or bool(max(map(len, values)) <= kind.length)  # type: ignore[attr-defined]


_EXACT: dict[type[types.DataType], type] = {
    types.VarCharType: str,
    types.CharType: str,
    types.BooleanType: bool,
    types.TinyIntType: int,
    types.SmallIntType: int,
    types.IntType: int,
    types.BigIntType: int,
    types.FloatType: float,
    types.DoubleType: float,
    types.DateType: datetime.date,
    types.TimeType: datetime.time,
    types.TimestampType: datetime.datetime,
}
"""The one Python type of most values; those of other types, None among them, are looked at one by one."""


def _check_column(column: CsvColumn, values: Sequence[Any]) -> None:
    if _fits_at_a_glance(column.data_type, values):
        return
    check = column.data_type.check
    for value in values:
        try:
            check(value)
        except TypeMismatchError as error:
            raise TypeMismatchError(
                f"column {column.name!r}: {error.message}", detail=f"Value: {shorten(value)}"
            ) from error
