"""Aggregate and window functions: what they take and what type they give."""

from __future__ import annotations

from collections.abc import Callable

from millstream.table.functions import types as kinds
from millstream.table.functions.signatures import (
    Category,
    FunctionDefinition,
    Result,
    Types,
    always,
    as_argument,
    nullable,
    signature,
)
from millstream.types import datatypes as t
from millstream.types import further_types as f

__all__ = ["DEFINITIONS"]

_BIGINT, _DOUBLE, _STRING = t.BigIntType(), t.DoubleType(), t.VarCharType()


def _sum(types: Types) -> t.DataType:
    kind = types[0]
    return t.DecimalType(38, kind.scale, kind.nullable) if isinstance(kind, t.DecimalType) else kind


def _average(types: Types) -> t.DataType:
    kind = types[0]
    if isinstance(kind, t.DecimalType):
        return t.DecimalType(38, max(6, kind.scale), kind.nullable)
    return kind


def _multiset(types: Types) -> t.DataType:
    return f.MultisetType(types[0], nullable=False)


def _array(types: Types) -> t.DataType:
    return t.ArrayType(types[0])


def _percentile(types: Types) -> t.DataType:
    return t.ArrayType(_DOUBLE) if isinstance(types[1], t.ArrayType) else _DOUBLE


def _neighbour(types: Types) -> t.DataType:
    """LAG and LEAD: NULL outside the partition unless there is a default that is not."""
    if len(types) == 3:
        found = kinds.common_type([types[0], types[2]])
        return found or types[0]
    return kinds.with_nullable(types[0], True)


_G, _W = "Aggregates", "Window functions"


def _aggregate(
    name: str, parameters: str, result: t.DataType | Result, example: str, *more: tuple[str, Result]
) -> FunctionDefinition:
    signatures = (signature(parameters, result), *(signature(*each) for each in more))
    return FunctionDefinition(
        name, signatures, Category.AGGREGATE, syntax=(example,), group=_G, aliases=_ALIASES.get(name, ())
    )


def _window(name: str, parameters: str, result: t.DataType | Result, example: str) -> FunctionDefinition:
    return FunctionDefinition(
        name, (signature(parameters, result),), Category.WINDOW, syntax=(example,), group=_W
    )


_ALIASES: dict[str, tuple[str, ...]] = {"VAR_SAMP": ("VARIANCE",), "$SUM0": ("SUM0",)}
_same: Callable[[Types], t.DataType] = as_argument(0)

DEFINITIONS: tuple[FunctionDefinition, ...] = (
    _aggregate("COUNT", "[any...]", always(_BIGINT), "COUNT(*) | COUNT([DISTINCT] expression, ...)"),
    _aggregate("SUM", "numeric", _sum, "SUM([DISTINCT] numeric)", ("interval", _same)),
    _aggregate("$SUM0", "numeric", always(_sum), "numeric.sum0 of the Table API: 0 without rows"),
    _aggregate("AVG", "numeric", _average, "AVG([DISTINCT] numeric)"),
    _aggregate("MIN", "any", _same, "MIN(expression)"),
    _aggregate("MAX", "any", _same, "MAX(expression)"),
    _aggregate("STDDEV_POP", "numeric", _average, "STDDEV_POP(numeric)"),
    _aggregate("STDDEV_SAMP", "numeric", nullable(_average), "STDDEV_SAMP(numeric)"),
    _aggregate("VAR_POP", "numeric", _average, "VAR_POP(numeric)"),
    _aggregate("VAR_SAMP", "numeric", nullable(_average), "VAR_SAMP(numeric)"),
    _aggregate("STDDEV", "numeric", nullable(_average), "STDDEV(numeric): STDDEV_SAMP"),
    _aggregate("COLLECT", "any", _multiset, "COLLECT([DISTINCT] expression)"),
    _aggregate("FIRST_VALUE", "any", _same, "FIRST_VALUE(expression)"),
    _aggregate("LAST_VALUE", "any", _same, "LAST_VALUE(expression)"),
    _aggregate("LISTAGG", "string, [literal_string]", nullable(_STRING), "LISTAGG(string [, separator])"),
    _aggregate("ARRAY_AGG", "any", _array, "ARRAY_AGG([DISTINCT] expression [IGNORE NULLS])"),
    _aggregate("SINGLE_VALUE", "any", nullable(_same), "the value of a scalar subquery's only row"),
    _aggregate(
        "PERCENTILE",
        "numeric, numeric, [integer]",
        nullable(_percentile),
        "PERCENTILE(expression, percentage [, frequency])",
        ("numeric, array, [integer]", nullable(_percentile)),
    ),
    _aggregate(
        "JSON_OBJECTAGG",
        "string, any",
        always(_STRING),
        "JSON_OBJECTAGG([KEY] key VALUE value [NULL | ABSENT ON NULL])",
    ),
    _aggregate("JSON_ARRAYAGG", "any", always(_STRING), "JSON_ARRAYAGG(item [NULL | ABSENT ON NULL])"),
    _aggregate("BITMAP_BUILD_AGG", "int", nullable(f.BitmapType()), "BITMAP_BUILD_AGG(int)"),
    _aggregate("BITMAP_BUILD_CARDINALITY_AGG", "int", nullable(_BIGINT), "BITMAP_BUILD_CARDINALITY_AGG(int)"),
    *(
        _aggregate(f"BITMAP_{name}_AGG", "bitmap", nullable(f.BitmapType()), f"BITMAP_{name}_AGG(bitmap)")
        for name in ("AND", "OR", "XOR")
    ),
    *(
        _aggregate(
            f"BITMAP_{name}_CARDINALITY_AGG",
            "bitmap",
            nullable(_BIGINT),
            f"BITMAP_{name}_CARDINALITY_AGG(bitmap)",
        )
        for name in ("AND", "OR", "XOR")
    ),
    _window("ROW_NUMBER", "", always(_BIGINT), "ROW_NUMBER() OVER (...)"),
    _window("RANK", "", always(_BIGINT), "RANK() OVER (...)"),
    _window("DENSE_RANK", "", always(_BIGINT), "DENSE_RANK() OVER (...)"),
    _window("PERCENT_RANK", "", always(_DOUBLE), "PERCENT_RANK() OVER (...)"),
    _window("CUME_DIST", "", always(_DOUBLE), "CUME_DIST() OVER (...)"),
    _window("NTILE", "integer", always(_BIGINT), "NTILE(n) OVER (...)"),
    _window("LAG", "any, [integer], [any]", _neighbour, "LAG(expression [, offset] [, default]) OVER (...)"),
    _window(
        "LEAD", "any, [integer], [any]", _neighbour, "LEAD(expression [, offset] [, default]) OVER (...)"
    ),
)
