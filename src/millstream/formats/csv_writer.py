"""CSV files written from rows."""

from __future__ import annotations

import csv
import io
from collections.abc import Callable, Sequence
from typing import Any, BinaryIO

from millstream.common.datatypes import ArrayType, BooleanType
from millstream.common.errors import ConfigurationError, TypeMismatchError, shorten
from millstream.common.serialization import BulkWriter, BulkWriterFactory
from millstream.formats.csv_schema import CsvColumn, CsvSchema
from millstream.formats.rows import Tabulator

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
        self._renderers = [_renderer(column, schema.null_value or "") for column in schema.columns]
        if schema.use_header:
            self._write([names])

    def add_elements(self, elements: Sequence[Any]) -> None:
        columns = self._tabulator.columns(elements)
        null = self._schema.null_value or ""
        texts = []
        for column, render, values in zip(self._schema.columns, self._renderers, columns, strict=True):
            _check_column(column, values)
            if render is None:
                texts.append([null if value is None else value for value in values])
            else:
                texts.append([null if value is None else render(value) for value in values])
        self._write(zip(*texts, strict=True))

    def finish(self) -> None:
        """Nothing is buffered and CSV has no end mark."""

    def _write(self, rows: Any) -> None:
        buffer = io.StringIO(newline="")
        try:
            csv.writer(buffer, **self._schema.dialect()).writerows(rows)
        except csv.Error as error:
            raise TypeMismatchError(
                f"row cannot be written as CSV: {error}",
                hint="Set a quote or an escape character in the schema.",
            ) from error
        self._file.write(buffer.getvalue().encode())


def _renderer(column: CsvColumn, null: str) -> Callable[[Any], Any] | None:
    kind = column.data_type
    if isinstance(kind, BooleanType):
        return _boolean
    if isinstance(kind, ArrayType):
        text = _boolean if isinstance(kind.element_type, BooleanType) else str
        return lambda value: column.array_separator.join(
            null if each is None else text(each) for each in value
        )
    return None


def _boolean(value: Any) -> str:
    return "true" if value else "false"


def _check_column(column: CsvColumn, values: Sequence[Any]) -> None:
    check = column.data_type.check
    for value in values:
        try:
            check(value)
        except TypeMismatchError as error:
            raise TypeMismatchError(
                f"column {column.name!r}: {error.message}", detail=f"Value: {shorten(value)}"
            ) from error
