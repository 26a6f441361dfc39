"""`+ - * / %` and signs: of numbers, of times with intervals."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from millstream.table.expressions.rex import Call, RowExpression
from millstream.table.functions import types as kinds
from millstream.table.functions.coercion import coerce
from millstream.table.functions.signatures import FunctionDefinition
from millstream.types import datatypes as t
from millstream.types import further_types as f

__all__ = ["DEFINITIONS"]

Operands = Sequence[RowExpression]
Bound = RowExpression | None  # None: the operands do not fit
DecimalRule = Callable[[t.DecimalType, t.DecimalType], t.DecimalType]


def _nullable(operands: Operands) -> bool:
    return any(each.type.nullable for each in operands)


def _number(kind: t.DataType, other: t.DataType) -> t.DataType:
    """Return the type a NULL takes beside another operand."""
    if not isinstance(kind, f.NullType):
        return kind
    return t.IntType() if isinstance(other, f.NullType) else other


def _numbers(name: str, operands: Operands, decimals: DecimalRule) -> Bound:
    left, right = operands
    a, b = _number(left.type, right.type), _number(right.type, left.type)
    if not (kinds.is_numeric(a) and kinds.is_numeric(b)):
        return None
    nullable = _nullable(operands)
    if kinds.is_approximate(a) or kinds.is_approximate(b):
        result: t.DataType = _approximate(a, b)
        computed = kinds.common_type([a, b]) if not isinstance(result, t.FloatType) else result
        assert computed is not None
        return Call(
            name, (coerce(left, computed), coerce(right, computed)), kinds.with_nullable(result, nullable)
        )
    if kinds.is_integer(a) and kinds.is_integer(b):
        common = kinds.common_type([a, b])
        assert common is not None
        return Call(
            name, (coerce(left, common), coerce(right, common)), kinds.with_nullable(common, nullable)
        )
    x, y = kinds.as_decimal(a), kinds.as_decimal(b)
    assert x is not None and y is not None
    return Call(name, (coerce(left, x), coerce(right, y)), kinds.with_nullable(decimals(x, y), nullable))


def _approximate(left: t.DataType, right: t.DataType) -> t.DataType:
    """Return Flink's type: that of the only, or else the first, approximate operand; DECIMAL makes it DOUBLE."""
    if isinstance(left, t.DecimalType) or isinstance(right, t.DecimalType):
        return t.DoubleType()
    return left if kinds.is_approximate(left) else right


def _plus(operands: Operands) -> Bound:
    if len(operands) != 2:
        return None
    left, right = operands
    if kinds.is_interval(left.type) and kinds.is_time_point(right.type):
        left, right = right, left
    shifted = _shifted("+", left, right)
    return shifted or _intervals("+", left, right) or _numbers("+", operands, kinds.decimal_plus)


def _minus(operands: Operands) -> Bound:
    if len(operands) != 2:
        return None
    left, right = operands
    shifted = _shifted("-", left, right)
    return shifted or _intervals("-", left, right) or _numbers("-", operands, kinds.decimal_plus)


def _shifted(name: str, left: RowExpression, right: RowExpression) -> Bound:
    """A time moved by an interval keeps its type, but DATE and TIME take no fractions of theirs."""
    if not (kinds.is_time_point(left.type) and kinds.is_interval(right.type)):
        return None
    if isinstance(left.type, t.TimeType) and isinstance(right.type, f.YearMonthIntervalType):
        return None
    return Call(f"{name} INTERVAL", (left, right), kinds.with_nullable(left.type, _nullable((left, right))))


def _intervals(name: str, left: RowExpression, right: RowExpression) -> Bound:
    if not (kinds.is_interval(left.type) and type(left.type) is type(right.type)):
        return None
    return Call(name, (left, right), kinds.with_nullable(left.type, _nullable((left, right))))


def _times(operands: Operands) -> Bound:
    if len(operands) != 2:
        return None
    left, right = operands
    if kinds.is_interval(right.type):
        left, right = right, left
    if kinds.is_interval(left.type) and kinds.is_numeric(right.type):
        whole = coerce(right, t.BigIntType())
        return Call("* INTERVAL", (left, whole), kinds.with_nullable(left.type, _nullable(operands)))
    return _numbers("*", operands, kinds.decimal_multiply)


def _divide(operands: Operands) -> Bound:
    return _numbers("/", operands, kinds.decimal_divide) if len(operands) == 2 else None


def _modulo(operands: Operands) -> Bound:
    """The result has the divisor's type of whole numbers; FLOAT and DOUBLE are refused."""
    if len(operands) != 2:
        return None
    left, right = operands
    a, b = _number(left.type, right.type), _number(right.type, left.type)
    x, y = kinds.as_decimal(a), kinds.as_decimal(b)
    if x is None or y is None:
        return None
    nullable = _nullable(operands)
    if kinds.is_integer(a) and kinds.is_integer(b):
        common = kinds.common_type([a, b])
        assert common is not None
        rest = Call("%", (coerce(left, common), coerce(right, common)), kinds.with_nullable(common, nullable))
        return coerce(rest, b)
    if x.scale == 0 and y.scale == 0:
        whole = t.DecimalType(max(x.precision, y.precision), 0)
        rest = Call("%", (coerce(left, whole), coerce(right, whole)), kinds.with_nullable(whole, nullable))
        return coerce(rest, b)
    result = kinds.decimal_modulo(x, y)
    return Call("%", (coerce(left, x), coerce(right, y)), kinds.with_nullable(result, nullable))


def _negate(operands: Operands) -> Bound:
    if len(operands) != 1:
        return None
    kind = operands[0].type
    fits = kinds.is_numeric(kind) or kinds.is_interval(kind)
    return Call("NEGATE", tuple(operands), kind) if fits else None


def _positive(operands: Operands) -> Bound:
    if len(operands) != 1:
        return None
    kind = operands[0].type
    return operands[0] if kinds.is_numeric(kind) or kinds.is_interval(kind) else None


_GROUP = "Arithmetic"
DEFINITIONS: tuple[FunctionDefinition, ...] = (
    FunctionDefinition(
        "+",
        syntax=("numeric1 + numeric2", "time + interval"),
        group=_GROUP,
        example="1 + 2.5",
        bind=_plus,
    ),
    FunctionDefinition(
        "-",
        syntax=("numeric1 - numeric2", "time - interval"),
        group=_GROUP,
        example="DATE '2024-03-31' - INTERVAL '1' MONTH",
        bind=_minus,
    ),
    FunctionDefinition(
        "*",
        syntax=("numeric1 * numeric2", "interval * numeric"),
        group=_GROUP,
        example="1.10 * 2.20",
        bind=_times,
    ),
    FunctionDefinition(
        "/",
        syntax=("numeric1 / numeric2",),
        group=_GROUP,
        example="7 / 2",
        bind=_divide,
        fails=True,
    ),
    FunctionDefinition(
        "%",
        syntax=("numeric1 % numeric2", "MOD(numeric1, numeric2)"),
        group=_GROUP,
        example="-7 % 3",
        aliases=("MOD",),
        bind=_modulo,
        fails=True,
    ),
    FunctionDefinition(
        "NEGATE",
        syntax=("- numeric",),
        group=_GROUP,
        example="-(1 + 1)",
        bind=_negate,
    ),
    FunctionDefinition(
        "POSITIVE",
        syntax=("+ numeric",),
        group=_GROUP,
        example="+ 1",
        bind=_positive,
    ),
)
