"""From rows to Arrow's columns, by their declared types."""

from __future__ import annotations

import datetime
from collections.abc import Callable, Sequence
from typing import Any

from millstream.base.errors import TypeMismatchError
from millstream.base.time import Instant
from millstream.formats.arrow_types import arrow_type, load_arrow
from millstream.formats.tabulator import Tabulator
from millstream.types import datatypes as types

__all__ = ["RowColumns"]


class RowColumns:
    """Makes Arrow columns of rows, as many at a time as there are; one for all files of a sink.

    Raises:
        ConfigurationError: From the constructor, if pyarrow is not installed, or a type cannot be written.
    """

    def __init__(self, row_type: types.RowType) -> None:
        self._tabulator = Tabulator(tuple(row_type.field_names()))
        self._columns = [
            (field, arrow_type(field.data_type), _encoder(field.data_type)) for field in row_type
        ]
        pa = load_arrow("columns")
        self.schema = pa.schema(
            [
                pa.field(field.name, arrow_type, field.data_type.nullable)
                for field, arrow_type, _ in self._columns
            ]
        )

    def batch(self, elements: Sequence[Any]) -> Any:
        """Return a record batch.

        Raises:
            TypeMismatchError: If a record does not fit the row type.
        """
        pa = load_arrow("columns")
        columns = self._tabulator.columns(elements)
        arrays = [
            self._array(pa, field, arrow_type, encode, values)
            for (field, arrow_type, encode), values in zip(self._columns, columns, strict=True)
        ]
        return pa.record_batch(arrays, schema=self.schema)

    def _array(
        self,
        pa: Any,
        field: types.RowField,
        arrow_type: Any,
        encode: Callable[[Any], Any] | None,
        values: Sequence[Any],
    ) -> Any:
        try:
            encoded = values if encode is None else [None if v is None else encode(v) for v in values]
            array = pa.array(encoded, arrow_type)
        except (pa.ArrowException, OverflowError, TypeError, ValueError) as error:
            for value in values:
                _check_value(field, value)
            raise TypeMismatchError(
                f"column {field.name!r}: values do not fit type {field.data_type}", detail=str(error)
            ) from error
        if array.null_count and not field.data_type.nullable:
            raise TypeMismatchError(f"column {field.name!r}: value None does not fit type {field.data_type}")
        return array


def _encoder(data_type: types.DataType) -> Callable[[Any], Any] | None:
    """Return what makes pyarrow's value of one of a type; None if that is the value itself."""
    if isinstance(data_type, types.DecimalType):
        return data_type.rounded
    if isinstance(data_type, types.LocalZonedTimestampType):
        return _moment
    if isinstance(data_type, types.MapType):
        key, item = _encoder(data_type.key_type), _encoder(data_type.value_type)
        return lambda value: [(_encoded(key, k), _encoded(item, v)) for k, v in value.items()]
    if isinstance(data_type, types.ArrayType):
        element = _encoder(data_type.element_type)
        return None if element is None else lambda value: [_encoded(element, each) for each in value]
    return None


def _encoded(encode: Callable[[Any], Any] | None, value: Any) -> Any:
    return value if encode is None or value is None else encode(value)


def _moment(value: datetime.datetime | Instant) -> datetime.datetime:
    """Return a moment in UTC; a datetime without zone is in the machine's."""
    if isinstance(value, Instant):
        seconds = datetime.datetime.fromtimestamp(value.seconds, datetime.UTC)
        return seconds.replace(microsecond=value.nanos // 1000)
    return value.astimezone(datetime.UTC)


def _check_value(field: types.RowField, value: Any) -> None:
    try:
        field.data_type.check(value)
    except TypeMismatchError as error:
        raise TypeMismatchError(f"column {field.name!r}: {error.message}") from error
