"""Typed expressions over the columns of one input row ("row expressions").

The binder makes them, rewrites move them, the expression compiler computes them over columns. All are immutable and
compare by value. Types are those of `millstream.types.datatypes`, nullability included.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from millstream.types.datatypes import BooleanType, DataType

__all__ = [
    "AggregateCall",
    "Call",
    "InputRef",
    "Literal",
    "RowExpression",
    "RowSchema",
    "SortKey",
    "and_all",
    "conjuncts",
    "inputs_of",
    "map_inputs",
    "transform",
]


@dataclass(frozen=True)
class RowSchema:
    """Names and types of the columns of a relation.

    Attributes:
        names: In order; may repeat (of joins), as SQL allows.
        types: As many.
        rowtime: Places of columns that are event-time attributes.
        proctime: Places of columns that are processing-time attributes.
    """

    names: tuple[str, ...]
    types: tuple[DataType, ...]
    rowtime: frozenset[int] = frozenset()
    proctime: frozenset[int] = frozenset()

    def __len__(self) -> int:
        return len(self.names)


@dataclass(frozen=True)
class InputRef:
    """A column of the input row; of joins the right side's columns follow the left side's."""

    index: int
    type: DataType


@dataclass(frozen=True)
class Literal:
    """A constant in Python's form of its type (intervals: milliseconds or months as int); None is NULL."""

    value: Any
    type: DataType


@dataclass(frozen=True)
class Call:
    """A function or operator applied to operands that have the types it wants: casts are explicit calls.

    Attributes:
        function: Canonical name: Flink's SQL name in upper case (`UPPER`, `SUBSTRING`), or the operator's name:
            `+`, `-`, `*`, `/`, `%`, `=`, `<>`, `<`, `<=`, `>`, `>=`, `AND`, `OR`, `NOT`, `IS NULL`, `IS NOT NULL`,
            `IS TRUE`, ..., `CASE` (condition, value, ..., default), `CAST`, `TRY_CAST`, `ITEM`, `FIELD` (row, literal
            name), `ROW`, `ARRAY`, `MAP`, `NEGATE`, `LIKE`, `SIMILAR TO`, `IN` (value, literals ...). User functions:
            their catalog name.
        operands: The arguments.
        type: Of the result.
        user_function: The definition of a user's function (`functions/user.py`); None of built-in ones.
    """

    function: str
    operands: tuple[RowExpression, ...]
    type: DataType
    user_function: Any = None


RowExpression = InputRef | Literal | Call


@dataclass(frozen=True)
class AggregateCall:
    """One aggregate of an aggregation, a window aggregation or an OVER.

    Attributes:
        function: Upper-case name (`COUNT`, `SUM`, `MIN`, `FIRST_VALUE`, `LISTAGG`, ...); COUNT without
            arguments is COUNT(*).
        arguments: Places of input columns (a projection below computes expressions first).
        type: Of the result.
        distinct: Whether equal arguments count once.
        filter: Place of a BOOLEAN input column: rows where it is not TRUE do not count; None for all rows.
        order: Of `WITHIN GROUP (ORDER BY ...)`, and of ARRAY_AGG.
        user_function: Definition of a user's aggregate function; None of built-in ones.
        nulls: What is said of NULLs where the function is not as it is by default: `NULL ON NULL`, `ABSENT ON NULL`,
            `IGNORE NULLS`; empty for the default.
    """

    function: str
    arguments: tuple[int, ...]
    type: DataType
    distinct: bool = False
    filter: int | None = None
    order: tuple[SortKey, ...] = ()
    user_function: Any = None
    nulls: str = ""


@dataclass(frozen=True)
class SortKey:
    """A column to sort by.

    Attributes:
        index: Place of the column.
        descending: Largest first.
        nulls_first: Where NULLs go; Flink's default: first when ascending, last when descending.
    """

    index: int
    descending: bool = False
    nulls_first: bool = True


def transform(
    expression: RowExpression, change: Callable[[RowExpression], RowExpression | None]
) -> RowExpression:
    """Return an expression with parts replaced, top down; None leaves a part (and looks into it)."""
    changed = change(expression)
    if changed is not None:
        return changed
    if not isinstance(expression, Call):
        return expression
    operands = tuple(transform(operand, change) for operand in expression.operands)
    return Call(expression.function, operands, expression.type, expression.user_function)


def map_inputs(expression: RowExpression, place_of: Callable[[int], int]) -> RowExpression:
    """Return an expression over other places of the same columns."""

    def change(part: RowExpression) -> RowExpression | None:
        return InputRef(place_of(part.index), part.type) if isinstance(part, InputRef) else None

    return transform(expression, change)


def inputs_of(expression: RowExpression) -> frozenset[int]:
    """Return the places of all columns that an expression reads."""
    if isinstance(expression, InputRef):
        return frozenset((expression.index,))
    if isinstance(expression, Call):
        return frozenset().union(*map(inputs_of, expression.operands))
    return frozenset()


def conjuncts(condition: RowExpression | None) -> list[RowExpression]:
    """Return the parts of a condition that all have to hold."""
    if condition is None:
        return []
    if isinstance(condition, Call) and condition.function == "AND":
        return [part for operand in condition.operands for part in conjuncts(operand)]
    return [condition]


def and_all(conditions: list[RowExpression]) -> RowExpression | None:
    """Return one condition that holds where all hold; None of none."""
    if not conditions:
        return None
    if len(conditions) == 1:
        return conditions[0]
    nullable = any(each.type.nullable for each in conditions)
    return Call("AND", tuple(conditions), BooleanType(nullable))
