"""A clause of MATCH_RECOGNIZE, ready to run: its pattern for the automaton, its rows, its measures."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import chain
from typing import Any

import numpy as np
import pyarrow as pa

from millstream.operators.base import OperatorContext
from millstream.operators.patterns.automaton import PatternAutomaton
from millstream.operators.patterns.codes import MOST_TOLD, UNTOLD, codes_of
from millstream.operators.patterns.parts import (
    ANYTHING,
    Condition,
    Contiguity,
    Part,
    PatternSpec,
    Quantity,
    Skip,
    SkipTo,
)
from millstream.table.expressions.rex import RowSchema, inputs_of, map_inputs
from millstream.table.functions.types import arrow_type
from millstream.table.plan.matching import MatchClause, MatchPart
from millstream.table.runtime.arrays import arrow_types
from millstream.table.runtime.evaluation import Expressions
from millstream.table.runtime.match.match_conditions import LookingBack, Truth
from millstream.table.runtime.match.match_values import Row, value_of
from millstream.table.runtime.match.plain_values import column_of_plain, plain_column
from millstream.table.runtime.times import times_of

__all__ = ["CompiledMatch"]

_SKIPS = {
    "TO NEXT ROW": SkipTo.NEXT,
    "PAST LAST ROW": SkipTo.PAST_LAST,
    "TO FIRST": SkipTo.FIRST,
    "TO LAST": SkipTo.LAST,
}


class CompiledMatch:
    """A clause, ready to run.

    Args:
        clause: The clause.
        schema: Of the input.
        zone: The session's time zone.

    Attributes:
        pattern: For the automaton.
        kinds: Arrow types of the measures.
    """

    def __init__(self, clause: MatchClause, schema: RowSchema, zone: str) -> None:
        self._clause = clause
        self._schema = schema
        width = len(schema)
        simple = [
            each for each in clause.defines if all(place < width for place in inputs_of(each.condition))
        ]
        looking = [each for each in clause.defines if each not in simple]
        self._stored = sorted(
            {each.column for each in clause.navigations if each.column is not None}
            | {place for each in looking for place in inputs_of(each.condition) if place < width}
        )
        self._kept = {column: place for place, column in enumerate(self._stored, 1)}
        first_truth = 1 + len(self._stored)
        self._truths = Expressions([each.condition for each in simple], schema, zone)
        self._has_truths = bool(simple)
        self._looking = [
            LookingBack(each.variable, each.condition, schema, clause.navigations, self._kept, zone)
            for each in looking
        ]
        conditions = {
            each.variable: Condition(Truth(first_truth + place)) for place, each in enumerate(simple)
        }
        conditions |= {
            each.variable: Condition(test, looks_back=True)
            for each, test in zip(looking, self._looking, strict=True)
        }
        self.pattern = PatternSpec(
            tuple(_part(each, conditions.get(each.variable)) for each in clause.parts),
            clause.within_ms,
            Skip(_SKIPS[clause.skip], clause.skip_variable, strict=bool(clause.skip_variable)),
        )
        self._tests: list[Any] = []
        navigations = RowSchema(
            tuple(f"n{place}" for place in range(len(clause.navigations))),
            tuple(each.type for each in clause.navigations),
        )
        self._navigation_kinds = arrow_types(navigations)
        measures = [map_inputs(each, lambda place: place - width) for each in clause.measures]
        self._measures = Expressions(measures, navigations, zone)
        self.kinds = [arrow_type(each.type) for each in clause.measures]

    def place_in(self, automaton: PatternAutomaton) -> None:
        """Learn the positions and conditions of the automaton that runs the pattern."""
        table = automaton.table
        places: dict[str, set[int]] = {}
        for index, position in enumerate(table.positions.positions):
            places.setdefault(position.name, set()).add(index)
        for each in self._looking:
            each.places = {name: frozenset(found) for name, found in places.items()}
        self._tests = [table.tests[number] for number in table.simple]

    def open(self, context: OperatorContext) -> None:
        """Make expressions ready."""
        self._truths.open(context)
        self._measures.open(context)
        for each in self._looking:
            each.open(context)

    def close(self) -> None:
        """Close users' functions."""
        self._truths.close()
        self._measures.close()
        for each in self._looking:
            each.close()

    # Rows

    def rows(self, columns: list[pa.Array], times: Any) -> tuple[list[Row], Sequence[int]]:
        """Return rows as the automaton takes them, and their numbers (`operators.patterns.codes`).

        Args:
            columns: The input's.
            times: In milliseconds.
        """
        count = len(times)
        parts: list[list[Any]] = [times.tolist()]
        parts += [plain_column(columns[place]) for place in self._stored]
        if self._has_truths:
            truths = self._truths.evaluate(columns, count)
            parts += [[each is True for each in column.to_pylist()] for column in truths]
        rows = list(zip(*parts, strict=True))
        if len(self._tests) > MOST_TOLD:
            return rows, [UNTOLD] * count
        always = [True] * count
        answers = [parts[test.place] if isinstance(test, Truth) else always for test in self._tests]
        return rows, codes_of(answers, count)

    # Measures

    def measures(self, matches: Sequence[dict[str, list[Row]]]) -> list[pa.Array]:
        """Return a column for each measure.

        Args:
            matches: The rows of each match, by variable.
        """
        columns: list[pa.Array] = []
        for navigation, kind in zip(self._clause.navigations, self._navigation_kinds, strict=True):
            place = -1 if navigation.column is None else self._kept[navigation.column]
            values = [value_of(navigation, _rows_of(navigation.variable, match), place) for match in matches]
            if navigation.function == "ROWTIME":
                columns.append(times_of(np.array(values, np.int64), kind))
            else:
                columns.append(column_of_plain(values, kind))
        return self._measures.evaluate(columns, len(matches))


def _rows_of(variable: str, match: dict[str, list[Row]]) -> Sequence[Row]:
    """Return the rows of a variable, in order; of none those of all, as variables follow each other."""
    return match.get(variable, ()) if variable else list(chain.from_iterable(match.values()))


def _part(part: MatchPart, condition: Condition | None) -> Part:
    """Return a part of the pattern: rows lie right behind each other."""
    choice = part.most is None or part.least != part.most
    plain_option = (part.least, part.most) == (0, 1)
    quantity = Quantity(
        max(part.least, 1),
        part.most,
        optional=part.least == 0,
        greedy=part.greedy and choice and not plain_option,
        inner=Contiguity.STRICT,
    )
    return Part(part.variable, condition or Condition(ANYTHING.test), Contiguity.STRICT, quantity)
