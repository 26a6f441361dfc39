"""Comparisons, boolean logic, tests and conditions."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from millstream.table.expressions.rex import Call, Literal, RowExpression
from millstream.table.functions import types as kinds
from millstream.table.functions.casting import comparable
from millstream.table.functions.coercion import coerce, to_common
from millstream.table.functions.signatures import (
    FunctionDefinition,
    always,
    common,
    nullable,
    signature,
)
from millstream.types import datatypes as t
from millstream.types import further_types as f

__all__ = ["DEFINITIONS", "compare"]

Operands = Sequence[RowExpression]
Bound = RowExpression | None
_BOOLEAN = t.BooleanType()
_TRUE_OR_FALSE = t.BooleanType(nullable=False)
_ORDERED = frozenset(("<", "<=", ">", ">="))
_UNORDERED_TYPES = (t.MapType, f.MultisetType, t.ArrayType, t.RowType)


def _boolean(operands: Operands) -> t.BooleanType:
    return t.BooleanType(any(each.type.nullable for each in operands))


def compare(name: str, left: RowExpression, right: RowExpression) -> Bound:
    """Return a comparison with both operands in the type they compare in; None if they do not."""
    kind = comparable(left.type, right.type)
    if kind is None or (name in _ORDERED and isinstance(kind, _UNORDERED_TYPES)):
        return None
    return Call(name, (coerce(left, kind), coerce(right, kind)), _boolean((left, right)))


def _comparison(name: str) -> Callable[[Operands], Bound]:
    def bind(operands: Operands) -> Bound:
        return compare(name, *operands) if len(operands) == 2 else None

    return bind


def _distinct(name: str) -> Callable[[Operands], Bound]:
    def bind(operands: Operands) -> Bound:
        compared = compare("=", *operands) if len(operands) == 2 else None
        return None if not isinstance(compared, Call) else Call(name, compared.operands, _TRUE_OR_FALSE)

    return bind


def _connective(name: str) -> Callable[[Operands], Bound]:
    def bind(operands: Operands) -> Bound:
        fit = len(operands) >= 2 and all(
            isinstance(each.type, t.BooleanType | f.NullType) for each in operands
        )
        booleans = tuple(coerce(each, _BOOLEAN) for each in operands)
        return Call(name, booleans, _boolean(operands)) if fit else None

    return bind


def _not(operands: Operands) -> Bound:
    if len(operands) != 1 or not isinstance(operands[0].type, t.BooleanType | f.NullType):
        return None
    return Call("NOT", (coerce(operands[0], _BOOLEAN),), _boolean(operands))


def _test(name: str, boolean: bool) -> Callable[[Operands], Bound]:
    def bind(operands: Operands) -> Bound:
        if len(operands) != 1:
            return None
        if boolean and not isinstance(operands[0].type, t.BooleanType | f.NullType):
            return None
        tested = coerce(operands[0], _BOOLEAN) if boolean else operands[0]
        return Call(name, (tested,), _TRUE_OR_FALSE)

    return bind


def negate(bound: Bound) -> Bound:
    """Return NOT of what was bound, if it was."""
    return None if bound is None else Call("NOT", (bound,), bound.type)


def _between(operands: Operands, *, symmetric: bool = False) -> Bound:
    if len(operands) != 3:
        return None
    value, low, high = operands

    def within(a: RowExpression, b: RowExpression) -> Bound:
        return _both("AND", compare(">=", value, a), compare("<=", value, b))

    return _both("OR", within(low, high), within(high, low)) if symmetric else within(low, high)


def _both(name: str, left: Bound, right: Bound) -> Bound:
    if left is None or right is None:
        return None
    return Call(name, (left, right), _boolean((left, right)))


def _in(operands: Operands) -> Bound:
    if len(operands) < 2:
        return None
    kind: t.DataType | None = operands[0].type
    for option in operands[1:]:
        kind = comparable(kind, option.type) if kind is not None else None
    if kind is None:
        return None
    return Call("IN", tuple(coerce(each, kind) for each in operands), _boolean(operands))


def _negated(bind: Callable[[Operands], Bound]) -> Callable[[Operands], Bound]:
    return lambda operands: negate(bind(operands))


def _case(operands: Operands) -> Bound:
    """Conditions and values in turn, the default last."""
    if len(operands) < 3 or len(operands) % 2 == 0:
        return None
    conditions, values = operands[:-1:2], [*operands[1::2], operands[-1]]
    if not all(isinstance(each.type, t.BooleanType | f.NullType) for each in conditions):
        return None
    converted = to_common(values)
    if converted is None:
        return None
    merged: list[RowExpression] = []
    for condition, value in zip(conditions, converted[:-1], strict=True):
        merged += [coerce(condition, _BOOLEAN), value]
    kind = kinds.common_type([each.type for each in converted])
    assert kind is not None
    return Call("CASE", (*merged, converted[-1]), kind)


def _if(operands: Operands) -> Bound:
    return _case(operands) if len(operands) == 3 else None


def _nullif(operands: Operands) -> Bound:
    if len(operands) != 2:
        return None
    equal = compare("=", *operands)
    kind = kinds.with_nullable(operands[0].type, True)
    return None if equal is None else Call("CASE", (equal, Literal(None, kind), operands[0]), kind)


def _coalesce(operands: Operands) -> Bound:
    converted = to_common(operands) if operands else None
    if converted is None:
        return None
    kind = kinds.common_type([each.type for each in converted])
    assert kind is not None
    all_nullable = all(each.type.nullable for each in converted)
    return Call("COALESCE", tuple(converted), kinds.with_nullable(kind, all_nullable))


def _ifnull(operands: Operands) -> Bound:
    return _coalesce(operands) if len(operands) == 2 else None


def _like(name: str) -> Callable[[Operands], Bound]:
    def bind(operands: Operands) -> Bound:
        fit = len(operands) in (2, 3) and all(
            kinds.is_string(each.type) or isinstance(each.type, f.NullType) for each in operands
        )
        return (
            Call(name, tuple(coerce(each, t.VarCharType()) for each in operands), _boolean(operands))
            if fit
            else None
        )

    return bind


def _define(
    name: str, bind: Callable[[Operands], Bound], group: str, example: str, *syntax: str
) -> FunctionDefinition:
    return FunctionDefinition(name, bind=bind, group=group, example=example, syntax=syntax)


_C, _L, _K = "Comparison", "Logic", "Conditions"
_symmetric = lambda operands: _between(operands, symmetric=True)  # noqa: E731 - a row of the table

DEFINITIONS: tuple[FunctionDefinition, ...] = (
    _define("=", _comparison("="), _C, "1 = 1", "value1 = value2"),
    _define("<>", _comparison("<>"), _C, "1 <> 2", "value1 <> value2"),
    _define(">", _comparison(">"), _C, "'b' > 'a'", "value1 > value2"),
    _define(">=", _comparison(">="), _C, "2 >= 1", "value1 >= value2"),
    _define("<", _comparison("<"), _C, "1 < 2.5", "value1 < value2"),
    _define("<=", _comparison("<="), _C, "1 <= 1", "value1 <= value2"),
    _define("IS NULL", _test("IS NULL", False), _C, "1 IS NULL", "value IS NULL"),
    _define("IS NOT NULL", _test("IS NOT NULL", False), _C, "1 IS NOT NULL", "value IS NOT NULL"),
    _define(
        "IS DISTINCT FROM",
        _distinct("IS DISTINCT FROM"),
        _C,
        "1 IS DISTINCT FROM CAST(NULL AS INT)",
        "value1 IS DISTINCT FROM value2",
    ),
    _define(
        "IS NOT DISTINCT FROM",
        _distinct("IS NOT DISTINCT FROM"),
        _C,
        "CAST(NULL AS INT) IS NOT DISTINCT FROM CAST(NULL AS INT)",
        "value1 IS NOT DISTINCT FROM value2",
    ),
    _define("BETWEEN", _between, _C, "2 BETWEEN 1 AND 3", "value BETWEEN low AND high"),
    _define("NOT BETWEEN", _negated(_between), _C, "2 NOT BETWEEN 3 AND 4", "value NOT BETWEEN low AND high"),
    _define(
        "BETWEEN SYMMETRIC",
        _symmetric,
        _C,
        "2 BETWEEN SYMMETRIC 3 AND 1",
        "value BETWEEN SYMMETRIC bound1 AND bound2",
    ),
    _define(
        "NOT BETWEEN SYMMETRIC",
        _negated(_symmetric),
        _C,
        "2 NOT BETWEEN SYMMETRIC 3 AND 1",
        "value NOT BETWEEN SYMMETRIC bound1 AND bound2",
    ),
    _define("LIKE", _like("LIKE"), _C, "'abc' LIKE 'a%'", "string LIKE pattern [ESCAPE char]"),
    _define(
        "NOT LIKE",
        _negated(_like("LIKE")),
        _C,
        "'abc' NOT LIKE '_b_'",
        "string NOT LIKE pattern [ESCAPE char]",
    ),
    _define(
        "SIMILAR TO",
        _like("SIMILAR TO"),
        _C,
        "'abc' SIMILAR TO 'a(b|x)c'",
        "string SIMILAR TO pattern [ESCAPE char]",
    ),
    _define(
        "NOT SIMILAR TO",
        _negated(_like("SIMILAR TO")),
        _C,
        "'abc' NOT SIMILAR TO '[0-9]+'",
        "string NOT SIMILAR TO pattern [ESCAPE char]",
    ),
    _define("IN", _in, _C, "1 IN (1, 2)", "value IN (value1, ...)"),
    _define("NOT IN", _negated(_in), _C, "3 NOT IN (1, 2)", "value NOT IN (value1, ...)"),
    _define("AND", _connective("AND"), _L, "TRUE AND FALSE", "boolean1 AND boolean2"),
    _define("OR", _connective("OR"), _L, "TRUE OR FALSE", "boolean1 OR boolean2"),
    _define("NOT", _not, _L, "NOT TRUE", "NOT boolean"),
    *(
        _define(name, _test(name, True), _L, f"(1 = 1) {name}", f"boolean {name}")
        for name in (
            "IS TRUE",
            "IS NOT TRUE",
            "IS FALSE",
            "IS NOT FALSE",
            "IS UNKNOWN",
            "IS NOT UNKNOWN",
        )
    ),
    _define(
        "CASE",
        _case,
        _K,
        "CASE WHEN 1 < 2 THEN 1 ELSE 2.5 END",
        "CASE WHEN condition THEN result ... ELSE result END",
        "CASE value WHEN value1 THEN result ... ELSE result END",
    ),
    _define("IF", _if, _K, "IF(1 < 2, 'a', 'b')", "IF(condition, value1, value2)"),
    _define("NULLIF", _nullif, _K, "NULLIF(1, 1)", "NULLIF(value1, value2)"),
    _define("COALESCE", _coalesce, _K, "COALESCE(NULL, 5)", "COALESCE(value1, ...)"),
    _define("IFNULL", _ifnull, _K, "IFNULL(CAST(NULL AS INT), 3)", "IFNULL(input, replacement)"),
    FunctionDefinition(
        "GREATEST",
        (signature("any, any...", common),),
        syntax=("GREATEST(value1, ...)",),
        group=_K,
        example="GREATEST(1, 3, 2)",
        common_from=0,
    ),
    FunctionDefinition(
        "LEAST",
        (signature("any, any...", common),),
        syntax=("LEAST(value1, ...)",),
        group=_K,
        example="LEAST(3, 1, 2)",
        common_from=0,
    ),
    FunctionDefinition(
        "IS_ALPHA",
        (signature("any", always(_BOOLEAN)),),
        syntax=("IS_ALPHA(string)",),
        group=_K,
        example="IS_ALPHA('abc')",
    ),
    FunctionDefinition(
        "IS_DECIMAL",
        (signature("any", always(_BOOLEAN)),),
        syntax=("IS_DECIMAL(string)",),
        group=_K,
        example="IS_DECIMAL('1e5')",
    ),
    FunctionDefinition(
        "IS_DIGIT",
        (signature("any", always(_BOOLEAN)),),
        syntax=("IS_DIGIT(string)",),
        group=_K,
        example="IS_DIGIT('123')",
    ),
    FunctionDefinition(
        "TYPEOF",
        (signature("any, [literal_boolean]", nullable(t.VarCharType())),),
        syntax=("TYPEOF(input)", "TYPEOF(input, force_serializable)"),
        group="Conversion",
        example="TYPEOF(1.5)",
    ),
)
