"""Which rows of a table are read: conditions on columns, all of which have to hold.

A condition is `(column, operator, value)`. Null fulfils none but `is null`, as in SQL. Formats leave out files by the
same conditions where what is known of a file shows that none of its rows fits; rows that are left are looked at here.
"""

from __future__ import annotations

import datetime
from collections.abc import Sequence
from dataclasses import dataclass
from decimal import Decimal
from typing import Any

from millstream.base.errors import ConfigurationError, shorten
from millstream.types.arrow_types import load_arrow

__all__ = ["Condition", "Conditions", "parse_conditions"]

_COMPARISONS = {
    "=": "equal",
    "!=": "not_equal",
    "<": "less",
    "<=": "less_equal",
    ">": "greater",
    ">=": "greater_equal",
}
_SETS = ("in", "not in")
_NULLS = ("is null", "is not null")
_VALUES = (str, int, float, bool, bytes, Decimal, datetime.date, datetime.time)


@dataclass(frozen=True, slots=True)
class Condition:
    """What a column has to be.

    Attributes:
        column: Its name.
        operator: One of `=`, `!=`, `<`, `<=`, `>`, `>=`, `in`, `not in`, `is null`, `is not null`.
        value: What it is compared with: a value, a tuple of them, or None.
    """

    column: str
    operator: str
    value: Any = None

    def __str__(self) -> str:
        return " ".join(filter(None, (self.column, self.operator, self._shown())))

    def _shown(self) -> str:
        return "" if self.operator in _NULLS else shorten(self.value)

    def mask(self, column: Any) -> Any:
        """Return for each value of a column whether it fulfils the condition: an array of booleans, or null for no.

        Raises:
            pyarrow.ArrowException: If the value does not have the column's type.
        """
        pa = load_arrow("filters")
        import pyarrow.compute as pc  # optional: whoever has pyarrow has it

        if self.operator == "is null":
            return pc.is_null(column)
        if self.operator == "is not null":
            return pc.is_valid(column)
        if self.operator in _SETS:
            found = pc.is_in(column, value_set=pa.array([_plain(each) for each in self.value], column.type))
            chosen = found if self.operator == "in" else pc.invert(found)
            return pc.and_(chosen, pc.is_valid(column))
        return getattr(pc, _COMPARISONS[self.operator])(column, pa.scalar(_plain(self.value), column.type))


@dataclass(frozen=True, slots=True)
class Conditions:
    """All have to hold; none holds for every row."""

    each: tuple[Condition, ...] = ()

    def __bool__(self) -> bool:
        return bool(self.each)

    def __str__(self) -> str:
        return " and ".join(map(str, self.each))

    @property
    def columns(self) -> tuple[str, ...]:
        """The columns that are looked at, each once."""
        return tuple(dict.fromkeys(condition.column for condition in self.each))

    def mask(self, batch: Any) -> Any:
        """Return for each row of a record batch whether it is wanted; there has to be a condition."""
        import pyarrow.compute as pc  # optional: whoever has a batch has it

        whole = None
        for condition in self.each:
            one = condition.mask(batch.column(batch.schema.get_field_index(condition.column)))
            whole = one if whole is None else pc.and_kleene(whole, one)
        return pc.fill_null(whole, False)

    def check(self, schema: Any) -> None:
        """See whether a table has the columns, and the values fit them.

        Args:
            schema: Of the table's columns, an Arrow schema.

        Raises:
            ConfigurationError: If not.
        """
        pa = load_arrow("filters")
        for condition in self.each:
            place = schema.get_field_index(condition.column)
            if place < 0:
                raise ConfigurationError(
                    f"the filter names column {condition.column!r}, which the table does not have",
                    detail=f"Its columns: {', '.join(schema.names)}.",
                )
            kind = schema.field(place).type
            try:
                condition.mask(pa.array([None], kind))
            except (pa.ArrowException, TypeError, ValueError, OverflowError) as error:
                raise ConfigurationError(
                    f"the filter {str(condition)!r} does not fit column {condition.column!r} of the type {kind}",
                    detail=str(error).partition("\n")[0],
                ) from error


def parse_conditions(conditions: Sequence[Any]) -> Conditions:
    """Return what a program said: tuples of column, operator and value.

    >>> str(parse_conditions([("cents", ">", 5), ("shop", "in", ["north", "south"])]))
    "cents > 5 and shop in ('north', 'south')"

    Raises:
        ConfigurationError: If one is none.
    """
    return Conditions(tuple(_parse(each) for each in conditions))


def _parse(said: Any) -> Condition:
    hint = 'Such as ("cents", ">", 5), ("shop", "in", ["north", "south"]) or ("day", "is not null").'
    if not isinstance(said, tuple) or len(said) not in (2, 3) or not isinstance(said[0], str):
        raise ConfigurationError(f"a filter is {shorten(said)}, which is no condition", hint=hint)
    operator = str(said[1]).lower()
    if operator not in (*_COMPARISONS, *_SETS, *_NULLS):
        raise ConfigurationError(f"a filter has the operator {said[1]!r}, which there is not", hint=hint)
    if (operator in _NULLS) != (len(said) == 2):
        raise ConfigurationError(f"the filter {shorten(said)} has a value too many or too few", hint=hint)
    if operator in _NULLS:
        return Condition(said[0], operator)
    if operator not in _SETS:
        return Condition(said[0], operator, _checked(said[2], hint))
    if isinstance(said[2], (str, bytes)) or not hasattr(said[2], "__iter__"):
        raise ConfigurationError(f"the filter {shorten(said)} has no list of values", hint=hint)
    return Condition(said[0], operator, tuple(_checked(value, hint) for value in said[2]))


def _checked(value: Any, hint: str) -> Any:
    if not isinstance(value, _VALUES):
        raise ConfigurationError(f"a filter compares with {shorten(value)}, which no column holds", hint=hint)
    return value


def _plain(value: Any) -> Any:
    """Return a value as pyarrow takes it: a moment in UTC."""
    if isinstance(value, datetime.datetime) and value.tzinfo is not None:
        return value.astimezone(datetime.UTC)
    return value
