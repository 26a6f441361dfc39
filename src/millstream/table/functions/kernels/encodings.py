"""Kernels of hashes, encodings, URLs and printf."""

from __future__ import annotations

import base64
import binascii
import hashlib
import re
import urllib.parse
from collections.abc import Callable
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from millstream.table.expressions.errors import EvaluationError
from millstream.table.functions.kernels.strings import python_function
from millstream.table.functions.kernels.texts import to_text
from millstream.table.functions.kernels.values import Factory, Kernel, Setting, Value, is_constant, per_row
from millstream.types import datatypes as t
from millstream.types.java_text import double_text

__all__ = ["KERNELS"]

_TEXT, _BYTES = pa.string(), pa.binary()


def _hash(name: str) -> Factory:
    return python_function(lambda text: hashlib.new(name, text.encode()).hexdigest(), _TEXT)


_LENGTHS = {0: "sha256", 224: "sha224", 256: "sha256", 384: "sha384", 512: "sha512"}


def _sha2(text: str, bits: int) -> str | None:
    name = _LENGTHS.get(bits)
    if name is None:
        raise EvaluationError(f"SHA2 has no hash of {bits} bits", hint="There are 224, 256, 384 and 512.")
    return hashlib.new(name, text.encode()).hexdigest()


def _from_base64(text: str) -> str:
    wrong = re.search(r"[^A-Za-z0-9+/=]", text)
    if wrong:
        raise EvaluationError(f"text {text!r} is not Base64: it has character {wrong[0]!r}")
    bare = text.rstrip("=")
    try:
        return base64.b64decode(bare + "=" * (-len(bare) % 4)).decode("utf-8", "replace")
    except (binascii.Error, ValueError) as error:
        raise EvaluationError(f"text {text!r} is not Base64: {error}") from error


def _to_base64(value: str | bytes) -> str:
    return base64.b64encode(value.encode() if isinstance(value, str) else value).decode()


_CHARSETS = {
    "US-ASCII": "ascii",
    "ISO-8859-1": "latin-1",
    "UTF-8": "utf-8",
    "UTF-16BE": "utf-16-be",
    "UTF-16LE": "utf-16-le",
    "UTF-16": "utf-16",
}


def _charset(name: str) -> str:
    found = _CHARSETS.get(name.upper())
    if found is None:
        raise EvaluationError(f"charset {name!r} does not exist", hint=f"There are {', '.join(_CHARSETS)}.")
    return found


def _decode(data: bytes | str, charset: str) -> str:
    raw = data.encode() if isinstance(data, str) else data
    return raw.decode(
        "utf-16-be" if _charset(charset) == "utf-16" and raw[:2] not in _MARKS else _charset(charset),
        "replace",
    )


_MARKS = (b"\xfe\xff", b"\xff\xfe")


def _encode(text: str, charset: str) -> bytes:
    name = _charset(charset)
    if name == "utf-16":
        return b"\xfe\xff" + text.encode("utf-16-be")
    return text.encode(name, "replace")


def _url_encode(text: str) -> str:
    return urllib.parse.quote_plus(text, safe="*").replace("~", "%7E")


_ESCAPE = re.compile(r"%(?![0-9A-Fa-f]{2})")


def _url_decode(text: str) -> str | None:
    return None if _ESCAPE.search(text) else urllib.parse.unquote_plus(text, errors="replace")


def _parse_url(url: str, part: str, key: str | None = None) -> str | None:
    try:
        found = urllib.parse.urlsplit(url)
        if not found.scheme:
            return None
    except ValueError:
        return None
    if key is not None and part != "QUERY":
        return None
    value = _url_part(found, part)
    if key is None or value is None:
        return value
    match = re.search(rf"(?:^|&){re.escape(key)}=([^&]*)", value)
    return match[1] if match else None


def _url_part(found: urllib.parse.SplitResult, part: str) -> str | None:
    authority, _, _ = found.netloc.partition("\0")
    userinfo = authority.rpartition("@")[0]
    host = authority.rpartition("@")[2]
    return {
        "HOST": re.sub(r":\d*$", "", host),
        "PATH": found.path,
        "QUERY": found.query or None,
        "REF": found.fragment or None,
        "PROTOCOL": found.scheme,
        "FILE": found.path + (f"?{found.query}" if found.query else ""),
        "AUTHORITY": authority or None,
        "USERINFO": userinfo or None,
    }.get(part)


# --- PRINTF: the formats of java.util.Formatter

_FORMAT = re.compile(r"%(?:(\d+)\$)?([-#+ 0,(]*)(\d+)?(?:\.(\d+))?([a-zA-Z%])")


def printf(pattern: str, *values: Any) -> str | None:
    """Return a text of `%d`, `%s`, `%f`, ... as Java formats them; None if the pattern does not fit the values."""
    place = 0

    def one(found: re.Match[str]) -> str:
        nonlocal place
        position, flags, width, precision, letter = found.groups()
        if letter == "n":
            return "\n"
        if letter == "%":
            return _aligned("%", flags, width)
        if position:
            value = values[int(position) - 1]
        else:
            value = values[place]
            place += 1
        return _formatted(value, flags, width, precision, letter)

    try:
        return _FORMAT.sub(one, pattern)
    except (IndexError, ValueError, TypeError):
        return None


def _aligned(text: str, flags: str, width: str | None) -> str:
    size = int(width or 0)
    return text.ljust(size) if "-" in flags else text.rjust(size)


def _formatted(value: Any, flags: str, width: str | None, precision: str | None, letter: str) -> str:
    upper = letter.isupper()
    kind = letter.lower()
    if kind == "s" or value is None or kind == "b":
        text = _plain_text(value) if kind != "b" else str(value is not None and value is not False).lower()
        text = text[: int(precision)] if precision else text
        return _aligned(text.upper() if upper else text, flags, width)
    if kind == "c":
        if isinstance(value, str):
            raise TypeError("%c takes numbers")
        return _aligned(value if isinstance(value, str) else chr(value), flags, width)
    sign = "+" if "+" in flags else " " if " " in flags else ""
    zero = "0" if "0" in flags and "-" not in flags else ""
    if kind in "xo" and value < 0:
        value += 1 << 32 if value >= -(1 << 31) else 1 << 64
    if kind == "d" and not isinstance(value, int):
        raise TypeError("%d takes integers")
    comma = "," if "," in flags and kind in "df" else ""
    digits = f".{precision or 6}" if kind in "efg" else ""
    if kind in "efg" and not isinstance(value, float):
        raise TypeError(f"%{kind} takes FLOAT and DOUBLE")
    number = value
    text = format(number, f"{sign}{zero}{width if zero and width else ''}{comma}{digits}{kind}")
    return _aligned(text.upper() if upper else text, flags, width)


def _plain_text(value: Any) -> str:
    if value is None:
        return "null"
    if isinstance(value, bool):
        return str(value).lower()
    return double_text(value) if isinstance(value, float) else str(value)


def _internal(value: Value, kind: t.DataType) -> Value:
    """Return days of a DATE and milliseconds of a TIME: what Flink gives to the formatter."""
    if isinstance(kind, t.DateType):
        return pc.cast(value, pa.int32())
    return pc.cast(pc.cast(value, pa.time32("ms")), pa.int32()) if isinstance(kind, t.TimeType) else value


def _printf(call: Any) -> Kernel:
    textual = [
        isinstance(each.type, t.TimestampType | t.ArrayType | t.RowType | t.MapType) for each in call.operands
    ]

    def kernel(setting: Setting, count: int, pattern: Value, *values: Value) -> Value:
        shown = [
            to_text(setting, value, operand.type) if text else _internal(value, operand.type)
            for value, operand, text in zip(values, call.operands[1:], textual[1:], strict=True)
        ]

        def row(form: str | None, *parts: Any) -> str | None:
            return None if form is None else printf(form, *parts)

        rows = 1 if all(map(is_constant, (pattern, *shown))) else count
        return per_row(row, _TEXT, [pattern, *shown], rows, strict=False)

    return kernel


def _json_quote(text: str) -> str:
    escaped = text.replace("\\", "\\\\").replace('"', '\\"').replace("/", "\\/")
    for char, code in (("\b", "b"), ("\f", "f"), ("\n", "n"), ("\r", "r"), ("\t", "t")):
        escaped = escaped.replace(char, f"\\{code}")
    parts = [char if 31 < ord(char) < 127 else _unicode(char) for char in escaped]
    return f'"{"".join(parts)}"'


def _unicode(char: str) -> str:
    data = char.encode("utf-16-be")
    return "".join(f"\\u{data[at]:02x}{data[at + 1]:02x}" for at in range(0, len(data), 2))


_JSON_ESCAPE = re.compile(r'\\(u[0-9a-fA-F]{4}|["\\/bfnrt])')
_PLAIN_ESCAPES = {"b": "\b", "f": "\f", "n": "\n", "r": "\r", "t": "\t"}


def _json_unquote(text: str) -> str:
    if len(text) < 2 or text[0] != '"' or text[-1] != '"':
        return text
    inner = text[1:-1]

    def one(found: re.Match[str]) -> str:
        code = found[1]
        return chr(int(code[1:], 16)) if code[0] == "u" else _PLAIN_ESCAPES.get(code, code)

    plain = _JSON_ESCAPE.sub(one, inner)
    return plain.encode("utf-16", "surrogatepass").decode("utf-16", "replace")


_Function = Callable[..., Any]
KERNELS: dict[str, Factory] = {
    "MD5": _hash("md5"),
    "SHA1": _hash("sha1"),
    "SHA224": _hash("sha224"),
    "SHA256": _hash("sha256"),
    "SHA384": _hash("sha384"),
    "SHA512": _hash("sha512"),
    "SHA2": python_function(_sha2, _TEXT),
    "FROM_BASE64": python_function(_from_base64, _TEXT),
    "TO_BASE64": python_function(_to_base64, _TEXT),
    "DECODE": python_function(_decode, _TEXT),
    "ENCODE": python_function(_encode, _BYTES),
    "URL_ENCODE": python_function(_url_encode, _TEXT),
    "URL_DECODE": python_function(_url_decode, _TEXT),
    "PARSE_URL": python_function(_parse_url, _TEXT),
    "PRINTF": _printf,
    "JSON_QUOTE": python_function(_json_quote, _TEXT),
    "JSON_UNQUOTE": python_function(_json_unquote, _TEXT),
}
