"""Filters and projections, grouping sets."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa

from millstream.table.runtime.arrays import arrow_types
from millstream.table.runtime.changes import UPDATE_BEFORE
from millstream.table.runtime.evaluation import Expressions
from millstream.table.runtime.row_operator import RowOperator

if TYPE_CHECKING:
    from millstream.table.runtime.row_specs import CalcSpec, ExpandSpec

__all__ = ["CalcOperator", "DropBeforeOperator", "ExpandOperator"]


class CalcOperator(RowOperator):
    """Filters, then computes."""

    def __init__(self, spec: CalcSpec) -> None:
        super().__init__(arrow_types(spec.input), spec.names)
        self._expressions = Expressions(spec.expressions, spec.input, spec.zone, spec.condition)

    def open(self) -> None:
        """Make the expressions ready."""
        self._expressions.open(self.context)

    def close(self) -> None:
        """Close user functions."""
        self._expressions.close()

    def compute(
        self, columns: list[pa.Array], kinds: Any | None, count: int
    ) -> tuple[list[pa.Array], Any | None]:
        """Return the expressions' columns of the rows that the condition keeps."""
        return self._expressions.evaluate_kept(columns, count, self.seen_ms)


class DropBeforeOperator(RowOperator):
    """Leaves out the rows that -U takes back."""

    def __init__(self) -> None:
        super().__init__(None)

    def compute(
        self, columns: list[pa.Array], kinds: Any | None, count: int
    ) -> tuple[list[pa.Array], Any | None]:
        """Return the rows without those of kind -U."""
        if kinds is None:
            return columns, None
        places = np.flatnonzero(np.asarray(kinds) != UPDATE_BEFORE)
        return [column.take(pa.array(places)) for column in columns], places


class ExpandOperator(RowOperator):
    """Gives a copy of each row for each grouping set."""

    def __init__(self, spec: ExpandSpec) -> None:
        super().__init__(arrow_types(spec.input))
        self._spec = spec
        self._absent = [frozenset(spec.keys) - set(kept) for kept in spec.sets]
        last = len(spec.keys) - 1
        self._ids = [
            sum(1 << (last - place) for place, key in enumerate(spec.keys) if key in absent)
            for absent in self._absent
        ]

    def compute(
        self, columns: list[pa.Array], kinds: Any | None, count: int
    ) -> tuple[list[pa.Array], Any | None]:
        """Return all copies, those of a row together."""
        copies = len(self._ids)
        places = np.repeat(np.arange(count), copies)
        indices = pa.array(places)
        given = []
        for place, column in enumerate(columns):
            gone = np.array([place in absent for absent in self._absent])
            if gone.any():
                given.append(column.take(pa.array(places, mask=np.tile(gone, count))))
            else:
                given.append(column.take(indices))
        given.append(pa.array(np.tile(np.array(self._ids, np.int64), count)))
        given += [columns[place].take(indices) for place in self._spec.copies]
        return given, places
