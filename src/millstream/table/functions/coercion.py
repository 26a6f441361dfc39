"""Casts that the binder adds: operands become what operators and functions want."""

from __future__ import annotations

import decimal
from collections.abc import Sequence
from typing import TYPE_CHECKING

from millstream.table.errors import ValidationError
from millstream.table.expressions.rex import Call, Literal, RowExpression
from millstream.table.functions.casting import can_cast
from millstream.table.functions.types import (
    common_type,
    is_approximate,
    is_exact,
    is_integer,
    same_kind,
    with_nullable,
)
from millstream.types import datatypes as t
from millstream.types import further_types as f

if TYPE_CHECKING:
    from millstream.table.sql.ast import Position

__all__ = ["build_cast", "coerce", "to_common"]


def build_cast(
    operand: RowExpression, target: t.DataType, attempt: bool = False, at: Position | None = None
) -> RowExpression:
    """Return `CAST(operand AS target)`, or `TRY_CAST`; NOT NULL only if the operand is.

    Raises:
        ValidationError: If there is no such cast.
    """
    if not can_cast(operand.type, target):
        raise ValidationError(
            f"cast of type {operand.type} to type {target} does not exist",
            at=at,
            hint="Cast to STRING between them, if the text form is what is meant.",
        )
    if attempt:
        return Call("TRY_CAST", (operand,), with_nullable(target, True))
    return coerce(operand, target)


def coerce(operand: RowExpression, target: t.DataType) -> RowExpression:
    """Return an expression in another type; its nullability stays. Constants of numbers change at once."""
    wanted = with_nullable(target, operand.type.nullable)
    if isinstance(operand.type, f.NullType):
        return Literal(None, wanted) if isinstance(operand, Literal) else Call("CAST", (operand,), wanted)
    if same_kind(operand.type, target):
        return operand
    if isinstance(operand, Literal):
        folded = _folded(operand, wanted)
        if folded is not None:
            return folded
    return Call("CAST", (operand,), wanted)


def _folded(literal: Literal, target: t.DataType) -> Literal | None:
    value = literal.value
    if value is None:
        return Literal(None, target)
    if is_integer(target) and is_integer(literal.type):
        bits: int = target.bits  # type: ignore[attr-defined]
        wrapped = (value + (1 << (bits - 1))) % (1 << bits) - (1 << (bits - 1))
        return Literal(wrapped, target)
    if isinstance(target, t.DecimalType) and is_integer(literal.type):
        whole = decimal.Decimal(value)
        return Literal(whole, target) if abs(value) < 10 ** (target.precision - target.scale) else None
    if type(target) is t.DoubleType and is_exact(literal.type):
        return Literal(float(value), target)
    if type(target) is t.DoubleType and is_approximate(literal.type):
        return Literal(value, target)
    return None


def to_common(operands: Sequence[RowExpression]) -> list[RowExpression] | None:
    """Return operands in their common type; None if there is none."""
    found = common_type([each.type for each in operands])
    if found is None:
        return None
    return [coerce(each, found) for each in operands]
