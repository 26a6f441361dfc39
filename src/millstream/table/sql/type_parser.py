"""Reads the names of SQL types."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from millstream.base.errors import ConfigurationError
from millstream.table.sql.cursor import Cursor
from millstream.table.sql.errors import closest
from millstream.table.sql.lexer import TokenKind
from millstream.types import datatypes as sql
from millstream.types import further_types

__all__ = ["INTERVAL_UNITS", "parse_type"]

INTERVAL_UNITS = ("YEAR", "QUARTER", "MONTH", "WEEK", "DAY", "HOUR", "MINUTE", "SECOND")

_PLAIN: dict[str, Callable[[], sql.DataType]] = {
    "BOOLEAN": sql.BooleanType,
    "TINYINT": sql.TinyIntType,
    "SMALLINT": sql.SmallIntType,
    "INT": sql.IntType,
    "INTEGER": sql.IntType,
    "BIGINT": sql.BigIntType,
    "FLOAT": sql.FloatType,
    "DATE": sql.DateType,
    "STRING": sql.VarCharType,
    "BYTES": sql.VarBinaryType,
}
_SIZED: dict[str, tuple[Callable[[int], sql.DataType], int]] = {
    "CHAR": (sql.CharType, 1),
    "CHARACTER": (sql.CharType, 1),
    "VARCHAR": (sql.VarCharType, 1),
    "BINARY": (sql.BinaryType, 1),
    "VARBINARY": (sql.VarBinaryType, 1),
}
_DECIMALS = ("DECIMAL", "DEC", "NUMERIC")
_OTHERS = (
    "DOUBLE",
    "TIME",
    "TIMESTAMP",
    "TIMESTAMP_LTZ",
    "INTERVAL",
    "ARRAY",
    "MAP",
    "MULTISET",
    "ROW",
    "RAW",
    "STRUCTURED",
)
_ABSENT = ("BITMAP", "DESCRIPTOR", "NULL", "VARIANT")
_NAMES = (*_PLAIN, *_SIZED, *_DECIMALS, *_OTHERS)


def parse_type(cursor: Cursor) -> sql.DataType:
    """Read a type, with `NOT NULL`, and `ARRAY` or `MULTISET` behind it.

    Raises:
        SqlParseError: If none stands here.
    """
    cursor.enter()
    found = _nullability(cursor, _base(cursor))
    while suffix := cursor.take_one_of("ARRAY", "MULTISET"):
        found = (
            sql.ArrayType(found) if suffix == "ARRAY" else _made(cursor, "MultisetType", "MULTISET", found)
        )
        found = _nullability(cursor, found)
    cursor.leave()
    return found


def _nullability(cursor: Cursor, found: sql.DataType) -> sql.DataType:
    if cursor.take("NOT", "NULL"):
        found.nullable = False
    elif not cursor.ahead_is(1, "ON") and cursor.take("NULL"):  # RETURNING INT NULL ON EMPTY is no type
        found.nullable = True
    return found


def _base(cursor: Cursor) -> sql.DataType:
    token = cursor.current
    word = token.value if token.kind is TokenKind.WORD else ""
    if word in _PLAIN:
        cursor.advance()
        return _PLAIN[word]()
    if word in _SIZED:
        return _sized(cursor, word)
    if word in _DECIMALS:
        return _decimal(cursor)
    reader = _READERS.get(word)
    if reader is not None:
        cursor.advance()
        return reader(cursor)
    if word in _ABSENT:
        raise cursor.error(f"type {word} is not in millstream yet")
    if token.kind in (TokenKind.WORD, TokenKind.QUOTED) and (cursor.is_name or word):
        near = closest(token.value, _NAMES, 0.5)
        if cursor.is_name or near:
            hint = f"Did you mean {near}?" if near else f"Types are {', '.join(sorted(_NAMES))}."
            raise cursor.error(f'type "{token.text}" was not found', hint=hint)
    cursor.fail("a type")


def _sized(cursor: Cursor, word: str) -> sql.DataType:
    start = cursor.advance()
    if word in ("CHAR", "CHARACTER") and cursor.take("VARYING"):
        word = "VARCHAR"
    make, default = _SIZED[word]
    length = _one_size(cursor)
    if length == 0:
        raise cursor.error(f"{word}(0) does not exist", token=start, hint="The length is at least 1.")
    return make(default if length is None else length)


def _one_size(cursor: Cursor) -> int | None:
    if not cursor.take_symbol("("):
        return None
    size = cursor.integer("a length")
    cursor.expect_symbol(")")
    return size


def _decimal(cursor: Cursor) -> sql.DataType:
    start = cursor.advance()
    precision, scale = 10, 0
    if cursor.take_symbol("("):
        precision = cursor.integer("a number of digits")
        if cursor.take_symbol(","):
            scale = cursor.integer("a number of digits behind the point")
        cursor.expect_symbol(")")
    try:
        return sql.DecimalType(precision, scale)
    except ConfigurationError as error:
        raise cursor.error(error.message, at=cursor.since(start), hint=error.detail) from error


def _double(cursor: Cursor) -> sql.DataType:
    cursor.take("PRECISION")
    return sql.DoubleType()


def _precision(cursor: Cursor, default: int) -> int:
    token = cursor.current
    precision = _one_size(cursor)
    if precision is not None and precision > 9:
        raise cursor.error(
            f"a precision of {precision} does not exist", token=token, hint="It is from 0 to 9 digits."
        )
    return default if precision is None else precision


def _time(cursor: Cursor) -> sql.DataType:
    precision = _precision(cursor, 0)
    cursor.take("WITHOUT", "TIME", "ZONE")
    return sql.TimeType(precision)


def _timestamp(cursor: Cursor) -> sql.DataType:
    precision = _precision(cursor, 6)
    if cursor.take("WITH", "LOCAL", "TIME", "ZONE"):
        return sql.LocalZonedTimestampType(precision)
    if cursor.is_word("WITH", "TIME", "ZONE"):
        raise cursor.error(
            "type TIMESTAMP WITH TIME ZONE is not in Flink's SQL", hint="Use TIMESTAMP_LTZ, or TIMESTAMP."
        )
    cursor.take("WITHOUT", "TIME", "ZONE")
    return sql.TimestampType(precision)


def _timestamp_ltz(cursor: Cursor) -> sql.DataType:
    return sql.LocalZonedTimestampType(_precision(cursor, 6))


def _interval(cursor: Cursor) -> sql.DataType:
    first = cursor.expect_one_of(*INTERVAL_UNITS)
    _one_size(cursor)
    last = first
    if cursor.take("TO"):
        last = cursor.expect_one_of(*INTERVAL_UNITS)
        _one_size(cursor)
    if last in ("YEAR", "QUARTER", "MONTH"):
        return _made(cursor, "YearMonthIntervalType", "INTERVAL")
    return _made(cursor, "DayTimeIntervalType", "INTERVAL")


def _angle(cursor: Cursor) -> None:
    if not cursor.is_symbol("<"):
        cursor.fail('"<"')
    cursor.advance()


def _close(cursor: Cursor) -> None:
    cursor.expect_symbol(">")


def _array(cursor: Cursor) -> sql.DataType:
    _angle(cursor)
    element = parse_type(cursor)
    _close(cursor)
    return sql.ArrayType(element)


def _multiset(cursor: Cursor) -> sql.DataType:
    _angle(cursor)
    element = parse_type(cursor)
    _close(cursor)
    return _made(cursor, "MultisetType", "MULTISET", element)


def _map(cursor: Cursor) -> sql.DataType:
    _angle(cursor)
    key = parse_type(cursor)
    cursor.expect_symbol(",")
    value = parse_type(cursor)
    _close(cursor)
    return sql.MapType(key, value)


def _row(cursor: Cursor) -> sql.DataType:
    if cursor.take_symbol("<>"):
        return sql.RowType()
    closing = ")" if cursor.take_symbol("(") else ">"
    if closing == ">":
        _angle(cursor)
    fields: list[sql.RowField] = []
    while not cursor.is_symbol(closing):
        if fields:
            cursor.expect_symbol(",")
        token = cursor.current
        name = cursor.name("a field's name")
        kind = parse_type(cursor)
        if any(field.name == name for field in fields):
            raise cursor.error(f'a row type has two fields named "{name}"', token=token)
        described = cursor.string() if cursor.current.kind is TokenKind.STRING else None
        fields.append(sql.RowField(name, kind, described))
    cursor.advance()
    return sql.RowType(fields)


def _absent(cursor: Cursor) -> sql.DataType:
    token = cursor.tokens[cursor.index - 1]
    raise cursor.error(
        f"type {token.value} is not in millstream yet", token=token, hint="Use BYTES, or ROW<...>."
    )


def _made(cursor: Cursor, class_name: str, shown: str, *arguments: Any) -> sql.DataType:
    kind = getattr(sql, class_name, None) or getattr(further_types, class_name, None)
    if kind is None:
        raise cursor.error(f"type {shown} is not in millstream yet")
    made: sql.DataType = kind(*arguments)
    return made


_READERS: dict[str, Callable[[Cursor], sql.DataType]] = {
    "DOUBLE": _double,
    "TIME": _time,
    "TIMESTAMP": _timestamp,
    "TIMESTAMP_LTZ": _timestamp_ltz,
    "INTERVAL": _interval,
    "ARRAY": _array,
    "MULTISET": _multiset,
    "MAP": _map,
    "ROW": _row,
    "RAW": _absent,
    "STRUCTURED": _absent,
}
