"""Which rows a DataFrame can hold."""

from __future__ import annotations

from collections.abc import Iterator

from millstream.base.errors import NotSupportedError
from millstream.connectors.staged_parquet import Column
from millstream.formats.row_columns import RowColumns
from millstream.types.datatypes import ArrayType, DataType, MapType, RowType, TimeType

__all__ = ["columns_of"]


def columns_of(row_type: RowType) -> tuple[Column, ...]:
    """Return names and types of a row type's columns.

    Raises:
        ConfigurationError: If a type has no column.
        NotSupportedError: If Spark has no such type.
    """
    RowColumns(row_type)
    for field in row_type:
        if any(isinstance(each, TimeType) for each in _parts(field.data_type)):
            raise NotSupportedError(
                f"column {field.name!r} has the type {field.data_type}: Spark has no type for times of day",
                hint="Map it to text or a number.",
            )
    return tuple((field.name, str(field.data_type)) for field in row_type)


def _parts(data_type: DataType) -> Iterator[DataType]:
    yield data_type
    inner: list[DataType] = []
    if isinstance(data_type, RowType):
        inner = [field.data_type for field in data_type]
    elif isinstance(data_type, ArrayType):
        inner = [data_type.element_type]
    elif isinstance(data_type, MapType):
        inner = [data_type.key_type, data_type.value_type]
    for each in inner:
        yield from _parts(each)
