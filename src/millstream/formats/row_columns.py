"""From rows to Arrow's columns, by their declared types."""

from __future__ import annotations

import datetime
from collections.abc import Callable, Sequence
from typing import Any

from millstream.base.errors import TypeMismatchError
from millstream.base.time import Instant
from millstream.formats.tabulator import Tabulator
from millstream.types import datatypes as types
from millstream.types.arrow_types import Form, arrow_type, load_arrow
from millstream.types.arrow_values import values_of

__all__ = ["RowColumns"]

_Encode = Callable[[Any], Any]


class RowColumns:
    """Makes Arrow columns of rows, as many at a time as there are; one for all files of a sink.

    Attributes:
        schema: Of the batches.
    """

    def __init__(self, row_type: types.RowType, form: Form = Form.STORED) -> None:
        """Prepare.

        Args:
            row_type: Names and types.
            form: What the columns hold; None is looked for in what is to be stored.

        Raises:
            ConfigurationError: If pyarrow is not installed, or a type has no Arrow type.
        """
        self._pa = pa = load_arrow("columns")
        self._tabulator = Tabulator(tuple(row_type.field_names()))
        self._fields = list(row_type)
        self._is_stored = form is Form.STORED
        self._encoders = [_encoder(field.data_type, form) for field in row_type]
        self.schema = pa.schema(
            [
                pa.field(
                    field.name,
                    arrow_type(field.data_type, form),
                    field.data_type.nullable or not self._is_stored,
                )
                for field in row_type
            ]
        )

    def batch(self, elements: Sequence[Any]) -> Any:
        """Return a record batch of rows.

        Raises:
            TypeMismatchError: If a record does not fit the row type.
        """
        columns = self._tabulator.columns(elements)
        arrays = [self.array(place, values) for place, values in enumerate(columns)]
        return self._pa.record_batch(arrays, schema=self.schema)

    def stored(self, batch: Any) -> Any:
        """Return a record batch in the types of the columns, which holds what one made of its rows would.

        Raises:
            TypeMismatchError: If a record does not fit the row type.
        """
        arrays = [
            self._checked(place, array)
            if array.type == self.schema.field(place).type
            else self.array(place, values_of(array))
            for place, array in enumerate(self._tabulator.arrays(batch))
        ]
        return self._pa.record_batch(arrays, schema=self.schema)

    def array(self, place: int, values: Sequence[Any]) -> Any:
        """Return the values of one column as an array.

        Raises:
            TypeMismatchError: If one does not fit its type.
        """
        pa, field, encode = self._pa, self._fields[place], self._encoders[place]
        try:
            encoded = values if encode is None else [None if v is None else encode(v) for v in values]
            array = pa.array(encoded, self.schema.field(place).type)
        except (pa.ArrowException, OverflowError, TypeError, ValueError) as error:
            for value in values:
                _check_value(field, value)
            raise TypeMismatchError(
                f"column {field.name!r}: values do not fit type {field.data_type}", detail=str(error)
            ) from error
        return self._checked(place, array)

    def _checked(self, place: int, array: Any) -> Any:
        field = self._fields[place]
        if array.null_count and self._is_stored and not field.data_type.nullable:
            raise TypeMismatchError(f"column {field.name!r}: value None does not fit type {field.data_type}")
        return array


def _encoder(data_type: types.DataType, form: Form) -> _Encode | None:
    """Return what makes pyarrow's value of one of a type that is not None; None if that is the value itself."""

    def inner(part: types.DataType) -> _Encode | None:
        return _encoder(part, form)

    if isinstance(data_type, types.MapType):
        key, item = inner(data_type.key_type), inner(data_type.value_type)
        return lambda value: [(_encoded(key, k), _encoded(item, v)) for k, v in value.items()]
    if isinstance(data_type, types.ArrayType):
        element = inner(data_type.element_type)
        return None if element is None else lambda value: [_encoded(element, each) for each in value]
    if isinstance(data_type, types.RowType):
        return _row_encoder(data_type, [inner(part) for part in data_type.field_types()])
    if isinstance(data_type, types.DecimalType) and form is Form.STORED:
        return data_type.rounded
    if isinstance(data_type, types.LocalZonedTimestampType) and form is Form.STORED:
        return _moment
    return None


def _row_encoder(row_type: types.RowType, encoders: Sequence[_Encode | None]) -> _Encode:
    names = tuple(row_type.field_names())
    tabulator = Tabulator(names)

    def encode(row: Any) -> dict[str, Any]:
        parts = zip(names, encoders, tabulator.fields(row), strict=True)
        return {name: _encoded(each, part) for name, each, part in parts}

    return encode


def _encoded(encode: _Encode | None, value: Any) -> Any:
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
