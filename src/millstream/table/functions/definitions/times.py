"""Functions of dates, times and timestamps."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from millstream.table.expressions.rex import Call, Literal, RowExpression
from millstream.table.functions import types as kinds
from millstream.table.functions.coercion import coerce
from millstream.table.functions.definitions.numbers import WHOLE
from millstream.table.functions.definitions.predicates import compare
from millstream.table.functions.signatures import FunctionDefinition, Result, always, nullable, signature
from millstream.types import datatypes as t
from millstream.types import further_types as f

__all__ = ["DEFINITIONS", "UNITS"]

Operands = Sequence[RowExpression]
Bound = RowExpression | None
_STRING, _BIGINT = t.VarCharType(), t.BigIntType()
_LTZ3, _TIMESTAMP3 = t.LocalZonedTimestampType(3), t.TimestampType(3)
_GROUP = "Dates and times"

_PLURAL = ("YEAR", "QUARTER", "MONTH", "WEEK", "DAY", "HOUR", "MINUTE", "SECOND")
UNITS = {
    **{f"{name}S": name for name in _PLURAL},
    **{f"SQL_TSI_{name}": name for name in (*_PLURAL, "MICROSECOND")},
}
_EXTRACTED = frozenset(
    (*_PLURAL, "MILLISECOND", "MICROSECOND", "NANOSECOND", "DOW", "ISODOW", "DOY", "ISOYEAR", "EPOCH")
) | {"DECADE", "CENTURY", "MILLENNIUM"}
_MONTHS = {"YEAR": 12, "QUARTER": 3, "MONTH": 1}
_MILLISECONDS = {"WEEK": 604_800_000, "DAY": 86_400_000, "HOUR": 3_600_000, "MINUTE": 60_000, "SECOND": 1000}


def _unit(operand: RowExpression) -> str | None:
    if not isinstance(operand, Literal) or not isinstance(operand.value, str):
        return None
    name = operand.value.strip().upper()
    return UNITS.get(name, name)


def _as_unit(name: str) -> Literal:
    return Literal(name, t.CharType(len(name), False))


def _extract(operands: Operands) -> Bound:
    if len(operands) != 2:
        return None
    unit, value = _unit(operands[0]), operands[1]
    if unit not in _EXTRACTED or not (kinds.is_time_point(value.type) or kinds.is_interval(value.type)):
        return None
    return Call("EXTRACT", (_as_unit(unit), value), t.BigIntType(value.type.nullable))


def _part(name: str) -> Callable[[Operands], Bound]:
    return lambda operands: _extract([_as_unit(name), *operands])


def _rounded(name: str) -> Callable[[Operands], Bound]:
    """CEIL and FLOOR, of numbers or `TO` a unit of time."""

    def bind(operands: Operands) -> Bound:
        if len(operands) == 1 and kinds.is_numeric(operands[0].type):
            return Call(name, tuple(operands), WHOLE([operands[0].type]))
        if len(operands) != 2 or not kinds.is_time_point(operands[0].type):
            return None
        unit = _unit(operands[1])
        if unit not in _ROUNDED:
            return None
        return Call(f"{name} TO", (operands[0], _as_unit(unit)), operands[0].type)

    return bind


_ROUNDED = frozenset((*_PLURAL, "MILLISECOND", "MICROSECOND", "DECADE", "CENTURY", "MILLENNIUM"))


def _timestamp_add(operands: Operands) -> Bound:
    if len(operands) != 3 or not kinds.is_integer(operands[1].type):
        return None
    unit, amount, point = _unit(operands[0]), operands[1], operands[2]
    if not kinds.is_time_point(point.type) or unit not in _MONTHS | _MILLISECONDS:
        return None
    nullable_ = amount.type.nullable or point.type.nullable
    interval: t.DataType
    if unit in _MONTHS:
        interval, factor = f.YearMonthIntervalType(nullable=amount.type.nullable), _MONTHS[unit]
    else:
        interval, factor = f.DayTimeIntervalType(nullable=amount.type.nullable), _MILLISECONDS[unit]
    scaled = Call(
        "* INTERVAL",
        (Literal(factor, kinds.with_nullable(interval, False)), coerce(amount, _BIGINT)),
        interval,
    )
    if isinstance(point.type, t.DateType) and unit in ("HOUR", "MINUTE", "SECOND"):
        point = coerce(point, t.TimestampType(6))
    return Call("+ INTERVAL", (point, scaled), kinds.with_nullable(point.type, nullable_))


def _timestamp_diff(operands: Operands) -> Bound:
    if len(operands) != 3:
        return None
    unit, start, end = _unit(operands[0]), operands[1], operands[2]
    known = unit in _MONTHS or unit in _MILLISECONDS
    if not known or not all(kinds.is_time_point(each.type) for each in (start, end)):
        return None
    common = kinds.common_type([start.type, end.type])
    if common is None:
        days = [isinstance(each.type, t.DateType) for each in (start, end)]
        if days == [False, False] or any(isinstance(each.type, t.TimeType) for each in (start, end)):
            return None
        common = end.type if days[0] else start.type
    assert unit is not None
    result = t.IntType(start.type.nullable or end.type.nullable)
    return Call("TIMESTAMPDIFF", (_as_unit(unit), coerce(start, common), coerce(end, common)), result)


def _overlaps(operands: Operands) -> Bound:
    """(a, b) OVERLAPS (c, d): points or intervals as ends; both ends belong to the spans."""
    if len(operands) != 4 or not kinds.is_time_point(operands[0].type):
        return None
    spans: list[tuple[RowExpression, RowExpression]] = []
    for start, end in (operands[:2], operands[2:]):
        if kinds.is_interval(end.type):
            end = Call("+ INTERVAL", (start, end), start.type)
        greater = compare(">", start, end)
        if greater is None:
            return None
        kind = kinds.common_type([start.type, end.type])
        assert kind is not None
        low = Call("CASE", (greater, coerce(end, kind), coerce(start, kind)), kind)
        high = Call("CASE", (greater, coerce(start, kind), coerce(end, kind)), kind)
        spans.append((low, high))
    (a, b), (c, d) = spans
    first, second = compare(">=", b, c), compare(">=", d, a)
    if first is None or second is None:
        return None
    return Call("AND", (first, second), t.BooleanType(any(each.type.nullable for each in operands)))


def _define(
    name: str,
    parameters: str,
    result: t.DataType | Result,
    example: str,
    *syntax: str,
    also: tuple[tuple[str, t.DataType | Result], ...] = (),
    deterministic: bool = True,
    fails: bool = False,
) -> FunctionDefinition:
    signatures = (signature(parameters, result), *(signature(*each) for each in also))
    return FunctionDefinition(
        name,
        signatures,
        syntax=syntax,
        group=_GROUP,
        example=example,
        deterministic=deterministic,
        fails=fails,
    )


def _now(name: str, kind: t.DataType, *syntax: str) -> FunctionDefinition:
    return _define(name, "", always(kind), "", *(syntax or (name,)), deterministic=False)


def _bound(
    name: str, bind: Callable[[Operands], Bound], example: str, *syntax: str, aliases: tuple[str, ...] = ()
) -> FunctionDefinition:
    return FunctionDefinition(name, bind=bind, syntax=syntax, group=_GROUP, example=example, aliases=aliases)


DEFINITIONS: tuple[FunctionDefinition, ...] = (
    _now("LOCALTIME", t.TimeType(0)),
    _now("LOCALTIMESTAMP", _TIMESTAMP3),
    _now("CURRENT_TIME", t.TimeType(0)),
    _now("CURRENT_DATE", t.DateType()),
    _now("CURRENT_TIMESTAMP", _LTZ3),
    _now("NOW", _LTZ3, "NOW()"),
    _now("CURRENT_ROW_TIMESTAMP", _LTZ3, "CURRENT_ROW_TIMESTAMP()"),
    _now("PROCTIME", _LTZ3, "PROCTIME()"),
    _define(
        "CURRENT_WATERMARK",
        "timestamp",
        lambda types: kinds.with_nullable(types[0], True),
        "",
        "CURRENT_WATERMARK(rowtime)",
        deterministic=False,
    ),
    _define(
        "SOURCE_WATERMARK",
        "",
        nullable(_TIMESTAMP3),
        "",
        "SOURCE_WATERMARK(): in WATERMARK FOR ... AS, what the source says",
        deterministic=False,
    ),
    _bound(
        "EXTRACT",
        _extract,
        "EXTRACT(DOW FROM DATE '2024-02-29')",
        "EXTRACT(unit FROM temporal)",
    ),
    *(
        _bound(name, _part(unit), f"{name}(TIMESTAMP '2024-02-29 13:45:56')", f"{name}(time)")
        for name, unit in (
            ("YEAR", "YEAR"),
            ("QUARTER", "QUARTER"),
            ("MONTH", "MONTH"),
            ("WEEK", "WEEK"),
            ("DAYOFYEAR", "DOY"),
            ("DAYOFMONTH", "DAY"),
            ("DAYOFWEEK", "DOW"),
            ("HOUR", "HOUR"),
            ("MINUTE", "MINUTE"),
            ("SECOND", "SECOND"),
        )
    ),
    _bound(
        "FLOOR",
        _rounded("FLOOR"),
        "FLOOR(TIMESTAMP '2024-02-29 13:45:56' TO HOUR)",
        "FLOOR(numeric)",
        "FLOOR(time TO unit)",
    ),
    _bound(
        "CEIL",
        _rounded("CEIL"),
        "CEIL(DATE '2024-02-29' TO MONTH)",
        "CEIL(numeric), CEILING(numeric)",
        "CEIL(time TO unit)",
        aliases=("CEILING",),
    ),
    _bound(
        "OVERLAPS",
        _overlaps,
        "(TIME '2:55:00', INTERVAL '1' HOUR) OVERLAPS (TIME '3:30:00', INTERVAL '2' HOUR)",
        "(time1, end1) OVERLAPS (time2, end2)",
    ),
    _define(
        "DATE_FORMAT",
        "timestamp, string",
        nullable(_STRING),
        "DATE_FORMAT(TIMESTAMP '2024-02-29 13:45:56', 'yyyy/MM/dd HH:mm')",
        "DATE_FORMAT(timestamp, format)",
        also=(("string, string", nullable(_STRING)),),
        fails=True,
    ),
    _bound(
        "TIMESTAMPADD",
        _timestamp_add,
        "TIMESTAMPADD(MONTH, 1, DATE '2024-01-31')",
        "TIMESTAMPADD(unit, integer, time)",
    ),
    _bound(
        "TIMESTAMPDIFF",
        _timestamp_diff,
        "TIMESTAMPDIFF(DAY, DATE '2024-01-01', DATE '2024-03-01')",
        "TIMESTAMPDIFF(unit, time1, time2)",
    ),
    _define(
        "CONVERT_TZ",
        "string, string, string",
        nullable(_STRING),
        "CONVERT_TZ('1970-01-01 00:00:00', 'UTC', 'America/Los_Angeles')",
        "CONVERT_TZ(string, zone1, zone2)",
        also=(("timestamp, string, string", nullable(_STRING)),),
    ),
    _define(
        "FROM_UNIXTIME",
        "bigint, [string]",
        nullable(_STRING),
        "FROM_UNIXTIME(1700000000, 'yyyy/MM/dd')",
        "FROM_UNIXTIME(numeric[, format])",
    ),
    _define(
        "UNIX_TIMESTAMP",
        "",
        always(_BIGINT),
        "UNIX_TIMESTAMP('2024-01-01 00:00:00')",
        "UNIX_TIMESTAMP()",
        "UNIX_TIMESTAMP(string[, format])",
        also=(("string, [string]", _BIGINT),),
        deterministic=False,
    ),
    _define(
        "TO_DATE",
        "string, [string]",
        nullable(t.DateType()),
        "TO_DATE('29/02/2024', 'dd/MM/yyyy')",
        "TO_DATE(string[, format])",
    ),
    _define(
        "TO_TIMESTAMP_LTZ",
        "integer, [int]",
        nullable(_LTZ3),
        "CAST(TO_TIMESTAMP_LTZ(1700000000, 0) AS STRING)",
        "TO_TIMESTAMP_LTZ(numeric[, precision])",
        "TO_TIMESTAMP_LTZ(string[, format[, zone]])",
        also=(("number_as_bigint, [int]", nullable(_LTZ3)), ("string, [string], [string]", nullable(_LTZ3))),
        fails=True,
    ),
    _define(
        "TO_TIMESTAMP",
        "string, [string]",
        nullable(_TIMESTAMP3),
        "TO_TIMESTAMP('2024-02-29 13:45:56')",
        "TO_TIMESTAMP(string[, format])",
    ),
    _define(
        "CURRENT_DATABASE",
        "",
        always(_STRING),
        "",
        "CURRENT_DATABASE()",
        deterministic=False,
    ),
)
