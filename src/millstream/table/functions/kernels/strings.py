"""Kernels of functions of text.

What Arrow does for constants and ASCII it does; the rest is computed for distinct values in Python, where a character
is a code point, as it is in Flink.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from functools import reduce
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from millstream.table.functions.kernels.values import (
    Factory,
    Kernel,
    Setting,
    Value,
    as_array,
    is_constant,
    per_row,
)

__all__ = ["KERNELS", "python_function"]

_TEXT, _INT, _BOOL = pa.string(), pa.int32(), pa.bool_()


def python_function(function: Callable[..., Any], kind: pa.DataType, *, strict: bool = True) -> Factory:
    """Return the factory of a kernel that calls a Python function for distinct rows."""

    def make(call: Any) -> Kernel:
        return lambda setting, count, *values: per_row(function, kind, values, count, strict=strict)

    return make


def is_ascii(value: Value) -> bool:
    """Whether all of a value's texts are of ASCII."""
    if is_constant(value):
        return value.as_py() is None or value.as_py().isascii()
    found = pc.all(pc.string_is_ascii(value)).as_py()
    return found is not False


def _constants_only(*values: Value) -> bool:
    return all(map(is_constant, values))


def _constants(*values: Value) -> list[Any] | None:
    """Return the Python values if all are constants and none is NULL."""
    if not all(map(is_constant, values)):
        return None
    found = [each.as_py() for each in values]
    return None if any(each is None for each in found) else found


def _cased(fast: Callable[[Value], Value], slow: Callable[[str], str]) -> Factory:
    def make(call: Any) -> Kernel:
        def kernel(setting: Setting, count: int, value: Value) -> Value:
            return fast(value) if is_ascii(value) else per_row(slow, _TEXT, [value], count)

        return kernel

    return make


def _concat(call: Any) -> Kernel:
    def kernel(setting: Setting, count: int, *values: Value) -> Value:
        if len(values) == 1:
            return values[0]
        return pc.binary_join_element_wise(*values, _empty(values[0]), null_handling="emit_null")

    return kernel


def _empty(value: Value) -> pa.Scalar:
    return pa.scalar(b"" if pa.types.is_binary(value.type) else "", value.type)


def _concat_ws(call: Any) -> Kernel:
    def kernel(setting: Setting, count: int, separator: Value, *values: Value) -> Value:
        if not _constants_only(separator, *values):
            values = tuple(as_array(each, count) for each in values)
        # Arrow leaves rows out where all values are NULL
        missing = reduce(pc.and_, map(pc.is_null, values))
        first = pc.if_else(missing, "", values[0])
        joined = first
        if len(values) > 1:
            joined = pc.binary_join_element_wise(first, *values[1:], separator, null_handling="skip")
        if is_constant(separator) and separator.is_valid:
            return joined
        return pc.if_else(pc.is_valid(separator), joined, pa.scalar(None, _TEXT))

    return kernel


# --- positions


def _find(text: str, part: str, start: int = 1) -> int:
    """Return the place of a part, from 1; 0 if it is not there."""
    return text.find(part, max(start, 1) - 1) + 1 if part else 1


def _position(text_place: int, part_place: int) -> Factory:
    def make(call: Any) -> Kernel:
        def kernel(setting: Setting, count: int, *values: Value) -> Value:
            text, part, rest = values[text_place], values[part_place], values[2:]
            known = _constants(part)
            if known is not None and not rest and not is_constant(text) and is_ascii(text):
                return pc.cast(pc.add(pc.find_substring(text, known[0]), 1), _INT)
            return per_row(_find_nth, _INT, [text, part, *rest], count)

        return kernel

    return make


def _find_nth(text: str, part: str, start: int = 1, which: int = 1) -> int:
    place = _find(text, part, start)
    while place and which > 1:
        place = _find(text, part, place + 1)
        which -= 1
    return place


# --- parts


def substring(text: str, start: int, length: int | None = None) -> str | None:
    """Return a part of a text; places are from 1, negative ones from the end."""
    if length is not None and length < 0:
        return None
    size = len(text)
    begin = start - 1 if start > 0 else size + start if start < 0 else 0
    if begin < 0 or begin >= size:
        return ""
    return text[begin:] if length is None else text[begin : begin + length]


def _substring(call: Any) -> Kernel:
    def kernel(setting: Setting, count: int, text: Value, *bounds: Value) -> Value:
        known = _constants(*bounds)
        if known is None or is_constant(text) or known[0] < 0 or (len(known) > 1 and known[1] < 0):
            return per_row(substring, _TEXT, [text, *bounds], count)
        begin = max(known[0] - 1, 0)
        end = begin + known[1] if len(known) > 1 else None
        return pc.utf8_slice_codeunits(text, begin, end)

    return kernel


def _left(call: Any) -> Kernel:
    def kernel(setting: Setting, count: int, text: Value, size: Value) -> Value:
        known = _constants(size)
        if known is not None and not is_constant(text):
            return pc.utf8_slice_codeunits(text, 0, max(known[0], 0))
        return per_row(lambda text, size: text[:size] if size > 0 else "", _TEXT, [text, size], count)

    return kernel


def _right(call: Any) -> Kernel:
    def kernel(setting: Setting, count: int, text: Value, size: Value) -> Value:
        known = _constants(size)
        if known is not None and known[0] > 0 and not is_constant(text):
            return pc.utf8_slice_codeunits(text, -known[0])
        return per_row(lambda text, size: text[-size:] if size > 0 else "", _TEXT, [text, size], count)

    return kernel


def _pad(left: bool) -> Factory:
    def one(text: str, size: int, pad: str) -> str | None:
        if size < 0 or not pad:
            return None
        missing = size - len(text)
        if missing <= 0:
            return text[:size]
        filling = (pad * (missing // len(pad) + 1))[:missing]
        return filling + text if left else text + filling

    def make(call: Any) -> Kernel:
        def kernel(setting: Setting, count: int, text: Value, size: Value, pad: Value) -> Value:
            known = _constants(size, pad)
            if known is not None and known[0] >= 0 and len(known[1]) == 1 and not is_constant(text):
                padded = (pc.utf8_lpad if left else pc.utf8_rpad)(text, known[0], known[1])
                return pc.utf8_slice_codeunits(padded, 0, known[0])
            return per_row(one, _TEXT, [text, size, pad], count)

        return kernel

    return make


def overlay(text: str, other: str, start: int, length: int | None = None) -> str:
    """Return a text with a part replaced; without one that reaches the end nothing follows."""
    length = len(other) if length is None else length
    if start <= 0 or start > len(text):
        return text
    tail = text[start - 1 + length :] if length > 0 and start + length <= len(text) else ""
    return text[: start - 1] + other + tail


def _trim_side(fast: Any, slow: Callable[[str, str], str]) -> Callable[[Value, Value, int], Value]:
    def trim(text: Value, characters: Value, count: int) -> Value:
        known = _constants(characters)
        if known is not None and known[0]:
            return fast(text, characters=known[0])
        return per_row(
            lambda text, chars: slow(text, chars) if chars else text, _TEXT, [text, characters], count
        )

    return trim


_SIDES = {
    "BOTH": _trim_side(pc.utf8_trim, str.strip),
    "LEADING": _trim_side(pc.utf8_ltrim, str.lstrip),
    "TRAILING": _trim_side(pc.utf8_rtrim, str.rstrip),
}


def _trim(call: Any) -> Kernel:
    trim = _SIDES[call.operands[0].value.strip().upper()]
    return lambda setting, count, side, characters, text: trim(text, characters, count)


def _trim_function(side: str) -> Factory:
    trim = _SIDES[side]
    blank = pa.scalar(" ", pa.string())

    def make(call: Any) -> Kernel:
        def kernel(setting: Setting, count: int, text: Value, characters: Value = blank) -> Value:
            return trim(text, characters, count)

        return kernel

    return make


def _repeat(call: Any) -> Kernel:
    def kernel(setting: Setting, count: int, text: Value, times: Value) -> Value:
        times = pc.max_element_wise(times, pa.scalar(0, times.type), skip_nulls=False)
        return pc.binary_repeat(text, times)

    return kernel


def _replace(call: Any) -> Kernel:
    def kernel(setting: Setting, count: int, text: Value, old: Value, new: Value) -> Value:
        known = _constants(old, new)
        if known is not None and known[0]:
            return pc.replace_substring(text, pattern=known[0], replacement=known[1])
        return per_row(str.replace, _TEXT, [text, old, new], count)

    return kernel


def _edge(fast: Callable[[Value, Any], Value], name: str) -> Factory:
    def make(call: Any) -> Kernel:
        def kernel(setting: Setting, count: int, text: Value, part: Value) -> Value:
            known = _constants(part)
            if known is not None and not is_constant(text):
                return fast(text, known[0])
            return per_row(lambda text, part: getattr(text, name)(part), _BOOL, [text, part], count)

        return kernel

    return make


_WORD = re.compile(r"[A-Za-z0-9]+")  # of ASCII only: so does Flink


def initcap(text: str) -> str:
    """Return a text with each word of letters and digits beginning with a capital."""
    return _WORD.sub(lambda found: found[0][0].upper() + found[0][1:].lower(), text)


def translate(text: str, old: str, new: str) -> str:
    """Return a text with characters replaced one by one; those without a counterpart vanish."""
    table: dict[int, str | None] = {}
    for place, char in enumerate(old):
        table.setdefault(ord(char), new[place] if place < len(new) else None)
    return text.translate(table)


def _translate_row(text: str | None, old: str | None, new: str | None) -> str | None:
    return text if text is None or not old else translate(text, old, new or "")


# --- splitting


def split_index(text: str, separator: str | int, index: int) -> str | None:
    """Return the part at a place, from 0; None if there is none."""
    if index < 0 or not text:
        return None
    sign = chr(separator) if isinstance(separator, int) else separator
    parts = text.split(sign) if sign else re.split(r"\s", text)
    return parts[index] if index < len(parts) else None


def _split_index(call: Any) -> Kernel:
    def kernel(setting: Setting, count: int, text: Value, separator: Value, index: Value) -> Value:
        known = _constants(separator, index)
        quick = known is not None and isinstance(known[0], str) and known[0] and 0 <= known[1] < 64
        if not quick or is_constant(text):
            return per_row(split_index, _TEXT, [text, separator, index], count)
        assert known is not None
        parts = pc.split_pattern(text, known[0], max_splits=known[1] + 1)
        enough = pc.and_(
            pc.greater(pc.list_value_length(parts), known[1]), pc.greater(pc.binary_length(text), 0)
        )
        fixed = pc.list_slice(parts, known[1], known[1] + 1, return_fixed_size_list=True)
        chosen = fixed.flatten() if fixed.null_count == 0 else None
        if chosen is None or len(chosen) != count:
            return per_row(split_index, _TEXT, [text, separator, index], count)
        return pc.if_else(enough, chosen, pa.scalar(None, _TEXT))

    return kernel


def _split(text: str, separator: str) -> list[str]:
    return text.split(separator) if separator else list(text)


def _java_split(text: str, pattern: str, limit: int = 0) -> list[str]:
    """Split as Java does: at a regular expression, without empty parts at the end."""
    parts = re.split(pattern, text, maxsplit=max(limit - 1, 0))
    if limit == 0:
        while len(parts) > 1 and not parts[-1]:
            parts.pop()
    return parts


def str_to_map(text: str, between: str = ",", inside: str = "=") -> list[tuple[str, str | None]]:
    """Return the entries of a text such as `a=1,b=2`; a later key replaces an earlier one."""
    found: dict[str, str | None] = {}
    if not text:
        return []
    for part in _java_split(text, between):
        pair = _java_split(part, inside, 2)
        found[pair[0]] = pair[1] if len(pair) == 2 else None
    return sorted(found.items(), key=lambda entry: _java_bucket(entry[0], len(found)))


def _java_bucket(key: str, size: int) -> int:
    """Return the place of a key in a `java.util.HashMap` of so many: the order in which Flink gives them."""
    code = 0
    data = key.encode("utf-16-be", "surrogatepass")
    for at in range(0, len(data), 2):
        code = (31 * code + (data[at] << 8) + data[at + 1]) & 0xFFFFFFFF
    buckets = 16
    while size > buckets * 3 // 4:
        buckets *= 2
    return (code ^ code >> 16) & (buckets - 1)


def _elt(call: Any) -> Kernel:
    def kernel(setting: Setting, count: int, index: Value, *values: Value) -> Value:
        known = _constants(index)
        if known is not None:
            if not 1 <= known[0] <= len(values):
                return pa.scalar(None, values[0].type)
            return values[known[0] - 1]
        fits = pc.and_(pc.greater_equal(index, 1), pc.less_equal(index, len(values)))
        place = pc.if_else(fits, pc.subtract(pc.cast(index, pa.int64()), 1), pa.scalar(None, pa.int64()))
        return pc.choose(as_array(place, count), *[as_array(each, count) for each in values])

    return kernel


def _inet_aton(text: str) -> int | None:
    parts = text.split(".")
    if not 1 <= len(parts) <= 4 or not all(part.isdecimal() for part in parts):
        return None
    numbers = [int(part) for part in parts]
    *heads, last = numbers
    if any(head > 255 for head in heads) or last >= 256 ** (5 - len(parts)):
        return None
    value = 0
    for place, head in enumerate(heads):
        value |= head << (24 - 8 * place)
    return value | last


def _inet_ntoa(number: int) -> str | None:
    if not 0 <= number < 2**32:
        return None
    return ".".join(str(number >> shift & 255) for shift in (24, 16, 8, 0))


def _character(number: int) -> str:
    return "" if number < 0 else chr(number & 255)


def _ascii(text: str) -> int:
    data = text.encode()
    return 0 if not data else data[0] - 256 if data[0] > 127 else data[0]


def _char_length(call: Any) -> Kernel:
    return lambda setting, count, value: pc.utf8_length(value)


KERNELS: dict[str, Factory] = {
    "||": _concat,
    "CONCAT": _concat,
    "CONCAT_WS": _concat_ws,
    "CHAR_LENGTH": _char_length,
    "UPPER": _cased(pc.ascii_upper, str.upper),
    "LOWER": _cased(pc.ascii_lower, str.lower),
    "POSITION": _position(1, 0),
    "LOCATE": _position(1, 0),
    "INSTR": _position(0, 1),
    "TRIM": _trim,
    "LTRIM": _trim_function("LEADING"),
    "RTRIM": _trim_function("TRAILING"),
    "BTRIM": _trim_function("BOTH"),
    "REPEAT": _repeat,
    "OVERLAY": python_function(overlay, _TEXT),
    "STARTSWITH": _edge(pc.starts_with, "startswith"),
    "ENDSWITH": _edge(pc.ends_with, "endswith"),
    "SUBSTRING": _substring,
    "REPLACE": _replace,
    "TRANSLATE": python_function(_translate_row, _TEXT, strict=False),
    "INITCAP": python_function(initcap, _TEXT),
    "LPAD": _pad(True),
    "RPAD": _pad(False),
    "ASCII": python_function(_ascii, _INT),
    "CHR": python_function(_character, _TEXT),
    "LEFT": _left,
    "RIGHT": _right,
    "REVERSE": lambda call: lambda setting, count, value: pc.utf8_reverse(value),
    "SPLIT_INDEX": _split_index,
    "SPLIT": python_function(_split, pa.list_(_TEXT)),
    "STR_TO_MAP": python_function(str_to_map, pa.map_(_TEXT, _TEXT)),
    "ELT": _elt,
    "INET_ATON": python_function(_inet_aton, pa.int64()),
    "INET_NTOA": python_function(_inet_ntoa, _TEXT),
}
