"""Conditions of DEFINE as the automaton asks them.

A condition of the row alone is computed over columns, once for all rows that the watermark passed: a row carries what
it says. One that looks at other rows of the match is asked for each partial match: its navigations are read off the
match's edges, then the expression is computed of plain values (`scalars`), or, where it has parts that are not there,
by the same program that computes columns, over one row.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from millstream.operators.base import OperatorContext
from millstream.operators.patterns.automaton import Access
from millstream.table.expressions.rex import RowExpression, RowSchema, inputs_of, map_inputs
from millstream.table.plan.matching import Navigation
from millstream.table.runtime.arrays import arrow_types
from millstream.table.runtime.evaluation import Expressions
from millstream.table.runtime.match.match_values import Row, value_of
from millstream.table.runtime.match.plain_values import column_of_plain
from millstream.table.runtime.match.scalars import compile_scalar

__all__ = ["LookingBack", "Truth"]

Places = dict[str, frozenset[int]]


class Truth:
    """A condition of the row alone, which the row carries.

    Attributes:
        place: Where.
    """

    def __init__(self, place: int) -> None:
        self.place = place

    def __call__(self, row: Row) -> bool:
        """Return what it says."""
        return bool(row[self.place])


class LookingBack:
    """A condition that looks at other rows of the match.

    Args:
        variable: Whose condition it is: the row that is looked at counts as the last of it.
        condition: Over the input's columns, then navigations.
        schema: Of the input.
        navigations: All of the clause.
        kept: Where a row has a column.
        zone: The session's time zone.

    Attributes:
        places: Positions of the automaton by variable; set once there is one.
    """

    def __init__(
        self,
        variable: str,
        condition: RowExpression,
        schema: RowSchema,
        navigations: Sequence[Navigation],
        kept: dict[int, int],
        zone: str,
    ) -> None:
        self.places: Places = {}
        self._variable = variable
        width = len(schema)
        used = sorted(inputs_of(condition))
        self._sources: list[Callable[[Row, Any], Any]] = [
            self._column(kept[place]) if place < width else self._navigation(navigations[place - width], kept)
            for place in used
        ]
        types = [schema.types[each] if each < width else navigations[each - width].type for each in used]
        number = {place: index for index, place in enumerate(used)}
        moved = map_inputs(condition, number.__getitem__)
        self._schema = RowSchema(tuple(f"v{index}" for index in range(len(used))), tuple(types))
        self._kinds = arrow_types(self._schema)
        self._scalar = compile_scalar(moved)
        self._program = Expressions((moved,), self._schema, zone) if self._scalar is None else None

    def open(self, context: OperatorContext) -> None:
        """Make ready."""
        if self._program is not None:
            self._program.open(context)

    def close(self) -> None:
        """Close users' functions."""
        if self._program is not None:
            self._program.close()

    def __call__(self, row: Row, access: Access) -> bool:
        """Return whether a row fits behind those that a match has."""
        values = [source(row, access.edge) for source in self._sources]
        if self._scalar is not None:
            return self._scalar(values) is True
        assert self._program is not None
        columns = [column_of_plain([value], kind) for value, kind in zip(values, self._kinds, strict=True)]
        return bool(self._program.holds(columns, 1)[0])

    @staticmethod
    def _column(place: int) -> Callable[[Row, Any], Any]:
        return lambda row, edge: row[place]

    def _navigation(self, navigation: Navigation, kept: dict[int, int]) -> Callable[[Row, Any], Any]:
        place = -1 if navigation.column is None else kept[navigation.column]
        counts = navigation.variable in (self._variable, "")

        back = navigation.offset - counts
        variable = navigation.variable

        def current(row: Row, edge: Any) -> Any:
            return row[place]

        def last(row: Row, edge: Any) -> Any:
            places = self.places.get(variable, frozenset())
            left = back
            while edge is not None:  # as `_backwards` goes; a generator would cost as much as all else
                if not variable or edge[1] in places:
                    if not left:
                        return edge[2][2][place]
                    left -= 1
                edge = edge[0]
            return None

        def whole(row: Row, edge: Any) -> Any:
            rows = list(self._backwards(edge, navigation.variable))
            rows.reverse()
            if counts:
                rows.append(row)
            return value_of(navigation, rows, place)

        if navigation.function != "LAST":
            return whole
        return current if back < 0 else last

    def _backwards(self, edge: Any, variable: str) -> Any:
        """Yield the rows of a variable, of all with none, last to first."""
        places = self.places.get(variable, frozenset())
        while edge is not None:
            if not variable or edge[1] in places:
                yield edge[2][2]
            edge = edge[0]
