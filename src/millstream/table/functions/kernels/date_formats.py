"""Kernels that write and read times by patterns such as `yyyy-MM-dd HH:mm:ss` (Java's letters).

A pattern becomes parts once; fields of fixed width are cut out of the ISO text of a column, which Arrow writes, so that
usual formats take no Python for a row.
"""

from __future__ import annotations

import datetime
import re
import zoneinfo
from collections.abc import Callable
from functools import lru_cache
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from millstream.table.expressions.errors import EvaluationError
from millstream.table.functions.kernels.parsing import days_in_month, parse_date, parse_timestamp
from millstream.table.functions.kernels.texts import zoned_to_local
from millstream.table.functions.kernels.values import (
    Factory,
    Kernel,
    Setting,
    Value,
    is_constant,
    per_row,
)

__all__ = ["KERNELS", "format_time", "parse_time_text"]

Part = tuple[str, int]  # a letter and how often, or "" and a place in the literals
_TEXT = pa.string()
_DAYS = ("Monday", "Tuesday", "Wednesday", "Thursday", "Friday", "Saturday", "Sunday")
_MONTHS = (
    "January",
    "February",
    "March",
    "April",
    "May",
    "June",
    "July",
    "August",
    "September",
    "October",
    "November",
    "December",
)
_DEFAULT = "yyyy-MM-dd HH:mm:ss"
_SLICES = {  # fields of the text 2024-02-29 13:45:56.789000000
    ("y", 4): (0, 4),
    ("u", 4): (0, 4),
    ("M", 2): (5, 7),
    ("L", 2): (5, 7),
    ("d", 2): (8, 10),
    ("H", 2): (11, 13),
    ("m", 2): (14, 16),
    ("s", 2): (17, 19),
    **{("S", size): (20, 20 + size) for size in range(1, 10)},
}
_ISO = "____-__-__ __:__:__."


@lru_cache(maxsize=512)
def _parts(pattern: str) -> tuple[tuple[str, int | str], ...]:
    """Return letters with how often they stand, and literals as ("", text)."""
    found: list[tuple[str, int | str]] = []
    place = 0
    while place < len(pattern):
        char = pattern[place]
        if char == "'":
            end = pattern.find("'", place + 1)
            if end < 0:
                raise EvaluationError(f"time pattern {pattern!r} has a quote that does not end")
            found.append(("", "'" if end == place + 1 else pattern[place + 1 : end]))
            place = end + 1
        elif char.isascii() and char.isalpha():
            end = place
            while end < len(pattern) and pattern[end] == char:
                end += 1
            if char not in _FIELDS:
                raise EvaluationError(
                    f"time pattern {pattern!r} has letter {char!r}, which is no field",
                    hint=f"There are {', '.join(sorted(_FIELDS))}; quote text: 'T'.",
                )
            found.append((char, end - place))
            place = end
        else:
            found.append(("", char))
            place += 1
    return tuple(found)


# --- writing one time


def _week_of_year(moment: datetime.datetime) -> tuple[int, int]:
    """Return week-based year and week of Java's locale en_US: weeks begin on Sunday, January 1 is in week 1."""
    first = datetime.date(moment.year, 1, 1)
    offset = first.isoweekday() % 7
    week = (moment.timetuple().tm_yday - 1 + offset) // 7 + 1
    if moment.year < datetime.MAXYEAR:
        following = datetime.date(moment.year + 1, 1, 1)
        if moment.date() >= following - datetime.timedelta(days=following.isoweekday() % 7):
            return moment.year + 1, 1
    return moment.year, week


def _year(value: int, count: int) -> str:
    return f"{value % 100:02}" if count == 2 else f"{value:0{count}}"


def _name(names: tuple[str, ...], index: int, count: int) -> str:
    return names[index] if count == 4 else names[index][0] if count == 5 else names[index][:3]


def _month(moment: datetime.datetime, count: int) -> str:
    return f"{moment.month:0{count}}" if count < 3 else _name(_MONTHS, moment.month - 1, count)


def _hour12(moment: datetime.datetime) -> int:
    return (moment.hour + 11) % 12 + 1


def _quarter(moment: datetime.datetime, count: int) -> str:
    number = (moment.month + 2) // 3
    if count < 3:
        return f"{number:0{count}}"
    return f"Q{number}" if count == 3 else ("1st", "2nd", "3rd", "4th")[number - 1] + " quarter"


_Field = Callable[[datetime.datetime, int, int], str]
_FIELDS: dict[str, _Field] = {
    "G": lambda moment, nanos, count: "AD" if count < 4 else "Anno Domini",
    "y": lambda moment, nanos, count: _year(moment.year, count),
    "u": lambda moment, nanos, count: _year(moment.year, count),
    "Y": lambda moment, nanos, count: _year(_week_of_year(moment)[0], count),
    "M": lambda moment, nanos, count: _month(moment, count),
    "L": lambda moment, nanos, count: _month(moment, count),
    "d": lambda moment, nanos, count: f"{moment.day:0{count}}",
    "D": lambda moment, nanos, count: f"{moment.timetuple().tm_yday:0{count}}",
    "Q": lambda moment, nanos, count: _quarter(moment, count),
    "q": lambda moment, nanos, count: _quarter(moment, count),
    "w": lambda moment, nanos, count: f"{_week_of_year(moment)[1]:0{count}}",
    "W": lambda moment, nanos, count: str((moment.day - 1 + moment.replace(day=1).isoweekday() % 7) // 7 + 1),
    "F": lambda moment, nanos, count: f"{(moment.day - 1) % 7 + 1:0{count}}",
    "E": lambda moment, nanos, count: _name(_DAYS, moment.weekday(), count),
    "e": lambda moment, nanos, count: (
        f"{moment.isoweekday() % 7 + 1:0{count}}" if count < 3 else _name(_DAYS, moment.weekday(), count)
    ),
    "a": lambda moment, nanos, count: "AM" if moment.hour < 12 else "PM",
    "h": lambda moment, nanos, count: f"{_hour12(moment):0{count}}",
    "H": lambda moment, nanos, count: f"{moment.hour:0{count}}",
    "k": lambda moment, nanos, count: f"{moment.hour or 24:0{count}}",
    "K": lambda moment, nanos, count: f"{moment.hour % 12:0{count}}",
    "m": lambda moment, nanos, count: f"{moment.minute:0{count}}",
    "s": lambda moment, nanos, count: f"{moment.second:0{count}}",
    "S": lambda moment, nanos, count: f"{nanos:09}"[:count].ljust(count, "0"),
    "n": lambda moment, nanos, count: f"{nanos:0{count}}",
    "A": lambda moment, nanos, count: (
        f"{((moment.hour * 60 + moment.minute) * 60 + moment.second) * 1000 + nanos // 1_000_000:0{count}}"
    ),
}
_EPOCH = datetime.datetime(1970, 1, 1)
_UTC_EPOCH = _EPOCH.replace(tzinfo=datetime.UTC)


def format_time(nanoseconds: int, pattern: str) -> str:
    """Return a time since 1970 by a pattern.

    Raises:
        EvaluationError: If the pattern is none.
    """
    seconds, nanos = divmod(nanoseconds, 10**9)
    moment = _EPOCH + datetime.timedelta(seconds=seconds)
    parts = _parts(pattern)
    return "".join(
        str(more) if not letter else _FIELDS[letter](moment, nanos, int(more)) for letter, more in parts
    )


# --- writing columns


@lru_cache(maxsize=512)
def _cuts(pattern: str) -> tuple[tuple[int, int] | str, ...] | None:
    """Return a pattern as cuts of the ISO text and literals; None if some field is none of fixed width."""
    cuts: list[tuple[int, int] | str] = []
    for letter, more in _parts(pattern):
        if letter:
            cut = _SLICES.get((letter, int(more)))
            if cut is None:
                return None
            cuts.append(cut)
        else:
            cuts.append(str(more))
    return tuple(_merged(cuts))


def _merged(cuts: list[tuple[int, int] | str]) -> list[tuple[int, int] | str]:
    """Join fields that stand in the ISO text as they do in the pattern."""
    merged: list[tuple[int, int] | str] = []
    for cut in cuts:
        if isinstance(cut, tuple) and len(merged) > 1:
            text, before = merged[-1], merged[-2]
            if isinstance(text, str) and isinstance(before, tuple):
                end = before[1] + len(text)
                if end == cut[0] and _ISO[before[1] : end] == text:
                    merged[-2:] = [(before[0], cut[1])]
                    continue
        merged.append(cut)
    return merged


def _format(value: Value, pattern: str, count: int) -> Value:
    cuts = None if is_constant(value) else _cuts(pattern)
    if cuts is not None:
        texts = (
            pc.cast(pc.cast(value, pa.timestamp("ns"), safe=False), _TEXT)
            if _needs_nanos(cuts)
            else pc.cast(value, _TEXT)
        )
        if not is_constant(value) and _is_four_digits(value):
            pieces = [pc.utf8_slice_codeunits(texts, *cut) if isinstance(cut, tuple) else cut for cut in cuts]
            return (
                pieces[0]
                if len(pieces) == 1 and not isinstance(pieces[0], str)
                else (
                    pc.if_else(
                        pc.is_valid(value), pc.binary_join_element_wise(*map(_scalar, pieces), ""), None
                    )
                )
            )
    stamps = pc.cast(value, pa.int64())
    factor = 1000 if value.type.unit == "us" else 1
    return per_row(lambda stamp: format_time(stamp * factor, pattern), _TEXT, [stamps], count)


def _scalar(piece: Any) -> Any:
    return pa.scalar(piece) if isinstance(piece, str) else piece


def _needs_nanos(cuts: tuple[tuple[int, int] | str, ...]) -> bool:
    return any(isinstance(cut, tuple) and cut[1] > 26 for cut in cuts)


def _is_four_digits(value: pa.Array) -> bool:
    """Whether all years have four digits, so that places in the text are the same."""
    low, high = pc.min_max(value)["min"], pc.min_max(value)["max"]
    if not low.is_valid:
        return True
    factor = {"us": 1_000_000, "ns": 1_000_000_000}[value.type.unit]
    return bool(low.value >= -62_135_596_800 * factor and high.value < 253_402_300_800 * factor)


def _date_format(call: Any) -> Kernel:
    def kernel(setting: Setting, count: int, value: Value, pattern: Value) -> Value:
        if pa.types.is_string(value.type):
            value = _read_timestamps(value, count)
        elif value.type.tz:
            value = zoned_to_local(setting, value)
        if is_constant(pattern):
            if not pattern.is_valid:
                return pa.scalar(None, _TEXT)
            return _format(value, pattern.as_py(), count)
        factor = 1000 if value.type.unit == "us" else 1
        stamps = pc.cast(value, pa.int64())
        return per_row(lambda stamp, form: format_time(stamp * factor, form), _TEXT, [stamps, pattern], count)

    return kernel


def _read_timestamps(value: Value, count: int) -> Value:
    def one(text: str) -> int | None:
        seconds = parse_leniently(text, _DEFAULT)
        return None if seconds is None else seconds * 1_000_000

    return pc.cast(per_row(one, pa.int64(), [value], count), pa.timestamp("us"))


# --- reading


@lru_cache(maxsize=512)
def _reader(pattern: str) -> tuple[re.Pattern[str], tuple[str, ...]]:
    expression, letters = "", []
    parts = _parts(pattern)
    for place, (letter, more) in enumerate(parts):
        if not letter:
            expression += re.escape(str(more))
            continue
        letters.append(letter)
        adjacent = place + 1 < len(parts) and bool(parts[place + 1][0])
        expression += f"({_expected(letter, int(more), adjacent)})"
    return re.compile(expression), tuple(letters)


def _expected(letter: str, count: int, adjacent: bool) -> str:
    if letter == "a":
        return "AM|PM|am|pm"
    if letter in "ML" and count >= 3:
        return "|".join(_MONTHS if count == 4 else [each[:3] for each in _MONTHS])
    if letter == "E":
        return "|".join(_DAYS if count == 4 else [each[:3] for each in _DAYS])
    if letter == "S" or adjacent:
        return rf"\d{{{count}}}"
    if letter in "yuY":
        return rf"\d{{{count}}}" if count == 2 else rf"[+-]?\d{{{count},9}}"
    return rf"\d{{{count}}}" if count >= 2 else r"\d{1,9}"


def parse_time_text(text: str, pattern: str) -> int | None:
    """Return nanoseconds since 1970 of a text by a pattern; None if it does not fit.

    A day that its month lacks is its last, as in Java's SMART style.
    """
    expression, letters = _reader(pattern)
    found = expression.fullmatch(text)
    if found is None:
        return None
    fields = dict(zip(letters, found.groups(), strict=True))
    year_text = next((fields[letter] for letter in "yuY" if letter in fields), "1970")
    year = int(year_text) + (2000 if len(year_text) == 2 else 0)
    month_text = fields.get("M") or fields.get("L") or "1"
    month = (
        int(month_text)
        if month_text.isdecimal()
        else [each[:3] for each in _MONTHS].index(month_text[:3]) + 1
    )
    day, hour = int(fields.get("d", 1)), int(fields.get("H", fields.get("k", 0))) % 24
    if "h" in fields:
        hour = int(fields["h"]) % 12
    if fields.get("a", "").upper() == "PM" and hour < 12:
        hour += 12
    minute, second = int(fields.get("m", 0)), int(fields.get("s", 0))
    fits = (
        1 <= month <= 12
        and 1 <= day <= 31
        and hour < 24
        and minute < 60
        and second < 60
        and 1 <= year <= 9999
    )
    if not fits:
        return None
    nanos = int(fields.get("S", "0").ljust(9, "0")) if "S" in fields else 0
    if "D" in fields and "M" not in fields:
        start = datetime.datetime(year, 1, 1) + datetime.timedelta(days=int(fields["D"]) - 1)
        month, day = start.month, start.day
    moment = datetime.datetime(year, month, min(day, days_in_month(year, month)), hour, minute, second)
    return round((moment - _EPOCH).total_seconds()) * 10**9 + nanos


def parse_leniently(text: str, pattern: str) -> int | None:
    """Return seconds since 1970 of the beginning of a text, as Java's SimpleDateFormat reads it: month 13 is January.

    None if it does not fit the pattern.
    """
    expression, letters = _lenient_reader(pattern)
    found = expression.match(text)
    if found is None:
        return None
    fields = dict(zip(letters, found.groups(), strict=True))

    def number(names: str, usual: int) -> int:
        return next((int(fields[name]) for name in names if name in fields), usual)

    year_text = next((fields[name] for name in "yuY" if name in fields), "1970")
    year = int(year_text) + (2000 if len(year_text) == 2 else 0)
    month_text = fields.get("M") or fields.get("L") or "1"
    numeric = month_text.lstrip("-").isdecimal()
    month = int(month_text) if numeric else [each[:3] for each in _MONTHS].index(month_text[:3]) + 1
    hour = number("Hk", 0) % 24 if "k" in fields else number("H", 0)
    if "h" in fields:
        hour = int(fields["h"]) % 12 + (12 if fields.get("a", "").upper() == "PM" else 0)
    months = year * 12 + month - 1
    if not 1 <= months // 12 <= 9998:
        return None
    start = datetime.datetime(months // 12, months % 12 + 1, 1)
    rest = datetime.timedelta(
        days=number("dD", 1) - 1, hours=hour, minutes=number("m", 0), seconds=number("s", 0)
    )
    return round((start + rest - _EPOCH).total_seconds())


@lru_cache(maxsize=512)
def _lenient_reader(pattern: str) -> tuple[re.Pattern[str], tuple[str, ...]]:
    expression, letters = "", []
    parts = _parts(pattern)
    for place, (letter, more) in enumerate(parts):
        if not letter:
            expression += re.escape(str(more))
            continue
        letters.append(letter)
        adjacent = place + 1 < len(parts) and bool(parts[place + 1][0])
        worded = letter in "aE" or (letter in "ML" and int(more) >= 3)
        expected = rf"\d{{{more}}}" if adjacent else r"\d+"
        expression += f"({_expected(letter, int(more), adjacent) if worded else expected})"
    return re.compile(expression), tuple(letters)


def _timestamp(text: str, pattern: str | None = None) -> int | None:
    """Return milliseconds of TO_TIMESTAMP."""
    if pattern is None or pattern == _DEFAULT:
        try:
            return parse_timestamp(text.strip()) // 1_000_000
        except ValueError:
            return None
    found = parse_time_text(text, pattern)
    return None if found is None else found // 1_000_000


def _to_timestamp(call: Any) -> Kernel:
    def kernel(setting: Setting, count: int, text: Value, *pattern: Value) -> Value:
        quick = None if pattern and not _is_default(pattern[0]) else _quick_timestamps(text)
        if quick is not None:
            return quick
        stamps = per_row(_timestamp, pa.int64(), [text, *pattern], count)
        return pc.cast(pc.multiply(stamps, 1000), pa.timestamp("us"))

    return kernel


def _is_default(pattern: Value) -> bool:
    return is_constant(pattern) and pattern.as_py() == _DEFAULT


def _quick_timestamps(text: Value) -> Value | None:
    """Read ISO texts at once, if all are so."""
    if is_constant(text):
        return None
    fits = pc.match_substring_regex(text, r"^\d{4}-\d\d-\d\d \d\d:\d\d:\d\d(\.\d{1,3})?$")
    if pc.all(fits).as_py() is False:
        return None
    try:
        return pc.cast(text, pa.timestamp("us"))
    except pa.ArrowInvalid:
        return None


def _to_date(text: str, pattern: str | None = None) -> datetime.date | None:
    if pattern is None:
        try:
            return parse_date(text)
        except ValueError:
            return None
    found = parse_leniently(text, pattern)
    return None if found is None else (_EPOCH + datetime.timedelta(seconds=found)).date()


def _to_timestamp_ltz(call: Any) -> Kernel:
    textual = pa.types.is_string

    def kernel(setting: Setting, count: int, value: Value, *rest: Value) -> Value:
        if not textual(value.type):
            digits = rest[0] if rest else pa.scalar(3, pa.int32())
            stamps = _all_scaled(value, digits)
            if stamps is None:
                stamps = per_row(_scaled, pa.int64(), [value, digits], count)
            return pc.cast(pc.cast(stamps, pa.timestamp("us")), pa.timestamp("us", "UTC"))
        if not rest:
            stamps = per_row(lambda text: _moment_ms(text, setting.zone), pa.int64(), [value], count)
            return pc.cast(pc.multiply(stamps, 1000), pa.timestamp("us", "UTC"))
        pattern = rest[0]
        zone = rest[1] if len(rest) > 1 else pa.scalar(setting.zone)
        stamps = per_row(_zoned_millis, pa.int64(), [value, pattern, zone], count)
        return pc.cast(pc.multiply(stamps, 1000), pa.timestamp("us", "UTC"))

    return kernel


def _moment_ms(text: str, zone: str) -> int:
    try:
        return _from_zone(parse_timestamp(text.strip()) // 1_000_000, zone)
    except ValueError as error:
        raise EvaluationError(
            f"text {text!r} is no timestamp: {error}", hint="With a format, what does not fit it is NULL."
        ) from error


def _all_scaled(value: Value, digits: Value) -> Value | None:
    """Return microseconds of whole columns; None if row by row is to be told what cannot be computed."""
    precision = digits.as_py() if is_constant(digits) else None
    if precision not in (0, 3, 6) or not pa.types.is_integer(value.type):
        return None
    scale = pa.scalar(10 ** (6 - precision), pa.int64())
    try:
        return pc.multiply_checked(pc.cast(value, pa.int64()), scale)
    except pa.ArrowInvalid:
        return None


def _scaled(number: int, digits: int) -> int:
    if digits not in (0, 3, 6, 9):
        raise EvaluationError(
            f"TO_TIMESTAMP_LTZ has no precision {digits}", hint="It is 0 (seconds) or 3 (milliseconds)."
        )
    return number * 10 ** (6 - digits) if digits <= 6 else number // 1000


def _zoned_millis(text: str, pattern: str, zone: str) -> int | None:
    stamp = _timestamp(text, pattern)
    return None if stamp is None else _from_zone(stamp, zone)


def _from_zone(stamp_ms: int, zone: str) -> int:
    local = (_EPOCH + datetime.timedelta(milliseconds=stamp_ms)).replace(tzinfo=zone_of(zone))
    return (local - _UTC_EPOCH) // datetime.timedelta(milliseconds=1)


def _convert_zone(call: Any) -> Kernel:
    def one(text: str, source: str, target: str) -> str | None:
        seconds = parse_leniently(text, _DEFAULT)
        if seconds is None:
            return None
        moment = _UTC_EPOCH + datetime.timedelta(milliseconds=_from_zone(seconds * 1000, source))
        return moment.astimezone(zone_of(target)).strftime("%Y-%m-%d %H:%M:%S")

    def kernel(setting: Setting, count: int, value: Value, source: Value, target: Value) -> Value:
        texts = value if pa.types.is_string(value.type) else pc.cast(value, _TEXT)
        return per_row(one, _TEXT, [texts, source, target], count)

    return kernel


_OFFSET = re.compile(r"(?:GMT|UTC)?([+-])(\d{1,2})(?::?(\d{2}))?")


def zone_of(name: str) -> datetime.tzinfo:
    """Return a zone by its name or offset (`GMT+08:00`); of a name that is none it is UTC, as in Java's TimeZone."""
    found = _OFFSET.fullmatch(name)
    if found:
        offset = datetime.timedelta(hours=int(found[2]), minutes=int(found[3] or 0))
        return datetime.timezone(-offset if found[1] == "-" else offset)
    try:
        return zoneinfo.ZoneInfo(name)
    except (zoneinfo.ZoneInfoNotFoundError, ValueError):
        return datetime.UTC


def _from_unixtime(call: Any) -> Kernel:
    def kernel(setting: Setting, count: int, seconds: Value, *pattern: Value) -> Value:
        stamps = pc.cast(pc.multiply(seconds, 1_000_000), pa.timestamp("us", setting.zone))
        local = pc.local_timestamp(stamps)
        form = pattern[0] if pattern else pa.scalar(_DEFAULT)
        if is_constant(form):
            return pa.scalar(None, _TEXT) if not form.is_valid else _format(local, form.as_py(), count)
        whole = pc.cast(local, pa.int64())
        return per_row(lambda stamp, form: format_time(stamp * 1000, form), _TEXT, [whole, form], count)

    return kernel


def _unix_timestamp(call: Any) -> Kernel:
    def kernel(setting: Setting, count: int, *values: Value) -> Value:
        if not values:
            return pa.scalar(setting.now() // 1000, pa.int64())

        def one(text: str, pattern: str = _DEFAULT) -> int:
            seconds = parse_leniently(text, pattern)
            return -(1 << 63) if seconds is None else _from_zone(seconds * 1000, setting.zone) // 1000

        return per_row(one, pa.int64(), list(values), count)

    return kernel


KERNELS: dict[str, Factory] = {
    "DATE_FORMAT": _date_format,
    "TO_TIMESTAMP": _to_timestamp,
    "TO_DATE": lambda call: lambda setting, count, *values: per_row(_to_date, pa.date32(), values, count),
    "TO_TIMESTAMP_LTZ": _to_timestamp_ltz,
    "CONVERT_TZ": _convert_zone,
    "FROM_UNIXTIME": _from_unixtime,
    "UNIX_TIMESTAMP": _unix_timestamp,
}
