"""Expressions of single rows over plain values: comparisons, logic and arithmetic, as the columns' program has them.

NULL is None, and truth has three values. What is not here is computed by the columns' program.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from operator import add, eq, ge, gt, le, lt, mul, ne, sub
from typing import Any

import pyarrow as pa

from millstream.table.expressions.rex import Call, InputRef, Literal, RowExpression
from millstream.table.functions.kernels.literals import literal_scalar
from millstream.table.functions.types import arrow_type
from millstream.table.runtime.match.match_values import wrapped
from millstream.table.runtime.match.plain_values import plain_column
from millstream.types import datatypes as t

__all__ = ["compile_scalar"]

Scalar = Callable[[Sequence[Any]], Any]

_COMPARISONS: dict[str, Callable[[Any, Any], bool]] = {
    "=": eq,
    "<>": ne,
    "<": lt,
    "<=": le,
    ">": gt,
    ">=": ge,
}
_ARITHMETIC: dict[str, Callable[[Any, Any], Any]] = {"+": add, "-": sub, "*": mul}
_INTEGERS = (t.TinyIntType, t.SmallIntType, t.IntType, t.BigIntType)


def compile_scalar(expression: RowExpression) -> Scalar | None:
    """Return what computes an expression of a list of values by place; None if a part of it is not here."""
    if isinstance(expression, InputRef):
        index = expression.index
        return lambda values: values[index]
    if isinstance(expression, Literal):
        constant = plain_column(pa.array([literal_scalar(expression).as_py()], arrow_type(expression.type)))[
            0
        ]
        return lambda values: constant
    operands = [compile_scalar(each) for each in expression.operands]
    known = [each for each in operands if each is not None]
    if len(known) < len(operands) or expression.user_function is not None:
        return None
    return _call(expression, known)


def _call(call: Call, operands: list[Scalar]) -> Scalar | None:
    name = call.function
    types = [each.type for each in call.operands]
    if name in _COMPARISONS and _comparable(types):
        return _compared(_COMPARISONS[name], *operands)
    if name == "AND":
        return _and(operands)
    if name == "OR":
        return _or(operands)
    if name == "NOT":
        (operand,) = operands
        return lambda values: None if (value := operand(values)) is None else not value
    if name in ("IS NULL", "IS NOT NULL"):
        (operand,) = operands
        wanted = name == "IS NULL"
        return lambda values: (operand(values) is None) is wanted
    if name == "COALESCE" and all(type(each) is type(call.type) for each in types) and _same_units(types):
        return _first_there(operands)
    if name in _ARITHMETIC and len(types) == 2:
        return _computed(_ARITHMETIC[name], call.type, types, operands)
    if name == "CAST" and _widens(types[0], call.type):
        return operands[0]
    if name == "CAST" and isinstance(types[0], _INTEGERS) and isinstance(call.type, t.DoubleType):
        (operand,) = operands
        return lambda values: None if (value := operand(values)) is None else float(value)
    return None


def _comparable(types: Sequence[t.DataType]) -> bool:
    """Whether plain values of two types compare as SQL has it."""
    first, second = types
    numbers = (*_INTEGERS, t.DoubleType)
    if isinstance(first, numbers) and isinstance(second, numbers):
        return type(first) is type(second) or not isinstance(first, t.DoubleType) | isinstance(
            second, t.DoubleType
        )
    if isinstance(first, t.DecimalType) and isinstance(second, t.DecimalType):
        return True
    if isinstance(first, t.VarCharType) and isinstance(second, t.VarCharType):
        return True
    return isinstance(first, (t.BooleanType, t.DateType)) and type(first) is type(second)


def _same_units(types: Sequence[t.DataType]) -> bool:
    """Whether plain values of some types are in the same unit."""
    return len({str(arrow_type(each)) for each in types}) == 1


def _first_there(operands: Sequence[Scalar]) -> Scalar:
    def scalar(values: Sequence[Any]) -> Any:
        for operand in operands:
            value = operand(values)
            if value is not None:
                return value
        return None

    return scalar


def _widens(source: t.DataType, target: t.DataType) -> bool:
    """Whether a cast leaves plain values as they are."""
    if isinstance(source, _INTEGERS) and isinstance(target, _INTEGERS):
        return _INTEGERS.index(type(source)) <= _INTEGERS.index(type(target))
    return isinstance(source, t.DoubleType) and isinstance(target, t.DoubleType)


def _compared(compare: Callable[[Any, Any], bool], left: Scalar, right: Scalar) -> Scalar:
    def scalar(values: Sequence[Any]) -> Any:
        one, two = left(values), right(values)
        return None if one is None or two is None else compare(one, two)

    return scalar


def _computed(
    compute: Callable[[Any, Any], Any], kind: t.DataType, types: Sequence[t.DataType], operands: list[Scalar]
) -> Scalar | None:
    left, right = operands
    if isinstance(kind, _INTEGERS) and all(isinstance(each, _INTEGERS) for each in types):

        def whole(values: Sequence[Any]) -> Any:
            one, two = left(values), right(values)
            return None if one is None or two is None else wrapped(compute(one, two), kind)

        return whole
    if isinstance(kind, t.DoubleType) and all(isinstance(each, t.DoubleType) for each in types):

        def floating(values: Sequence[Any]) -> Any:
            one, two = left(values), right(values)
            return None if one is None or two is None else compute(one, two)

        return floating
    return None


def _and(operands: Sequence[Scalar]) -> Scalar:
    def scalar(values: Sequence[Any]) -> Any:
        unknown = False
        for operand in operands:
            value = operand(values)
            if value is None:
                unknown = True
            elif not value:
                return False
        return None if unknown else True

    return scalar


def _or(operands: Sequence[Scalar]) -> Scalar:
    def scalar(values: Sequence[Any]) -> Any:
        unknown = False
        for operand in operands:
            value = operand(values)
            if value is None:
                unknown = True
            elif value:
                return True
        return None if unknown else False

    return scalar
