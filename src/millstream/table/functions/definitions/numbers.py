"""Functions of numbers."""

from __future__ import annotations

from collections.abc import Sequence

from millstream.table.expressions.rex import Call, Literal, RowExpression
from millstream.table.functions import types as kinds
from millstream.table.functions.coercion import coerce
from millstream.table.functions.signatures import (
    FunctionDefinition,
    Result,
    Types,
    always,
    as_argument,
    nullable,
    signature,
)
from millstream.types import datatypes as t

__all__ = ["DEFINITIONS"]

_DOUBLE, _STRING, _INT = t.DoubleType(), t.VarCharType(), t.IntType()
_GROUP = "Numbers"


def _whole(types: Types) -> t.DataType:
    """CEIL and FLOOR: a DECIMAL without digits behind the point."""
    kind = types[0]
    return t.DecimalType(kind.precision, 0, kind.nullable) if isinstance(kind, t.DecimalType) else kind


def _rounded(operands: Sequence[RowExpression], name: str) -> RowExpression | None:
    """ROUND and TRUNCATE: of a DECIMAL the digits that are left, and one more before the point."""
    if not 1 <= len(operands) <= 2 or not kinds.is_numeric(operands[0].type):
        return None
    value = operands[0]
    digits = operands[1] if len(operands) == 2 else Literal(0, t.IntType(False))
    if not kinds.is_integer(digits.type) and not (isinstance(digits, Literal) and digits.value is None):
        return None
    kind = value.type
    if isinstance(kind, t.DecimalType) and isinstance(digits, Literal) and digits.value is not None:
        kept = max(digits.value, 0)
        if digits.value < kind.scale:
            kind = t.DecimalType(min(kind.precision - kind.scale + 1 + kept, 38), kept)
    result = kinds.with_nullable(kind, value.type.nullable or digits.type.nullable)
    return Call(name, (value, coerce(digits, _INT)), result)


def _define(
    name: str,
    parameters: str,
    result: t.DataType | Result,
    example: str,
    *syntax: str,
    also: tuple[tuple[str, t.DataType | Result], ...] = (),
    deterministic: bool = True,
    aliases: tuple[str, ...] = (),
) -> FunctionDefinition:
    signatures = (signature(parameters, result), *(signature(*each) for each in also))
    return FunctionDefinition(
        name,
        signatures,
        syntax=syntax or (f"{name}(numeric)",),
        group=_GROUP,
        example=example,
        deterministic=deterministic,
        aliases=aliases,
    )


DEFINITIONS: tuple[FunctionDefinition, ...] = (
    _define("POWER", "double, double", _DOUBLE, "POWER(2, 10)", "POWER(numeric1, numeric2)"),
    _define("ABS", "numeric", as_argument(0), "ABS(-1.5)", also=(("interval", as_argument(0)),)),
    *(
        _define(name, "double", _DOUBLE, f"{name}({example})")
        for name, example in (
            ("SQRT", "4"),
            ("LN", "10"),
            ("LOG10", "100"),
            ("LOG2", "8"),
            ("EXP", "1"),
            ("SIN", "1"),
            ("SINH", "1"),
            ("COS", "1"),
            ("COSH", "1"),
            ("TAN", "1"),
            ("TANH", "1"),
            ("COT", "1"),
            ("ASIN", "1"),
            ("ACOS", "1"),
            ("ATAN", "1"),
            ("DEGREES", "1"),
            ("RADIANS", "180"),
        )
    ),
    _define(
        "LOG",
        "double, [double]",
        _DOUBLE,
        "LOG(2, 8)",
        "LOG(numeric): the natural logarithm",
        "LOG(base, numeric)",
    ),
    _define("ATAN2", "double, double", _DOUBLE, "ATAN2(1, 2)", "ATAN2(numeric1, numeric2)"),
    _define("SIGN", "numeric", as_argument(0), "SIGN(-3)"),
    FunctionDefinition(
        "ROUND",
        bind=lambda operands: _rounded(operands, "ROUND"),
        syntax=("ROUND(numeric[, int])",),
        group=_GROUP,
        example="ROUND(2.567, 2)",
    ),
    FunctionDefinition(
        "TRUNCATE",
        bind=lambda operands: _rounded(operands, "TRUNCATE"),
        syntax=("TRUNCATE(numeric[, int])",),
        group=_GROUP,
        example="TRUNCATE(42.329, 2)",
    ),
    _define("PI", "", always(_DOUBLE), "PI()", "PI()"),
    _define("E", "", always(_DOUBLE), "E()", "E()"),
    _define("RAND", "[int]", always(_DOUBLE), "", "RAND()", "RAND(seed)", deterministic=False),
    _define(
        "RAND_INTEGER",
        "int, [int]",
        _INT,
        "",
        "RAND_INTEGER(bound)",
        "RAND_INTEGER(seed, bound)",
        deterministic=False,
    ),
    _define("UUID", "", always(t.CharType(36)), "", "UUID()", deterministic=False),
    _define("BIN", "bigint", _STRING, "BIN(4)", "BIN(int)"),
    _define("HEX", "bigint", _STRING, "HEX(255)", "HEX(numeric)", "HEX(string)", also=(("string", _STRING),)),
    _define("UNHEX", "string", nullable(t.VarBinaryType()), "UNHEX('4D')", "UNHEX(string)"),
)

WHOLE = _whole
