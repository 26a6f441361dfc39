"""Texts read as Flink's CAST from STRING reads them.

A column of usual texts is read by Arrow at once; anything else text by text, so that what fails is named.
"""

from __future__ import annotations

import datetime
import decimal
import re
from collections.abc import Callable
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from millstream.table.expressions.errors import EvaluationError
from millstream.table.functions.kernels.decimals import fit, rescale
from millstream.table.functions.kernels.texts import assume_zone
from millstream.table.functions.kernels.values import Setting, Value, is_constant, per_row
from millstream.table.functions.types import arrow_type, is_integer
from millstream.types import datatypes as t

__all__ = ["days_in_month", "from_text", "parse_date", "parse_time", "parse_timestamp"]

_TRUE = frozenset(("t", "true", "y", "yes", "1"))
_FALSE = frozenset(("f", "false", "n", "no", "0"))
_INTEGER = re.compile(r"([+-]?\d+)(\.\d*)?|[+-]?\.\d+")
_FLOAT = re.compile(r"([+-]?)(NaN|Infinity|(?:\d+\.?\d*|\.\d+)(?:[eE][+-]?\d+)?)[fFdD]?")
_PLAIN_TIMESTAMP = r"^\d{4}-\d\d-\d\d( \d\d:\d\d:\d\d(\.\d{1,9})?)?$"
_TIMESTAMP = re.compile(r"(\d{4})-(\d{1,2})-(\d{1,2})(?: (\d{1,2}):(\d{1,2}):(\d{1,2})(?:\.(\d{0,9}))?)?")
_TIME = re.compile(r"(\d{1,2})(?::(\d{1,2})(?::(\d{1,2})(?:\.(\d{1,9}))?)?)?")
_EPOCH = datetime.date(1970, 1, 1)


def from_text(setting: Setting, value: Value, target: t.DataType, attempt: bool) -> Value:
    """Return texts as values of another type.

    Args:
        setting: Of the session, for TIMESTAMP_LTZ.
        value: Texts.
        target: BOOLEAN, a number, or a time.
        attempt: Whether a text that is no such value gives NULL (TRY_CAST).

    Raises:
        EvaluationError: If a text is no such value.
    """
    kind = arrow_type(target)
    quick = _quick(value, target, kind)
    if quick is not None:
        return quick
    read = _reader(setting, target, kind)

    def one(text: str) -> Any:
        try:
            return read(text)
        except ValueError as error:
            if attempt:
                return None
            raise EvaluationError(
                f"text {text!r} cannot be cast to {target}: {error}",
                hint="TRY_CAST gives NULL instead.",
            ) from error

    return per_row(one, kind, [value], 1 if is_constant(value) else len(value))


def _quick(value: Value, target: t.DataType, kind: pa.DataType) -> Value | None:
    """Read all texts at once if all are as usual."""
    try:
        if is_integer(target) or type(target) is t.DoubleType:
            # Arrow reads 0x1A, nan and inf, which are no numbers of Flink's
            return None if _any(value, "[xXnNiI]") else pc.cast(value, kind)
        if isinstance(target, t.DateType) and _all(value, r"^\d{4}-\d\d-\d\d$"):
            return pc.cast(value, kind)
        if isinstance(target, t.DecimalType) and _all(value, r"^[+-]?\d{1,20}(\.\d{1,18})?$"):
            read = rescale(pc.cast(value, pa.decimal128(38, 18)), kind)
            return None if _lost(value, read) else read
        if type(target) is t.TimestampType and _all(value, _PLAIN_TIMESTAMP):
            whole = pc.cast(value, pa.timestamp("ns"))
            return cut_precision(pc.cast(whole, kind, safe=False), target.precision)
    except pa.ArrowInvalid:
        return None  # some text is not as usual
    return None


def _lost(texts: Value, numbers: Value) -> bool:
    """Whether a number did not fit and became NULL."""
    if is_constant(texts):
        return bool(texts.is_valid and not numbers.is_valid)
    return bool(numbers.null_count > texts.null_count)


def _any(value: Value, pattern: str) -> bool:
    matches = pc.match_substring_regex(value, pattern)
    return bool(matches.as_py() if is_constant(matches) else pc.any(matches).as_py())


def _all(value: Value, pattern: str) -> bool:
    matches = pc.match_substring_regex(value, pattern)
    return bool(matches.as_py() is not False if is_constant(matches) else pc.all(matches).as_py())


def cut_precision(value: Value, precision: int) -> Value:
    """Return timestamps with no more digits of the second than a precision."""
    unit = value.type.unit
    digits = {"us": 6, "ns": 9}[unit]
    if precision >= digits:
        return value
    step = 10 ** (digits - precision)
    whole = pc.cast(pc.cast(value, pa.timestamp(unit)), pa.int64())
    rest = pc.subtract(whole, pc.multiply(pc.divide(whole, step), step))
    rest = pc.if_else(pc.less(rest, 0), pc.add(rest, step), rest)
    return pc.cast(pc.cast(pc.subtract(whole, rest), pa.timestamp(unit)), value.type)


def _reader(setting: Setting, target: Any, kind: pa.DataType) -> Callable[[str], Any]:
    if isinstance(target, t.BooleanType):
        return _boolean
    if is_integer(target):
        return lambda text: _integer(text, target.bits)
    if isinstance(target, t.DecimalType):
        return lambda text: _fitting(_decimal(text), kind)
    if isinstance(target, t.DoubleType):
        return _float
    if isinstance(target, t.DateType):
        return parse_date
    if isinstance(target, t.TimeType):
        return lambda text: _scaled_time(parse_time(text), kind, target.precision)
    return lambda text: _scaled_timestamp(setting, text, target, kind)


def _boolean(text: str) -> bool:
    word = text.lower()
    if word in _TRUE:
        return True
    if word in _FALSE:
        return False
    raise ValueError("no BOOLEAN")


def _integer(text: str, bits: int) -> int:
    found = _INTEGER.fullmatch(text.strip())
    if found is None:
        raise ValueError("no whole number" if text.strip() else "it is empty")
    number = int(found[1] or 0)
    if not -(1 << (bits - 1)) <= number < 1 << (bits - 1):
        raise ValueError("out of range")
    return number


def _decimal(text: str) -> decimal.Decimal:
    found = _FLOAT.fullmatch(text.strip())
    if found is None or found[2] in ("NaN", "Infinity") or text.strip()[-1:] in "fFdD":
        raise ValueError("no number")
    return decimal.Decimal(text.strip())


def _fitting(number: decimal.Decimal, kind: pa.DataType) -> decimal.Decimal:
    found = fit(number, kind)
    if found is None:
        raise ValueError("it has too many digits")
    return found


def _float(text: str) -> float:
    found = _FLOAT.fullmatch(text.strip())
    if found is None:
        raise ValueError("no number")
    return float(f"{found[1]}{found[2]}")


def days_in_month(year: int, month: int) -> int:
    """Return how many days a month has."""
    following = datetime.date(year + month // 12, month % 12 + 1, 1) if year < 9999 or month < 12 else None
    return 31 if following is None else (following - datetime.timedelta(days=1)).day


def parse_date(text: str) -> datetime.date:
    """Read `2024-02-09`, `2024-2-9`, `2024-2`, `2024`; a time behind it is ignored.

    Raises:
        ValueError: If it is no day.
    """
    day = text.strip().split(" ")[0]
    parts = day.split("-")
    if not 1 <= len(parts) <= 3 or not all(part.isdecimal() for part in parts):
        raise ValueError("no date")
    year, month, of_month = ([int(part) for part in parts] + [1, 1])[:3]
    return datetime.date(year, month, of_month)


def parse_time(text: str) -> int:
    """Return nanoseconds of a day: of `13:45:56.789`, `13:45` or `13`.

    Raises:
        ValueError: If it is no time of day.
    """
    found = _TIME.fullmatch(text.strip())
    if found is None:
        raise ValueError("no time of day")
    hour, minute, second = int(found[1]), int(found[2] or 0), int(found[3] or 0)
    if hour > 23 or minute > 59 or second > 59:
        raise ValueError("no time of day")
    return ((hour * 60 + minute) * 60 + second) * 10**9 + int((found[4] or "").ljust(9, "0"))


def _scaled_time(nanoseconds: int, kind: pa.DataType, precision: int) -> int:
    cut = int(10 ** (9 - precision))
    unit = {"ms": 10**6, "us": 10**3, "ns": 1}[kind.unit]
    return nanoseconds // cut * cut // unit


def parse_timestamp(text: str) -> int:
    """Return nanoseconds since 1970 of `2024-02-29 13:45:56.789`; a day that its month lacks is its last.

    Raises:
        ValueError: If it is no timestamp.
    """
    found = _TIMESTAMP.fullmatch(text)
    if found is None:
        raise ValueError("no timestamp such as 2024-02-29 13:45:56.789")
    year, month, day = int(found[1]), int(found[2]), int(found[3])
    hour, minute, second = int(found[4] or 0), int(found[5] or 0), int(found[6] or 0)
    if not 1 <= month <= 12 or not 1 <= day <= 31 or hour > 23 or minute > 59 or second > 59:
        raise ValueError("no such time")
    days = (datetime.date(year, month, min(day, days_in_month(year, month))) - _EPOCH).days
    seconds = ((days * 24 + hour) * 60 + minute) * 60 + second
    return seconds * 10**9 + int((found[7] or "").ljust(9, "0"))


def _scaled_timestamp(setting: Setting, text: str, target: Any, kind: pa.DataType) -> int:
    cut = int(10 ** (9 - target.precision))
    nanoseconds = parse_timestamp(text) // cut * cut
    unit = {"us": 10**3, "ns": 1}[kind.unit]
    if kind.tz is None:
        return nanoseconds // unit
    local = pa.scalar(nanoseconds // unit, pa.timestamp(kind.unit))
    moment = assume_zone(local, setting.zone)
    stored: int = moment.value
    return stored
