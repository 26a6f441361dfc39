"""Makes literals of their texts: numbers, dates, times, intervals."""

from __future__ import annotations

import datetime
import decimal
import re

from millstream.table.sql.ast import IntervalLiteral, LiteralValue
from millstream.table.sql.cursor import Cursor
from millstream.table.sql.lexer import Token, TokenKind
from millstream.types import datatypes as sql

__all__ = ["number_literal", "parse_interval", "string_literal", "time_literal"]

UNITS = {
    **{name: name for name in ("YEAR", "QUARTER", "MONTH", "WEEK", "DAY", "HOUR", "MINUTE", "SECOND")},
    **{f"{name}S": name for name in ("YEAR", "QUARTER", "MONTH", "WEEK", "DAY", "HOUR", "MINUTE", "SECOND")},
}
_MONTHS = {"YEAR": 12, "QUARTER": 3, "MONTH": 1}
_MILLISECONDS = {"WEEK": 604_800_000, "DAY": 86_400_000, "HOUR": 3_600_000, "MINUTE": 60_000, "SECOND": 1000}
_PARTS = ("DAY", "HOUR", "MINUTE", "SECOND")
_RANGES = {
    ("DAY", "HOUR"): r"(\d+) (\d{1,2})",
    ("DAY", "MINUTE"): r"(\d+) (\d{1,2}):(\d{1,2})",
    ("DAY", "SECOND"): r"(\d+) (\d{1,2}):(\d{1,2}):(\d{1,2}(?:\.\d+)?)",
    ("HOUR", "MINUTE"): r"(\d+):(\d{1,2})",
    ("HOUR", "SECOND"): r"(\d+):(\d{1,2}):(\d{1,2}(?:\.\d+)?)",
    ("MINUTE", "SECOND"): r"(\d+):(\d{1,2}(?:\.\d+)?)",
    ("YEAR", "MONTH"): r"(\d+)-(\d{1,2})",
}


def string_literal(value: str) -> LiteralValue:
    """Return a string as a literal: CHAR(n) NOT NULL."""
    return LiteralValue(value, sql.CharType(len(value), False))


def number_literal(cursor: Cursor, token: Token, negative: bool = False) -> LiteralValue:
    """Return a number as a literal: INT, BIGINT, DECIMAL or DOUBLE (with an exponent), NOT NULL."""
    text = token.text
    sign = -1 if negative else 1
    if "e" in text.lower():
        return LiteralValue(sign * float(text), sql.DoubleType(False))
    if text.isdigit():
        value = sign * int(text)
        if -(2**31) <= value < 2**31:
            return LiteralValue(value, sql.IntType(False))
        if -(2**63) <= value < 2**63:
            return LiteralValue(value, sql.BigIntType(False))
    number = decimal.Decimal(text)
    whole, _, fraction = text.partition(".")
    scale, precision = len(fraction), max(len(whole) + len(fraction), 1)  # the zero of 0.5 counts
    if abs(int(f"{whole}{fraction}" or 0)) >= 2**63:
        raise cursor.error(
            f"number {text} is out of the range of literals",
            token=token,
            hint=f"Its digits may make 2^63 - 1 at most; larger ones: CAST('{text}' AS DECIMAL(38, {scale})).",
        )
    return LiteralValue(
        number.copy_negate() if negative else number, sql.DecimalType(precision, scale, False)
    )


def time_literal(cursor: Cursor, kind: str, token: Token, text: str) -> LiteralValue:
    """Return `DATE '...'`, `TIME '...'`, `TIMESTAMP '...'` or `TIMESTAMP_LTZ '...'` as a literal."""
    try:
        if kind == "DATE":
            _must(r"\d{4}-\d{1,2}-\d{1,2}", text)
            year, month, day = map(int, text.split("-"))
            return LiteralValue(datetime.date(year, month, day), sql.DateType(False))
        if kind == "TIME":
            _must(r"\d{1,2}:\d{1,2}:\d{1,2}(\.\d{1,9})?", text)
            clock, digits = _clock(text)
            return LiteralValue(clock, sql.TimeType(digits, False))
        _must(r"\d{4}-\d{1,2}-\d{1,2} \d{1,2}:\d{1,2}:\d{1,2}(\.\d{1,9})?", text)
        day_text, clock_text = text.split(" ")
        year, month, day = map(int, day_text.split("-"))
        nanoseconds = text.partition(".")[2]
        if len(nanoseconds) > 6:
            _clock(clock_text.partition(".")[0])
            datetime.date(year, month, day)
            exact = sql.TimestampType if kind == "TIMESTAMP" else sql.LocalZonedTimestampType
            return LiteralValue(text, exact(len(nanoseconds), False))
        clock, digits = _clock(clock_text)
        moment = datetime.datetime.combine(datetime.date(year, month, day), clock)
    except ValueError as error:
        example = {"DATE": "'2024-01-31'", "TIME": "'12:30:00'"}.get(kind, "'2024-01-31 12:30:00'")
        raise cursor.error(
            f"'{text}' is not a {kind} literal: {error}", token=token, hint=f"Write {kind} {example}."
        ) from error
    made = sql.TimestampType if kind == "TIMESTAMP" else sql.LocalZonedTimestampType
    return LiteralValue(moment, made(digits, False))


def _must(pattern: str, text: str) -> None:
    if not re.fullmatch(pattern, text):
        raise ValueError("it has another form")


def _clock(text: str) -> tuple[datetime.time, int]:
    whole, _, fraction = text.partition(".")
    hour, minute, second = map(int, whole.split(":"))
    if fraction[6:].strip("0"):
        raise ValueError("nanoseconds of literals are not in millstream yet")
    return datetime.time(hour, minute, second, int(fraction[:6].ljust(6, "0")) if fraction else 0), len(
        fraction
    )


def parse_interval(cursor: Cursor) -> tuple[IntervalLiteral | None, Token | None, bool]:
    """Read what follows the word INTERVAL if its amount is a string or a number.

    Returns:
        The literal.
    """
    negative = cursor.take_symbol("-")
    if not negative:
        cursor.take_symbol("+")
    token = cursor.current
    if token.kind is TokenKind.STRING:
        text = cursor.string()
    elif token.kind is TokenKind.NUMBER:
        text = cursor.advance().text
    else:
        return None, token, negative
    stripped = text.strip()
    if stripped[:1] in ("-", "+"):
        negative ^= stripped[0] == "-"
        stripped = stripped[1:].strip()
    unit, precision = interval_unit(cursor)
    last = unit
    if cursor.take("TO"):
        last, _ = interval_unit(cursor)
    value, months = _amount(cursor, token, stripped, unit, last, precision)
    return IntervalLiteral(-value if negative else value, months, text), token, negative


def interval_unit(cursor: Cursor) -> tuple[str, int]:
    """Read a unit and how many digits it may have (2 by default)."""
    word = cursor.expect_one_of(*UNITS)
    precision = 2
    if cursor.take_symbol("("):
        precision = cursor.integer("a number of digits")
        if cursor.take_symbol(","):
            cursor.integer("a number of digits behind the point")
        cursor.expect_symbol(")")
    return UNITS[word], precision


def _amount(
    cursor: Cursor, token: Token, text: str, unit: str, last: str, precision: int
) -> tuple[int, bool]:
    if unit == last:
        pattern = r"(\d+(?:\.\d*)?|\.\d+)" if unit == "SECOND" else r"(\d+)"
    elif (unit, last) in _RANGES:
        pattern = _RANGES[unit, last]
    else:
        raise cursor.error(f"an interval from {unit} to {last} does not exist", token=token)
    match = re.fullmatch(pattern, text)
    shown = unit if unit == last else f"{unit} TO {last}"
    if match is None:
        raise cursor.error(f"'{text}' is not an interval of {shown}", token=token)
    parts = match.groups()
    whole = parts[0].partition(".")[0].lstrip("0")
    if len(whole) > precision:
        raise cursor.error(
            f"interval value {parts[0]} has more digits than {unit}({precision})",
            token=token,
            hint=f"Write {unit}({len(whole)}).",
        )
    if unit in _MONTHS:
        value = int(parts[0]) * _MONTHS[unit]
        return value + (int(parts[1]) if unit != last else 0), True
    units = (unit,) if unit == last else _PARTS[_PARTS.index(unit) : _PARTS.index(last) + 1]
    with decimal.localcontext(prec=100):  # whatever the program has set for its own sums
        total = decimal.Decimal(0)
        for name, part in zip(units, parts, strict=True):
            total += decimal.Decimal(part) * _MILLISECONDS[name]
        return int(total), False
