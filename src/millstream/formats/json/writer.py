"""Files of JSON lines written from rows."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from json.encoder import encode_basestring
from typing import Any, BinaryIO

from millstream.base.errors import ConfigurationError, TypeMismatchError
from millstream.formats.column_values import check_column, double_texts
from millstream.formats.json.values import text_writer
from millstream.formats.tabulator import Tabulator
from millstream.spi.serialization import BulkWriter, BulkWriterFactory
from millstream.types import datatypes as types
from millstream.types.arrow_values import values_of

__all__ = ["JsonLinesBulkWriters"]


class JsonLinesBulkWriters:
    """Makes writers of files with one JSON object a line for `FileSink.for_bulk_format` (millstream's own).

    Example:
        >>> from millstream.table import DataTypes
        >>> from millstream.datastream.connectors.file_system import FileSink
        >>> from millstream.datastream.formats.json import JsonLinesBulkWriters
        >>> city = DataTypes.ROW([DataTypes.FIELD("city", DataTypes.STRING())])
        >>> sink = FileSink.for_bulk_format("out/cities", JsonLinesBulkWriters.for_schema(city)).build()
    """

    @staticmethod
    def for_schema(schema: types.RowType) -> BulkWriterFactory:
        """Write rows, tuples, lists or dicts of the row type, None as `null`.

        Timestamps are written as `2013-01-31 05:15:00`, moments in UTC with a `Z` behind them, byte arrays as base64.

        Raises:
            ConfigurationError: If the schema has no fields, or a type has no JSON form.
        """
        if not isinstance(schema, types.RowType) or not schema.fields:
            raise ConfigurationError(
                f"JSON lines were given the schema {schema!r}",
                hint="Use DataTypes.ROW([DataTypes.FIELD(...)]).",
            )
        for kind in schema.field_types():
            text_writer(kind)
        return _JsonLinesWriterFactory(schema)


class _JsonLinesWriterFactory(BulkWriterFactory):
    def __init__(self, schema: types.RowType) -> None:
        self._schema = schema

    def create(self, file: BinaryIO) -> BulkWriter:
        return _JsonLinesWriter(file, self._schema)


class _JsonLinesWriter(BulkWriter):
    def __init__(self, file: BinaryIO, schema: types.RowType) -> None:
        self._file = file
        self._fields = list(schema)
        names = schema.field_names()
        self._tabulator = Tabulator(tuple(names))
        self._renderers = [_column_renderer(field.data_type) for field in schema]
        marks = [encode_basestring(name).replace("%", "%%") for name in names]
        self._line = "{" + ",".join(f"{mark}:%s" for mark in marks) + "}\n"

    def add_elements(self, elements: Sequence[Any]) -> None:
        self._write(self._tabulator.columns(elements))

    def add_columns(self, batch: Any) -> None:
        self._write(list(map(values_of, self._tabulator.arrays(batch))))

    def finish(self) -> None:
        """Nothing is buffered, and there is no end mark."""

    def _write(self, columns: Sequence[Sequence[Any]]) -> None:
        texts = []
        for field, render, values in zip(self._fields, self._renderers, columns, strict=True):
            check_column(field.name, field.data_type, values)
            texts.append(render(values))
        lines = "".join(map(self._line.__mod__, zip(*texts, strict=True)))
        try:
            self._file.write(lines.encode())
        except UnicodeEncodeError as error:
            raise TypeMismatchError("a text holds half a surrogate pair", detail=str(error)) from error


def _column_renderer(data_type: types.DataType) -> Callable[[Sequence[Any]], Sequence[str]]:
    write = text_writer(data_type)

    def render(values: Sequence[Any]) -> Sequence[str]:
        return ["null" if value is None else write(value) for value in values]

    def render_doubles(values: Sequence[Any]) -> Sequence[str]:
        texts = double_texts(values, "null")
        return texts if _NOT_FINITE.isdisjoint(texts) else render(values)

    return render_doubles if type(data_type) is types.DoubleType else render


_NOT_FINITE = {"NaN", "Infinity", "-Infinity"}
