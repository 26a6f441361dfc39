"""Records of a declared type, or of none, as Arrow's record batches.

Rows have the names of their fields, tuples f0, f1, ...; other values are in one column named "value". Nothing is kept
of the kinds of rows.
"""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

from millstream.base.errors import TypeMismatchError, shorten
from millstream.formats.tabulator import Tabulator
from millstream.types.arrow_typeinfo import ArrowForm, arrow_form
from millstream.types.arrow_types import cast_plain, load_arrow
from millstream.types.arrow_values import is_bare, records_of
from millstream.types.row import Row
from millstream.types.typeinfo import (
    ExternalTypeInfo,
    PickledBytesTypeInfo,
    RowTypeInfo,
    TupleTypeInfo,
    TypeInformation,
)

__all__ = ["RecordColumns", "named"]

_BARE = "value"
_DECLARE = (
    "Declare the type of the records, as in map(f, Types.ROW_NAMED([...], [...])), or map them to values that "
    "have one."
)


@dataclass(frozen=True, slots=True)
class _Layout:
    """Which columns records have.

    Attributes:
        names: Of the columns.
        forms: How values are in each.
        tabulator: Takes records apart; None if they are the values of the only column.
    """

    names: tuple[str, ...]
    forms: tuple[ArrowForm, ...]
    tabulator: Tabulator | None

    @staticmethod
    def of_fields(names: Sequence[str], types: Sequence[TypeInformation | None]) -> _Layout:
        return _Layout(tuple(names), tuple(map(arrow_form, types)), Tabulator(tuple(names)))

    @staticmethod
    def of_type(type_info: TypeInformation) -> _Layout:
        if isinstance(type_info, ExternalTypeInfo):
            return _Layout.of_type(type_info._type_info)
        if isinstance(type_info, RowTypeInfo):
            return _Layout.of_fields(type_info.get_field_names(), type_info.get_field_types())
        if isinstance(type_info, TupleTypeInfo):
            types = type_info.get_field_types()
            return _Layout.of_fields(_numbered(len(types)), types)
        return _Layout((_BARE,), (arrow_form(type_info),), None)

    @staticmethod
    def of_records(records: Sequence[Any]) -> _Layout:
        names = {_field_names(record) for record in records}
        common = names.pop() if len(names) == 1 else None
        if common is None:
            return _Layout((_BARE,), (arrow_form(None),), None)
        return _Layout.of_fields(common, [None] * len(common))


class RecordColumns:
    """Makes record batches of records, all with the same schema.

    Args:
        type_info: Type of the records; None if it was not declared. What is not declared is as the first records are.

    Raises:
        ConfigurationError: If pyarrow is not installed.
    """

    def __init__(self, type_info: TypeInformation | None) -> None:
        self._pa = load_arrow("columns")
        self._schema: Any = None
        self._layout: _Layout | None = None
        if type_info is not None and not isinstance(type_info, PickledBytesTypeInfo):
            self._layout = _Layout.of_type(type_info)

    @property
    def schema(self) -> Any:
        """Of the batches; None as long as it depends on records and there were none."""
        if self._schema is None and self._layout is not None:
            kinds = [form.kind for form in self._layout.forms]
            if None not in kinds:
                self._schema = self._schema_of(self._layout, kinds)
        return self._schema

    def batch(self, records: Sequence[Any]) -> Any:
        """Return a record batch of some records.

        Raises:
            TypeMismatchError: If a record does not fit the type, or the records before; names the column.
        """
        layout = self._layout or _Layout.of_records(records)
        if not layout.names:  # what counts is how many there are
            structs = self._pa.array([{}] * len(records), self._pa.struct([]))
            return self._pa.RecordBatch.from_struct_array(structs)
        known = self.schema
        columns = [records] if layout.tabulator is None else layout.tabulator.columns(records)
        arrays = [
            self._array(
                layout.names[place],
                layout.forms[place],
                layout.forms[place].kind if known is None else known.field(place).type,
                column,
            )
            for place, column in enumerate(columns)
        ]
        schema = known or self._schema_of(layout, [array.type for array in arrays])
        if records:
            self._layout, self._schema = layout, schema
        return self._pa.record_batch(arrays, schema=schema)

    def stored(self, data: Any) -> Any:
        """Return records that are columns already as a batch of the schema, which must be known.

        Args:
            data: A `pyarrow.RecordBatch`.

        Raises:
            TypeMismatchError: If a record does not fit the type; names the column.
        """
        plain = named(data)
        if plain.schema.names == self.schema.names:
            with suppress(self._pa.ArrowException):  # what cannot be cast may be rounded, or is named
                arrays = [
                    cast_plain(column, kind)
                    for column, kind in zip(plain.columns, self.schema.types, strict=True)
                ]
                return self._pa.record_batch(arrays, schema=self.schema)
        return self.batch(records_of(data))

    def _schema_of(self, layout: _Layout, kinds: Sequence[Any]) -> Any:
        return self._pa.schema(list(zip(layout.names, kinds, strict=True)))

    def _array(self, name: str, form: ArrowForm, kind: Any, values: Sequence[Any]) -> Any:
        pa = self._pa
        try:
            encoded = values if form.encode is None else [form.encoded(value) for value in values]
            return pa.array(encoded, kind)
        except (pa.ArrowException, OverflowError, TypeError, ValueError) as error:
            kinds = sorted({type(value).__name__ for value in values if value is not None})
            raise TypeMismatchError(
                f"column {name!r}: values of type {' and '.join(kinds)} do not fit "
                f"{'one Arrow type' if kind is None else f'Arrow type {kind}'}: {shorten(values[:3])}",
                detail=str(error),
                hint=None if form.kind is not None else _DECLARE,
            ) from error


def named(data: Any) -> Any:
    """Return a record batch with the name that a column of bare values has here, whatever its source called it."""
    bare = data.rename_columns([_BARE]) if is_bare(data.schema) else data
    return bare.replace_schema_metadata()


def _field_names(record: Any) -> tuple[str, ...] | None:
    """Return the names of the columns of one record; None if it is a bare value."""
    if isinstance(record, Row):
        return record._fields or _numbered(len(record))
    return _numbered(len(record)) if isinstance(record, tuple) else None


def _numbered(count: int) -> tuple[str, ...]:
    return tuple(f"f{place}" for place in range(count))
