"""Decoded records by column."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from functools import cached_property
from typing import Any

from millstream.formats.row_columns import RowColumns
from millstream.types.arrow_types import Form
from millstream.types.arrow_values import values_of
from millstream.types.datatypes import RowType
from millstream.types.row import rows_of

__all__ = ["BlockLayout", "ColumnBlock", "NestedColumn", "column_values"]


class BlockLayout:
    """What the blocks of one file have in common.

    Attributes:
        row_type: Names and types of the columns.
        fields: Names of the rows' fields.
    """

    def __init__(self, row_type: RowType, form: Form = Form.PARSED) -> None:
        self.row_type = row_type
        self._form = form
        self.fields = tuple(row_type.field_names())

    @cached_property
    def columns(self) -> RowColumns:
        """What makes arrays of values; needs pyarrow, unlike rows.

        Raises:
            ConfigurationError: If pyarrow is not installed.
        """
        return RowColumns(self.row_type, self._form)


class NestedColumn(ABC):
    """Rows, lists or dicts that are taken apart, made into values or into an array when that is asked for."""

    @abstractmethod
    def __len__(self) -> int:
        """Return the number of values."""

    @abstractmethod
    def values(self) -> list[Any]:
        """Return the values."""

    @abstractmethod
    def array(self, kind: Any) -> Any:
        """Return the values as an array of an Arrow type."""


def column_values(column: Any) -> list[Any]:
    """Return the values of an Arrow array, a nested column or a list of them."""
    if isinstance(column, NestedColumn):
        return column.values()
    return column if isinstance(column, list) else values_of(column)


class ColumnBlock:
    """Records by column, each an Arrow array or Python values; made into the other when that is asked for.

    Args:
        layout: Names and types.
        columns: One array, list or nested column for each.
        lines: How many line breaks they were made of, if that was counted.
    """

    def __init__(self, layout: BlockLayout, columns: Sequence[Any], lines: int | None = None) -> None:
        self._layout = layout
        self._columns: Sequence[Any] = columns
        self.lines = lines

    def __len__(self) -> int:
        return len(self._columns[0]) if self._columns else 0

    @cached_property
    def values(self) -> list[list[Any]]:
        """The values of each column."""
        return [column_values(column) for column in self._columns]

    @cached_property
    def _batch(self) -> Any:
        made = self._layout.columns
        arrays = [
            column.array(made.schema.field(place).type)
            if isinstance(column, NestedColumn)
            else made.array(place, column)
            if isinstance(column, list)
            else column
            for place, column in enumerate(self._columns)
        ]
        import pyarrow as pa  # optional: whoever has a schema has it

        self._columns = arrays  # the values, many objects, go
        return pa.record_batch(arrays, schema=made.schema)

    def rows(self, first: int, last: int) -> list[Any]:
        """Return the records `[first, last)` as rows."""
        columns = self.values
        if (first, last) != (0, len(self)):
            columns = [column[first:last] for column in columns]
        return rows_of(self._layout.fields, zip(*columns, strict=True))

    def batch(self, first: int, last: int) -> Any:
        """Return the records `[first, last)` as a `pyarrow.RecordBatch`."""
        return self._batch.slice(first, last - first)
