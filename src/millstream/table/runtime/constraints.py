"""Checks of rows before a sink: NOT NULL, and lengths of texts and bytes."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from millstream.base.errors import SinkError, shorten
from millstream.table.runtime.arrays import arrow_types
from millstream.table.runtime.row_operator import RowOperator
from millstream.types.datatypes import BinaryType, CharType
from millstream.types.numpy_views import as_numpy

if TYPE_CHECKING:
    from millstream.table.runtime.row_specs import SinkConstraintSpec

__all__ = ["NULL_ROWS_DROPPED", "SinkConstraintOperator"]

NULL_ROWS_DROPPED = "numNullRecordsDropped"
"""Counter of rows with a NULL in a column that may have none, where these are left out."""


class SinkConstraintOperator(RowOperator):
    """Leaves rows out, cuts values, or fails, as the settings say."""

    def __init__(self, spec: SinkConstraintSpec) -> None:
        super().__init__(arrow_types(spec.input))
        self._spec = spec

    def compute(
        self, columns: list[pa.Array], kinds: Any | None, count: int
    ) -> tuple[list[pa.Array], Any | None]:
        """Return the rows that may be written, as they may be written.

        Raises:
            SinkError: If a value may not be written.
        """
        places = None
        if any(columns[place].null_count for place in self._spec.not_null):
            places = self._not_null(columns, count)
            columns = [column.take(pa.array(places)) for column in columns]
        for place in self._spec.lengths:
            columns[place] = self._fitted(place, columns[place])
        return columns, places

    def _not_null(self, columns: list[pa.Array], count: int) -> Any:
        valid = np.ones(count, bool)
        for place in self._spec.not_null:
            if not columns[place].null_count:
                continue
            if not self._spec.drop:
                name = self._spec.input.names[place]
                row = columns[place].is_null().index(True).as_py()
                seen = ", ".join(shorten(column[row].as_py()) for column in columns)
                raise SinkError(
                    f"column {name!r} is NOT NULL, and a row has NULL there: ({seen})",
                    hint="Leave such rows out with table.exec.sink.not-null-enforcer = DROP, or with a WHERE.",
                )
            valid &= as_numpy(columns[place].is_valid())
        places = np.flatnonzero(valid)
        self.count(NULL_ROWS_DROPPED, count - len(places))
        return places

    def _fitted(self, place: int, column: pa.Array) -> pa.Array:
        kind = self._spec.input.types[place]
        length = kind.length  # type: ignore[attr-defined]
        is_text = pa.types.is_string(column.type)
        lengths = pc.utf8_length(column) if is_text else pc.binary_length(column)
        longest = pc.max(lengths).as_py()
        if longest is not None and longest > length:
            if self._spec.fail_lengths:
                row = pc.greater(lengths, length).index(True).as_py()
                raise SinkError(
                    f"column {self._spec.input.names[place]!r} is {kind}, and a row has {shorten(column[row].as_py())} "
                    "there",
                    detail=f"It has {lengths[row].as_py()}, and {length} is the most.",
                    hint="Cut values with table.exec.sink.type-length-enforcer = TRIM_PAD.",
                )
            slice_of = pc.utf8_slice_codeunits if is_text else pc.binary_slice
            column = slice_of(column, 0, length)
        if isinstance(kind, CharType):
            return pc.utf8_rpad(column, length)
        if isinstance(kind, BinaryType):
            padded = [None if each is None else each.ljust(length, b"\0") for each in column.to_pylist()]
            return pa.array(padded, column.type)
        return column
