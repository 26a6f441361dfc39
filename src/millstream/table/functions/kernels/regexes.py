"""Kernels of regular expressions, which are Java's.

Patterns that RE2 reads alike go to Arrow; look-around, back references and what may match nothing go to Python's `re`.
A pattern that is no regular expression gives NULL, as in Flink.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from functools import lru_cache
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from millstream.table.functions.kernels.values import Factory, Kernel, Setting, Value, is_constant, per_row

__all__ = ["KERNELS", "compile_java"]

_TEXT, _INT, _BOOL = pa.string(), pa.int32(), pa.bool_()
_CLASSES = {
    r"\p{Alpha}": "a-zA-Z",
    r"\p{Digit}": "0-9",
    r"\p{Alnum}": "a-zA-Z0-9",
    r"\p{Upper}": "A-Z",
    r"\p{Lower}": "a-z",
    r"\p{Space}": r"\s",
    r"\p{Punct}": r"!-/:-@\[-`{-~",
    r"\p{XDigit}": "0-9a-fA-F",
    r"\p{L}": r"^\W\d_",
    r"\h": r" \t\u00a0",
}
_NOT_RE2 = re.compile(r"\(\?[=!>]|\(\?<[=!]|\\[1-9kGZR]|[*+?}]\+|&&")


@lru_cache(maxsize=512)
def compile_java(pattern: str) -> re.Pattern[str] | None:
    """Return a Java pattern compiled by Python; None if it is none."""
    try:
        return re.compile(_to_python(pattern), re.ASCII)
    except (re.error, OverflowError, RecursionError):
        return None


def _to_python(pattern: str) -> str:
    converted = re.sub(r"\(\?<(?![=!])", "(?P<", pattern)
    for name, inside in _CLASSES.items():
        if name in converted:
            converted = converted.replace(name, f"[{inside}]")
    return converted.replace(r"\Z", r"(?=\n?\Z)").replace(r"\z", r"\Z")


@lru_cache(maxsize=512)
def _re2(pattern: str) -> str | None:
    """Return a pattern for RE2 if it means the same there and matches something in every match; else None."""
    compiled = compile_java(pattern)
    if compiled is None or not pattern or _NOT_RE2.search(pattern) or r"\p{" in pattern or "$" in pattern:
        return None
    if compiled.match("") or any(compiled.fullmatch(probe) for probe in ("",)):
        return None
    try:
        pc.match_substring_regex(pa.scalar("a"), pattern)
    except pa.ArrowInvalid:
        return None
    return pattern


def _plain(value: Value, pattern: Value) -> str | None:
    """Return the constant pattern that Arrow can take for a column."""
    if is_constant(value) or not is_constant(pattern) or not pattern.is_valid:
        return None
    return _re2(pattern.as_py())


def _function(
    fast: Callable[[Value, str], Value] | None, slow: Callable[..., Any], kind: pa.DataType
) -> Factory:
    def make(call: Any) -> Kernel:
        def kernel(setting: Setting, count: int, value: Value, pattern: Value, *rest: Value) -> Value:
            if fast is not None and not rest:
                known = _plain(value, pattern)
                if known is not None:
                    return fast(value, known)
            return per_row(slow, kind, [value, pattern, *rest], count)

        return kernel

    return make


def _matches(text: str, pattern: str) -> bool:
    compiled = compile_java(pattern)
    return bool(pattern) and compiled is not None and compiled.search(text) is not None


def _replace(text: str, pattern: str, replacement: str) -> str | None:
    compiled = compile_java(pattern)
    return None if compiled is None else compiled.sub(lambda found: replacement, text)


def _replace_kernel(call: Any) -> Kernel:
    def kernel(setting: Setting, count: int, value: Value, pattern: Value, replacement: Value) -> Value:
        known = _plain(value, pattern)
        if known is not None and is_constant(replacement) and replacement.is_valid:
            literal = replacement.as_py().replace("\\", "\\\\")
            return pc.replace_substring_regex(value, pattern=known, replacement=literal)
        return per_row(_replace, _TEXT, [value, pattern, replacement], count)

    return kernel


def _count(text: str, pattern: str) -> int | None:
    compiled = compile_java(pattern)
    return None if compiled is None else sum(1 for _ in compiled.finditer(text))


def _extract(text: str, pattern: str, group: int = 0) -> str | None:
    compiled = compile_java(pattern)
    if compiled is None or not 0 <= group <= compiled.groups:
        return None
    found = compiled.search(text)
    return None if found is None else found.group(group)


def _extract_all(text: str, pattern: str, group: int = 1) -> list[str | None] | None:
    compiled = compile_java(pattern)
    if compiled is None or not 0 <= group <= compiled.groups:
        return None
    return [found.group(group) for found in compiled.finditer(text)]


def _instr(text: str, pattern: str) -> int | None:
    compiled = compile_java(pattern)
    if compiled is None:
        return None
    found = compiled.search(text)
    return 0 if found is None else found.start() + 1


def _extract_kernel(call: Any) -> Kernel:
    def kernel(setting: Setting, count: int, value: Value, pattern: Value, *group: Value) -> Value:
        known = _plain(value, pattern)
        number = group[0].as_py() if group and is_constant(group[0]) else 0 if not group else None
        if known is not None and number is not None:
            named = _with_names(known)
            compiled = compile_java(known)
            if named is not None and compiled is not None and 0 <= number <= compiled.groups:
                return _group_of(value, named, number)
        return per_row(_extract, _TEXT, [value, pattern, *group], count)

    return kernel


@lru_cache(maxsize=512)
def _with_names(pattern: str) -> str | None:
    """Return a pattern whose groups are named g0 (the whole), g1, ...; None if they are not told apart."""
    if "(?P<" in pattern or "(?<" in pattern or "[(" in pattern or r"\Q" in pattern:
        return None
    number = 0
    parts: list[str] = []
    place, in_class = 0, False
    while place < len(pattern):
        char = pattern[place]
        if char == "\\":
            parts.append(pattern[place : place + 2])
            place += 2
            continue
        if char == "[":
            in_class = True
        elif char == "]":
            in_class = False
        if char == "(" and not in_class and pattern[place + 1 : place + 2] != "?":
            number += 1
            parts.append(f"(?P<g{number}>")
        else:
            parts.append(char)
        place += 1
    return f"(?P<g0>{''.join(parts)})"


def _group_of(value: Value, pattern: str, number: int) -> Value:
    groups = pc.extract_regex(value, pattern)
    found = pc.struct_field(groups, f"g{number}")
    # a group that took no part is empty in Arrow and NULL in Java
    if number and any(sign in pattern for sign in "|?*{"):
        texts = pc.equal(found, "")
        if pc.any(texts).as_py():
            return _regroup(value, pattern, number)
    return found


def _regroup(value: Value, pattern: str, number: int) -> Value:
    compiled = re.compile(pattern, re.ASCII)

    def one(text: str) -> str | None:
        found = compiled.search(text)
        return None if found is None else found.group(f"g{number}")

    return per_row(one, _TEXT, [value], len(value))


KERNELS: dict[str, Factory] = {
    "REGEXP": _function(pc.match_substring_regex, _matches, _BOOL),
    "REGEXP_REPLACE": _replace_kernel,
    "REGEXP_COUNT": _function(
        lambda value, pattern: pc.count_substring_regex(value, pattern=pattern), _count, _INT
    ),
    "REGEXP_EXTRACT": _extract_kernel,
    "REGEXP_EXTRACT_ALL": _function(None, _extract_all, pa.list_(_TEXT)),
    "REGEXP_INSTR": _function(None, _instr, _INT),
    "REGEXP_SUBSTR": _function(None, _extract, _TEXT),
}
