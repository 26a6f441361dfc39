"""What MATCH_RECOGNIZE says, bound: what the logical and the physical node have in common.

Conditions and measures are over the columns of the input row, followed by **navigations**: values of other rows of the
match, such as the last price of a variable. Number k of them is `InputRef(width of the input + k)`.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace

from millstream.table.expressions.rex import RowExpression, SortKey, inputs_of, map_inputs
from millstream.types.datatypes import DataType

__all__ = ["Define", "MatchClause", "MatchPart", "Navigation"]


@dataclass(frozen=True)
class Navigation:
    """A value of rows that a match has.

    Attributes:
        function: FIRST, LAST, ROWTIME (of the last row), or an aggregate.
        variable: Rows of this variable; empty for all rows.
        column: Place of the input's column; None of ROWTIME and COUNT(*).
        offset: Of FIRST and LAST: so many rows on, or back.
        type: Of the value.
    """

    function: str
    variable: str
    column: int | None
    offset: int
    type: DataType


@dataclass(frozen=True)
class MatchPart:
    """A variable of the pattern.

    Attributes:
        variable: Its name.
        least: At least so many rows.
        most: At most so many; None for any number.
        greedy: Whether as many rows as fit belong to it.
    """

    variable: str
    least: int = 1
    most: int | None = 1
    greedy: bool = True

    @property
    def text(self) -> str:
        """The variable with its quantifier."""
        quantifier = {(1, 1): "", (0, None): "*", (1, None): "+", (0, 1): "?"}.get((self.least, self.most))
        if quantifier is None:
            most = "" if self.most is None else str(self.most)
            quantifier = f"{{{self.least}}}" if self.least == self.most else f"{{{self.least},{most}}}"
        return self.variable + quantifier + ("" if self.greedy or not quantifier else "?")


@dataclass(frozen=True)
class Define:
    """What a row has to be to belong to a variable."""

    variable: str
    condition: RowExpression


@dataclass(frozen=True)
class MatchClause:
    """The clause.

    Attributes:
        partition: Places of the PARTITION BY columns.
        order: The time attribute, ascending, then what orders rows of the same time.
        parts: The pattern: one variable right behind the other.
        skip: `TO NEXT ROW`, `PAST LAST ROW`, `TO FIRST` or `TO LAST`.
        skip_variable: Of the last two.
        within_ms: A match's last row is less than this behind its first; None for any time.
        defines: Conditions of variables; one without fits every row.
        navigations: What conditions and measures read of other rows.
        measures: What a match gives, over navigations.
    """

    partition: tuple[int, ...]
    order: tuple[SortKey, ...]
    parts: tuple[MatchPart, ...]
    skip: str
    skip_variable: str
    within_ms: int | None
    defines: tuple[Define, ...]
    navigations: tuple[Navigation, ...]
    measures: tuple[RowExpression, ...]

    @property
    def pattern_text(self) -> str:
        """The pattern as text."""
        within = "" if self.within_ms is None else f" WITHIN {self.within_ms} ms"
        return f"({' '.join(part.text for part in self.parts)}){within}"

    @property
    def skip_text(self) -> str:
        """Where to go on after a match, as text."""
        return f"SKIP {self.skip} {self.skip_variable}".rstrip()

    def growing(self) -> tuple[str, ...]:
        """Return what may keep rows without end, in words: variables with any number of rows, and no bound on time."""
        if self.within_ms is not None:
            return ()
        return tuple(
            f"variable {part.variable} of PATTERN {self.pattern_text} may take any number of rows, and there is no "
            "WITHIN: state may grow without bound. Write PATTERN (...) WITHIN INTERVAL '1' HOUR, or as long as a match "
            "may take"
            for part in self.parts
            if part.most is None
        )

    def columns(self, width: int) -> frozenset[int]:
        """Return the places of the input's columns that are read, of `width`."""
        used = set(self.partition) | {key.index for key in self.order}
        used |= {each.column for each in self.navigations if each.column is not None}
        for define in self.defines:
            used |= {place for place in inputs_of(define.condition) if place < width}
        return frozenset(used)

    def moved(self, place: Mapping[int, int], old_width: int, new_width: int) -> MatchClause:
        """Return the clause over other places of the same columns."""

        def moved(at: int) -> int:
            return place[at] if at < old_width else at - old_width + new_width

        return replace(
            self,
            partition=tuple(place[each] for each in self.partition),
            order=tuple(replace(key, index=place[key.index]) for key in self.order),
            defines=tuple(
                replace(each, condition=map_inputs(each.condition, moved)) for each in self.defines
            ),
            navigations=tuple(
                each if each.column is None else replace(each, column=place[each.column])
                for each in self.navigations
            ),
            measures=tuple(map_inputs(each, moved) for each in self.measures),
        )
