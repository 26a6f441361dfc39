"""Kernels of comparisons, boolean logic and conditions."""

from __future__ import annotations

import re
from collections.abc import Callable
from functools import reduce
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from millstream.table.expressions.errors import EvaluationError
from millstream.table.functions.kernels.values import (
    Factory,
    Kernel,
    Setting,
    Value,
    as_array,
    is_constant,
    null_like,
    per_row,
    python_values,
)
from millstream.table.functions.types import arrow_type

__all__ = ["KERNELS"]


def _nested(kind: pa.DataType) -> bool:
    return bool(pa.types.is_nested(kind))


def _compare(function: Callable[..., Value], test: Callable[[Any, Any], bool]) -> Factory:
    def make(call: Any) -> Kernel:
        def kernel(setting: Setting, count: int, left: Value, right: Value) -> Value:
            if _nested(left.type):
                return _compare_nested(test, left, right, count)
            return function(left, right)

        return kernel

    return make


def _compare_nested(test: Callable[[Any, Any], bool], left: Value, right: Value, count: int) -> Value:
    pairs = zip(python_values(left, count), python_values(right, count), strict=True)
    as_map = pa.types.is_map(left.type)

    def one(a: Any, b: Any) -> bool | None:
        if a is None or b is None:
            return None
        return test(dict(a), dict(b)) if as_map else test(a, b)

    results = pa.array([one(a, b) for a, b in pairs], pa.bool_())
    return results[0] if is_constant(left) and is_constant(right) else results


def _not_distinct(call: Any) -> Kernel:
    equal = _compare(pc.equal, lambda a, b: a == b)(call)

    def kernel(setting: Setting, count: int, left: Value, right: Value) -> Value:
        both_null = pc.and_(pc.is_null(left), pc.is_null(right))
        return pc.or_(both_null, pc.fill_null(equal(setting, count, left, right), False))

    return kernel


def _distinct(call: Any) -> Kernel:
    same = _not_distinct(call)
    return lambda setting, count, left, right: pc.invert(same(setting, count, left, right))


def _fold(function: Callable[[Value, Value], Value]) -> Factory:
    def make(call: Any) -> Kernel:
        return lambda setting, count, *values: reduce(function, values)

    return make


def _unary(function: Callable[[Value], Value]) -> Factory:
    def make(call: Any) -> Kernel:
        return lambda setting, count, value: function(value)

    return make


def _case(call: Any) -> Kernel:
    kind = arrow_type(call.type)

    def kernel(setting: Setting, count: int, *values: Value) -> Value:
        values = tuple(
            each if place % 2 == 0 and place != len(values) - 1 else _as(each, kind)
            for place, each in enumerate(values)
        )
        if len(values) == 3:
            return _if_else(pc.fill_null(values[0], False), values[1], values[2], count)
        if all(map(is_constant, values)):
            return _first_true(values)
        if _nested(kind):
            result = values[-1]
            for condition, value in zip(values[-3::-2], values[-2::-2], strict=True):
                result = _if_else(pc.fill_null(condition, False), value, result, count)
            return result
        conditions = [pc.fill_null(as_array(each, count), False) for each in values[:-1:2]]
        names = [str(place) for place in range(len(conditions))]
        return pc.case_when(pa.StructArray.from_arrays(conditions, names), *values[1::2], values[-1])

    return kernel


def _as(value: Value, kind: pa.DataType) -> Value:
    return value if value.type == kind else pc.cast(value, kind, safe=False)


def _if_else(condition: Value, value: Value, other: Value, count: int) -> Value:
    if is_constant(condition):
        return value if condition.as_py() else other
    if _nested(value.type):
        both = pa.concat_arrays([as_array(value, count), as_array(other, count)])
        places = pa.array(range(count), pa.int64())
        return both.take(pc.if_else(condition, places, pc.add(places, count)))
    return pc.if_else(condition, value, other)


def _first_true(values: tuple[Value, ...]) -> Value:
    for condition, value in zip(values[:-1:2], values[1::2], strict=True):
        if condition.as_py():
            return value
    return values[-1]


def _coalesce(call: Any) -> Kernel:
    def kernel(setting: Setting, count: int, *values: Value) -> Value:
        if not _nested(values[0].type):
            return pc.coalesce(*values)
        result = values[-1]
        for value in reversed(values[:-1]):
            result = _if_else(pc.is_valid(value), value, result, count)
        return result

    return kernel


def _in(call: Any) -> Kernel:
    def kernel(setting: Setting, count: int, value: Value, *options: Value) -> Value:
        if all(map(is_constant, options)) and not _nested(value.type):
            known = [each for each in options if each.is_valid]
            allowed = pa.array([each.as_py() for each in known], value.type)
            found = pc.is_in(value, value_set=allowed)
            missing = pc.is_null(value)
            if len(known) < len(options):
                missing = pc.or_(missing, pc.invert(found))
            return pc.if_else(missing, null_like(pa.bool_()), found)
        equal = _compare(pc.equal, lambda a, b: a == b)(call)
        return reduce(pc.or_kleene, [equal(setting, count, value, each) for each in options])

    return kernel


def _extreme(function: Callable[..., Value], pick: Callable[..., Any]) -> Factory:
    def make(call: Any) -> Kernel:
        kind = arrow_type(call.type)

        def kernel(setting: Setting, count: int, *values: Value) -> Value:
            if _nested(kind) or all(map(is_constant, values)):
                return per_row(lambda *row: pick(row), kind, values, count)
            result = function(*values, skip_nulls=False)
            if pa.types.is_floating(kind) and pick is max:  # NaN is the greatest, as in Java
                some = reduce(pc.or_, [pc.fill_null(pc.is_nan(each), False) for each in values])
                result = pc.if_else(pc.and_(some, pc.is_valid(result)), pa.scalar(float("nan"), kind), result)
            return result

        return kernel

    return make


# --- LIKE and SIMILAR TO


def like_regex(pattern: str, escape: str | None) -> str:
    """Return a LIKE pattern as a regular expression; without ESCAPE no character escapes."""
    parts, place = [], 0
    while place < len(pattern):
        char = pattern[place]
        if escape and char == escape:
            place += 1
            if place >= len(pattern) or pattern[place] not in ("%", "_", escape):
                raise EvaluationError(
                    f"LIKE pattern {pattern!r} has escape character {escape!r} before no %, _ or itself"
                )
            parts.append(re.escape(pattern[place]))
        else:
            parts.append({"%": ".*", "_": "."}.get(char) or re.escape(char))
        place += 1
    return "".join(parts)


def similar_regex(pattern: str, escape: str | None) -> str:
    """Return a SIMILAR TO pattern as a regular expression."""
    parts, place, in_class = [], 0, False
    while place < len(pattern):
        char = pattern[place]
        if escape and char == escape and place + 1 < len(pattern):
            place += 1
            parts.append(re.escape(pattern[place]))
        elif in_class:
            in_class = char != "]"
            parts.append(char)
        elif char == "[":
            in_class = True
            parts.append(char)
        else:
            parts.append(
                {"%": ".*", "_": ".", ".": r"\.", "^": r"\^", "$": r"\$", "\\": r"\\"}.get(char, char)
            )
        place += 1
    return "".join(parts)


def _matching(to_regex: Callable[[str, str | None], str]) -> Factory:
    def make(call: Any) -> Kernel:
        plain: dict[tuple[str, str | None], tuple[str, str] | None] = {}

        def kernel(setting: Setting, count: int, value: Value, pattern: Value, *escape: Value) -> Value:
            if not (is_constant(pattern) and all(map(is_constant, escape))):
                return per_row(_match_row(to_regex), pa.bool_(), [value, pattern, *escape], count)
            text = pattern.as_py()
            sign = escape[0].as_py() if escape else None
            if text is None or (escape and sign is None):
                return null_like(pa.bool_()) if is_constant(value) else pa.nulls(count, pa.bool_())
            if to_regex is like_regex:
                key = (text, sign)
                if key not in plain:
                    plain[key] = _simple_like(text, sign)
                simple = plain[key]
                if simple is not None:
                    return _SIMPLE[simple[0]](value, simple[1])
            return pc.match_substring_regex(value, f"(?s)^(?:{to_regex(text, sign)})$")

        return kernel

    return make


def _simple_like(pattern: str, escape: str | None) -> tuple[str, str] | None:
    """Return the kind and text of a pattern that needs no regular expression."""
    body = pattern.strip("%")
    if "%" in body or "_" in body or (escape and escape in pattern):
        return None
    starts, ends = pattern.startswith("%"), pattern.endswith("%")
    if not body and pattern:
        return "any", ""
    if not starts and not ends:
        return "equal", body
    return ("contains" if starts and ends else "ends" if starts else "starts"), body


_SIMPLE: dict[str, Callable[[Value, str], Value]] = {
    "any": lambda value, text: pc.match_substring(value, ""),
    "equal": lambda value, text: pc.equal(value, text),
    "contains": lambda value, text: pc.match_substring(value, text),
    "ends": lambda value, text: pc.ends_with(value, text),
    "starts": lambda value, text: pc.starts_with(value, text),
}


def _match_row(to_regex: Callable[[str, str | None], str]) -> Callable[..., bool]:
    def match(value: str, pattern: str, escape: str | None = None) -> bool:
        return re.fullmatch(to_regex(pattern, escape), value, re.DOTALL) is not None

    return match


# --- IS_ALPHA and the like: also of what is no text


def _text_test(test: Callable[[Value], Value]) -> Factory:
    def make(call: Any) -> Kernel:
        def kernel(setting: Setting, count: int, value: Value) -> Value:
            if not pa.types.is_string(value.type):
                is_number = pa.types.is_integer(value.type) or pa.types.is_floating(value.type)
                text = pc.cast(value, pa.string()) if is_number else None
                value = pc.if_else(pc.is_valid(value), "", None) if text is None else text
            return pc.fill_null(test(value), False)

        return kernel

    return make


_DECIMAL = r"^\s*[+-]?(NaN|Infinity|(\d+(\.\d*)?|\.\d+)([eE][+-]?\d+)?[fFdD]?)\s*$"

KERNELS: dict[str, Factory] = {
    "=": _compare(pc.equal, lambda a, b: a == b),
    "<>": _compare(pc.not_equal, lambda a, b: a != b),
    "<": _compare(pc.less, lambda a, b: a < b),
    "<=": _compare(pc.less_equal, lambda a, b: a <= b),
    ">": _compare(pc.greater, lambda a, b: a > b),
    ">=": _compare(pc.greater_equal, lambda a, b: a >= b),
    "IS DISTINCT FROM": _distinct,
    "IS NOT DISTINCT FROM": _not_distinct,
    "AND": _fold(pc.and_kleene),
    "OR": _fold(pc.or_kleene),
    "NOT": _unary(pc.invert),
    "IS NULL": _unary(pc.is_null),
    "IS NOT NULL": _unary(pc.is_valid),
    "IS TRUE": _unary(lambda value: pc.fill_null(value, False)),
    "IS NOT TRUE": _unary(lambda value: pc.invert(pc.fill_null(value, False))),
    "IS FALSE": _unary(lambda value: pc.invert(pc.fill_null(value, True))),
    "IS NOT FALSE": _unary(lambda value: pc.fill_null(value, True)),
    "IS UNKNOWN": _unary(pc.is_null),
    "IS NOT UNKNOWN": _unary(pc.is_valid),
    "IN": _in,
    "CASE": _case,
    "COALESCE": _coalesce,
    "GREATEST": _extreme(pc.max_element_wise, max),
    "LEAST": _extreme(pc.min_element_wise, min),
    "LIKE": _matching(like_regex),
    "SIMILAR TO": _matching(similar_regex),
    "IS_ALPHA": _text_test(pc.utf8_is_alpha),
    "IS_DIGIT": _text_test(pc.utf8_is_digit),
    "IS_DECIMAL": _text_test(lambda value: pc.match_substring_regex(value, _DECIMAL)),
}
