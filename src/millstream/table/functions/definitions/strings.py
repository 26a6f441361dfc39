"""Functions of text."""

from __future__ import annotations

from collections.abc import Sequence

from millstream.table.expressions.rex import Call, Literal, RowExpression
from millstream.table.functions import types as kinds
from millstream.table.functions.coercion import coerce
from millstream.table.functions.signatures import FunctionDefinition, Result, nullable, signature
from millstream.types import datatypes as t
from millstream.types.further_types import NullType

__all__ = ["DEFINITIONS"]

_STRING, _INT, _BOOLEAN, _BYTES = t.VarCharType(), t.IntType(), t.BooleanType(), t.VarBinaryType()
_BIGINT = t.BigIntType()
_GROUP = "Strings"


def _concat(operands: Sequence[RowExpression]) -> RowExpression | None:
    """`||`: of CHAR(a) and CHAR(b) CHAR(a + b); of others VARCHAR, no longer than it can be."""
    if len(operands) < 2:
        return None
    types = [each.type for each in operands]
    nullable_ = any(each.nullable for each in types)
    if all(kinds.is_binary(each) for each in types):
        return Call("||", tuple(operands), t.VarBinaryType(nullable=nullable_))
    texts = [coerce(each, _STRING) if isinstance(each.type, NullType) else each for each in operands]
    if not all(kinds.is_string(each.type) for each in texts):
        return None
    length = min(sum(each.type.length for each in texts), t.VarCharType.MAX_LENGTH)  # type: ignore[attr-defined]
    fixed = all(isinstance(each.type, t.CharType) for each in texts)
    kind = t.CharType(length, nullable_) if fixed else t.VarCharType(length, nullable_)
    return Call("||", tuple(texts), kind)


def _trim(operands: Sequence[RowExpression]) -> RowExpression | None:
    """TRIM(side, characters, text), as the parser makes it; TRIM(text) of the Table API."""
    if len(operands) == 1:
        operands = [Literal("BOTH", t.CharType(4, False)), Literal(" ", t.CharType(1, False)), operands[0]]
    if len(operands) != 3 or not isinstance(operands[0], Literal):
        return None
    side, characters, text = operands
    if not all(kinds.is_string(each.type) or isinstance(each, Literal) for each in (characters, text)):
        return None
    result = t.VarCharType(nullable=characters.type.nullable or text.type.nullable)
    return Call("TRIM", (side, coerce(characters, _STRING), coerce(text, _STRING)), result)


def _define(
    name: str,
    parameters: str,
    result: t.DataType | Result,
    example: str,
    *syntax: str,
    also: tuple[tuple[str, t.DataType | Result], ...] = (),
    aliases: tuple[str, ...] = (),
    fails: bool = False,
) -> FunctionDefinition:
    signatures = (signature(parameters, result), *(signature(*each) for each in also))
    return FunctionDefinition(
        name, signatures, syntax=syntax, group=_GROUP, example=example, aliases=aliases, fails=fails
    )


DEFINITIONS: tuple[FunctionDefinition, ...] = (
    FunctionDefinition(
        "||", bind=_concat, syntax=("string1 || string2",), group=_GROUP, example="'a' || 'b'"
    ),
    _define(
        "CHAR_LENGTH",
        "string",
        _INT,
        "CHAR_LENGTH('abc')",
        "CHAR_LENGTH(string)",
        aliases=("CHARACTER_LENGTH",),
    ),
    _define("UPPER", "string", _STRING, "UPPER('abc')", "UPPER(string)", aliases=("UCASE",)),
    _define("LOWER", "string", _STRING, "LOWER('ABC')", "LOWER(string)", aliases=("LCASE",)),
    _define(
        "POSITION", "string, string, [int]", _INT, "POSITION('b' IN 'abc')", "POSITION(string1 IN string2)"
    ),
    _define(
        "PRINTF", "string, [any...]", nullable(_STRING), "PRINTF('%d-%s', 1, 'a')", "PRINTF(format[, obj]*)"
    ),
    FunctionDefinition(
        "TRIM",
        bind=_trim,
        syntax=("TRIM([BOTH | LEADING | TRAILING] characters FROM string)", "TRIM(string)"),
        group=_GROUP,
        example="TRIM(BOTH 'x' FROM 'xxaxx')",
    ),
    _define("LTRIM", "string, [string]", _STRING, "LTRIM('  a ')", "LTRIM(str[, trimStr])"),
    _define("RTRIM", "string, [string]", _STRING, "RTRIM(' a  ')", "RTRIM(str[, trimStr])"),
    _define("BTRIM", "string, [string]", _STRING, "BTRIM('xxaxx', 'x')", "BTRIM(str[, trimStr])"),
    _define("REPEAT", "string, int", _STRING, "REPEAT('ab', 3)", "REPEAT(string, int)"),
    _define(
        "REGEXP_REPLACE",
        "string, string, string",
        nullable(_STRING),
        "REGEXP_REPLACE('a1b2', '[0-9]', '#')",
        "REGEXP_REPLACE(string, regex, replacement)",
    ),
    _define(
        "OVERLAY",
        "string, string, int, [int]",
        _STRING,
        "OVERLAY('xxxxxtest' PLACING 'xxxx' FROM 6)",
        "OVERLAY(string1 PLACING string2 FROM start [FOR length])",
    ),
    _define(
        "STARTSWITH",
        "string, string",
        _BOOLEAN,
        "STARTSWITH('abc', 'ab')",
        "STARTSWITH(expr, startExpr)",
        also=(("binary, binary", _BOOLEAN),),
    ),
    _define(
        "ENDSWITH",
        "string, string",
        _BOOLEAN,
        "ENDSWITH('abc', 'bc')",
        "ENDSWITH(expr, endExpr)",
        also=(("binary, binary", _BOOLEAN),),
    ),
    _define(
        "SUBSTRING",
        "string, int, [int]",
        nullable(_STRING),
        "SUBSTRING('hello' FROM 2 FOR 3)",
        "SUBSTRING(string FROM start [FOR length])",
        "SUBSTR(string, start[, length])",
        aliases=("SUBSTR",),
    ),
    _define(
        "REPLACE",
        "string, string, string",
        _STRING,
        "REPLACE('hello', 'l', 'L')",
        "REPLACE(string, old, new)",
    ),
    _define(
        "REGEXP_COUNT",
        "string, string",
        nullable(_INT),
        "REGEXP_COUNT('hello', 'l')",
        "REGEXP_COUNT(str, regex)",
    ),
    _define(
        "REGEXP_EXTRACT",
        "string, string, [int]",
        nullable(_STRING),
        "REGEXP_EXTRACT('foothebar', 'foo(.*?)(bar)', 2)",
        "REGEXP_EXTRACT(string, regex[, group])",
    ),
    _define(
        "REGEXP_EXTRACT_ALL",
        "string, string, [int]",
        nullable(t.ArrayType(_STRING)),
        "REGEXP_EXTRACT_ALL('a1b22', '[0-9]+', 0)",
        "REGEXP_EXTRACT_ALL(str, regex[, group])",
    ),
    _define(
        "REGEXP_INSTR",
        "string, string",
        nullable(_INT),
        "REGEXP_INSTR('abc', 'b')",
        "REGEXP_INSTR(str, regex)",
    ),
    _define(
        "REGEXP_SUBSTR",
        "string, string",
        nullable(_STRING),
        "REGEXP_SUBSTR('abc12', '[0-9]+')",
        "REGEXP_SUBSTR(str, regex)",
    ),
    _define(
        "REGEXP",
        "string, string",
        _BOOLEAN,
        "REGEXP('abc', 'b')",
        "REGEXP(string, regex)",
        aliases=("RLIKE",),
    ),
    _define(
        "TRANSLATE",
        "string, string, string",
        _STRING,
        "TRANSLATE('hello', 'el', 'ip')",
        "TRANSLATE(expr, fromStr, toStr)",
        aliases=("TRANSLATE3",),
    ),
    _define("INITCAP", "string", _STRING, "INITCAP('hello wORLD')", "INITCAP(string)"),
    _define("CONCAT", "string...", _STRING, "CONCAT('a', 'b', 'c')", "CONCAT(string1, string2, ...)"),
    _define(
        "CONCAT_WS",
        "string, text...",
        lambda types: t.VarCharType(nullable=types[0].nullable),
        "CONCAT_WS('~', 'a', 'b')",
        "CONCAT_WS(separator, string1, ...)",
    ),
    _define(
        "LPAD", "string, int, string", nullable(_STRING), "LPAD('hi', 4, '??')", "LPAD(string, int, pad)"
    ),
    _define(
        "RPAD", "string, int, string", nullable(_STRING), "RPAD('hi', 4, '??')", "RPAD(string, int, pad)"
    ),
    _define(
        "FROM_BASE64",
        "string",
        nullable(_STRING),
        "FROM_BASE64('aGVsbG8=')",
        "FROM_BASE64(string)",
        fails=True,
    ),
    _define(
        "TO_BASE64",
        "string",
        nullable(_STRING),
        "TO_BASE64('hello')",
        "TO_BASE64(string)",
        also=(("binary", nullable(_STRING)),),
    ),
    _define("ASCII", "string", _INT, "ASCII('abc')", "ASCII(string)"),
    _define("CHR", "bigint", _STRING, "CHR(97)", "CHR(integer)"),
    _define(
        "DECODE",
        "bytes_or_string, string",
        nullable(_STRING),
        "DECODE(ENCODE('abc', 'UTF-8'), 'UTF-8')",
        "DECODE(binary, charset)",
        fails=True,
    ),
    _define(
        "ENCODE",
        "string, string",
        nullable(_BYTES),
        "ENCODE('a', 'UTF-8')",
        "ENCODE(string, charset)",
        fails=True,
    ),
    _define("INSTR", "string, string, [int], [int]", _INT, "INSTR('hello', 'l')", "INSTR(string1, string2)"),
    _define("LEFT", "string, int", _STRING, "LEFT('hello', 2)", "LEFT(string, integer)"),
    _define("RIGHT", "string, int", _STRING, "RIGHT('hello', 2)", "RIGHT(string, integer)"),
    _define(
        "LOCATE",
        "string, string, [int]",
        _INT,
        "LOCATE('l', 'hello', 4)",
        "LOCATE(string1, string2[, start])",
    ),
    _define("URL_DECODE", "string", nullable(_STRING), "URL_DECODE('a%20b')", "URL_DECODE(string)"),
    _define("URL_ENCODE", "string", nullable(_STRING), "URL_ENCODE('a b/c')", "URL_ENCODE(string)"),
    _define(
        "PARSE_URL",
        "string, string, [string]",
        nullable(_STRING),
        "PARSE_URL('http://h/p?q=1', 'QUERY', 'q')",
        "PARSE_URL(url, part[, key])",
    ),
    _define("REVERSE", "string", _STRING, "REVERSE('abc')", "REVERSE(string)"),
    _define(
        "SPLIT_INDEX",
        "string, string, int",
        nullable(_STRING),
        "SPLIT_INDEX('a/b/c', '/', 1)",
        "SPLIT_INDEX(string, separator, index)",
        also=(("string, int, int", nullable(_STRING)),),
    ),
    _define(
        "STR_TO_MAP",
        "string, [string], [string]",
        t.MapType(_STRING, _STRING),
        "STR_TO_MAP('a=1,b=2')",
        "STR_TO_MAP(string[, listDelimiter, keyValueDelimiter])",
    ),
    _define("JSON_QUOTE", "string", nullable(_STRING), "JSON_QUOTE('a\"b')", "JSON_QUOTE(string)"),
    _define("JSON_UNQUOTE", "string", nullable(_STRING), "JSON_UNQUOTE('\"a\"')", "JSON_UNQUOTE(string)"),
    FunctionDefinition(
        "ELT",
        (
            signature("integer, string...", nullable(_STRING)),
            signature("integer, binary...", nullable(_BYTES)),
        ),
        syntax=("ELT(index, expr[, exprs]*)",),
        group=_GROUP,
        example="ELT(2, 'a', 'b')",
    ),
    _define("INET_ATON", "string", nullable(_BIGINT), "INET_ATON('1.2.3.4')", "INET_ATON(string)"),
    _define("INET_NTOA", "bigint", nullable(_STRING), "INET_NTOA(16909060)", "INET_NTOA(bigint)"),
    _define(
        "SPLIT",
        "string, string",
        t.ArrayType(_STRING),
        "SPLIT('a,b,c', ',')",
        "SPLIT(string, delimiter)",
    ),
    *(
        _define(name, "string", t.CharType(length), f"{name}('abc')", f"{name}(string)")
        for name, length in (
            ("MD5", 32),
            ("SHA1", 40),
            ("SHA224", 56),
            ("SHA256", 64),
            ("SHA384", 96),
            ("SHA512", 128),
        )
    ),
    _define("SHA2", "string, int", t.VarCharType(128), "SHA2('abc', 256)", "SHA2(string, hashLength)"),
)
