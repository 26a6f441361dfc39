"""Kernels of parts of times, of rounding them, of differences, and of the current time."""

from __future__ import annotations

import datetime
import zoneinfo
from collections.abc import Callable
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from millstream.table.functions.kernels.arithmetic import add_months
from millstream.table.functions.kernels.texts import assume_zone, zoned_to_local
from millstream.table.functions.kernels.values import (
    Factory,
    Kernel,
    Setting,
    Value,
    as_array,
    is_constant,
)
from millstream.table.functions.types import arrow_type
from millstream.types import further_types as f

__all__ = ["KERNELS", "to_zoned"]

DAY_MS = 86_400_000


def _local(setting: Setting, value: Value) -> Value:
    """Return moments as timestamps of the session's zone; other times as they are."""
    kind = value.type
    return zoned_to_local(setting, value) if pa.types.is_timestamp(kind) and kind.tz else value


def to_zoned(local: Value, zone: str) -> Value:
    """Return timestamps of a zone as moments."""
    return assume_zone(local, zone)


def _floor_divide(value: Value, divisor: int) -> Value:
    quotient = pc.divide(value, divisor)
    rest = pc.subtract(value, pc.multiply(quotient, divisor))
    return pc.subtract(quotient, pc.cast(pc.less(rest, 0), pa.int64()))


def _remainder(value: Value, divisor: int) -> Value:
    return pc.subtract(value, pc.multiply(_floor_divide(value, divisor), divisor))


# --- EXTRACT

_DIRECT: dict[str, Callable[[Value], Value]] = {
    "YEAR": pc.year,
    "QUARTER": pc.quarter,
    "MONTH": pc.month,
    "DAY": pc.day,
    "DOY": pc.day_of_year,
    "WEEK": pc.iso_week,
    "ISOYEAR": pc.iso_year,
    "DOW": lambda value: pc.day_of_week(value, count_from_zero=False, week_start=7),
    "ISODOW": lambda value: pc.day_of_week(value, count_from_zero=False),
    "DECADE": lambda value: _floor_divide(pc.year(value), 10),
    "CENTURY": lambda value: pc.add(_floor_divide(pc.subtract(pc.year(value), 1), 100), 1),
    "MILLENNIUM": lambda value: pc.add(_floor_divide(pc.subtract(pc.year(value), 1), 1000), 1),
}
_OF_DAY = {  # nanoseconds of the unit, how many of it there are in the next larger one
    "HOUR": (3_600_000_000_000, 24),
    "MINUTE": (60_000_000_000, 60),
    "SECOND": (1_000_000_000, 60),
    "MILLISECOND": (1_000_000, 1000),
    "MICROSECOND": (1000, 1_000_000),
    "NANOSECOND": (1, 1_000_000_000),
}
_PER_SECOND = {"s": 1, "ms": 1000, "us": 1_000_000, "ns": 1_000_000_000}


def _extract(call: Any) -> Kernel:
    unit = call.operands[0].value.strip()
    source = call.operands[1].type
    if isinstance(source, f.YearMonthIntervalType | f.DayTimeIntervalType):
        return lambda setting, count, _, value: _interval_part(unit, source, value)

    def kernel(setting: Setting, count: int, _: Value, value: Value) -> Value:
        value = _local(setting, value)
        if pa.types.is_time(value.type):
            whole = pc.cast(pc.cast(value, pa.time64("ns")), pa.int64())
            return _of_day(unit, whole, 1_000_000_000)
        if unit == "EPOCH":
            return _epoch(value)
        if unit in _DIRECT:
            return pc.cast(_DIRECT[unit](value), pa.int64())
        if pa.types.is_date(value.type):
            return pc.multiply(pc.cast(pc.cast(value, pa.int32()), pa.int64()), 0)
        return _of_day(unit, pc.cast(value, pa.int64()), _PER_SECOND[value.type.unit])

    return kernel


def _of_day(unit: str, whole: Value, per_second: int) -> Value:
    size, several = _OF_DAY[unit]
    step = size * per_second // 1_000_000_000
    if step == 0:
        return pc.multiply(_remainder(whole, per_second), 1_000_000_000 // per_second // size)
    return _remainder(_floor_divide(whole, step), several)


def _epoch(value: Value) -> Value:
    if pa.types.is_date(value.type):
        return pc.multiply(pc.cast(pc.cast(value, pa.int32()), pa.int64()), 86_400)
    return _floor_divide(pc.cast(value, pa.int64()), _PER_SECOND[value.type.unit])


def _interval_part(unit: str, source: Any, value: Value) -> Value:
    whole = pc.cast(value, pa.int64())
    if isinstance(source, f.YearMonthIntervalType):
        years = pc.divide(whole, 12)
        months = pc.subtract(whole, pc.multiply(years, 12))
        return {"YEAR": years, "MONTH": months, "QUARTER": pc.add(pc.divide(months, 3), 1)}.get(unit, months)
    size, several = {
        "DAY": (DAY_MS, 10**9),
        "HOUR": (3_600_000, 24),
        "MINUTE": (60_000, 60),
        "SECOND": (1000, 60),
        "EPOCH": (1000, 10**15),
    }.get(unit, (1, 1000))
    quotient = pc.divide(whole, size)
    return pc.subtract(quotient, pc.multiply(pc.divide(quotient, several), several))


# --- FLOOR and CEIL TO

_YEARS = {"DECADE": 10, "CENTURY": 100, "MILLENNIUM": 1000}


def _round_to(up: bool) -> Factory:
    def make(call: Any) -> Kernel:
        unit = call.operands[1].value.strip()
        kind = arrow_type(call.type)

        def kernel(setting: Setting, count: int, value: Value, _: Value) -> Value:
            local = _local(setting, value)
            if pa.types.is_time(kind):
                return _round_time(local, unit, up)
            if pa.types.is_date(kind) and unit in _OF_DAY:
                return value
            floor = _floor(local, unit, count)
            result = floor if not up else _next(local, floor, unit, count)
            if pa.types.is_timestamp(kind) and kind.tz:
                return to_zoned(result, setting.zone)
            return result if result.type == kind else pc.cast(result, kind)

        return kernel

    return make


def _floor(value: Value, unit: str, count: int) -> Value:
    if unit in _YEARS:
        first = 0 if unit == "DECADE" else 1
        years = pc.cast(pc.year(value), pa.int64())
        back = _remainder(pc.subtract(years, first), _YEARS[unit])
        start = pc.floor_temporal(value, unit="year")
        return add_months(start, pc.negate(pc.multiply(back, 12)), count)
    return pc.cast(pc.floor_temporal(value, unit=unit.lower(), week_starts_monday=False), value.type)


_STEPS_MS = {
    "WEEK": 7 * DAY_MS,
    "DAY": DAY_MS,
    "HOUR": 3_600_000,
    "MINUTE": 60_000,
    "SECOND": 1000,
    "MILLISECOND": 1,
}
_STEPS_MONTHS = {"YEAR": 12, "QUARTER": 3, "MONTH": 1, "DECADE": 120, "CENTURY": 1200, "MILLENNIUM": 12000}


def _next(value: Value, floor: Value, unit: str, count: int) -> Value:
    """Return the floor where a time stands on it, else the unit behind."""
    if unit in _STEPS_MONTHS:
        after = add_months(floor, pa.scalar(_STEPS_MONTHS[unit], pa.int64()), count)
    elif pa.types.is_date(value.type):
        days = pc.add(pc.cast(floor, pa.int32()), pa.scalar(_STEPS_MS[unit] // DAY_MS, pa.int32()))
        after = pc.cast(days, value.type)
    elif unit == "MICROSECOND":
        after = pc.add(floor, pa.scalar(1, pa.duration("us")))
    else:
        after = pc.add(floor, pa.scalar(_STEPS_MS[unit], pa.duration("ms")))
    return pc.if_else(pc.equal(value, floor), floor, after)


def _round_time(value: Value, unit: str, up: bool) -> Value:
    whole = pc.cast(pc.cast(value, pa.time64("ns")), pa.int64())
    step = _OF_DAY.get(unit, (24 * 3_600_000_000_000, 1))[0]
    floor = pc.multiply(_floor_divide(whole, step), step)
    if up:
        floor = pc.if_else(pc.equal(whole, floor), floor, pc.add(floor, step))
        floor = _remainder(floor, 24 * 3_600_000_000_000)
    return pc.cast(pc.cast(floor, pa.time64("ns")), value.type, safe=False)


# --- TIMESTAMPDIFF

_DIFF_MS = {"WEEK": 7 * DAY_MS, "DAY": DAY_MS, "HOUR": 3_600_000, "MINUTE": 60_000, "SECOND": 1000}
_DIFF_MONTHS = {"YEAR": 12, "QUARTER": 3, "MONTH": 1}


def _milliseconds(value: Value) -> Value:
    kind = value.type
    if pa.types.is_date(kind):
        return pc.multiply(pc.cast(pc.cast(value, pa.int32()), pa.int64()), DAY_MS)
    if pa.types.is_time(kind):
        return _floor_divide(pc.cast(pc.cast(value, pa.time64("ns")), pa.int64()), 1_000_000)
    return _floor_divide(pc.cast(value, pa.int64()), _PER_SECOND[kind.unit] // 1000)


def _difference(call: Any) -> Kernel:
    unit = call.operands[0].value.strip()

    def kernel(setting: Setting, count: int, _: Value, start: Value, end: Value) -> Value:
        start, end = _local(setting, start), _local(setting, end)
        if unit in _DIFF_MS:
            span = pc.subtract(_milliseconds(end), _milliseconds(start))
            return pc.cast(pc.divide(span, _DIFF_MS[unit]), pa.int32(), safe=False)
        months = _months_between(start, end, count)
        return pc.cast(pc.divide(months, _DIFF_MONTHS[unit]), pa.int32(), safe=False)

    return kernel


def _months_between(start: Value, end: Value, count: int) -> Value:
    """Return whole months from one time to another: as many as fit when they are added to the first."""
    rows = 1 if is_constant(start) and is_constant(end) else count
    first, last = as_array(start, rows), as_array(end, rows)

    def months(value: pa.Array) -> Value:
        return pc.add(
            pc.multiply(pc.cast(pc.year(value), pa.int64()), 12), pc.cast(pc.month(value), pa.int64())
        )

    between = pc.subtract(months(last), months(first))
    reached = add_months(first, between, rows)
    beyond = pc.and_(pc.greater(between, 0), pc.greater(reached, last))
    before = pc.and_(pc.less(between, 0), pc.less(reached, last))
    fixed = pc.subtract(between, pc.cast(beyond, pa.int64()))
    result = pc.add(fixed, pc.cast(before, pa.int64()))
    return result[0] if is_constant(start) and is_constant(end) else result


# --- now


def _local_now(setting: Setting) -> datetime.datetime:
    moment = datetime.datetime.fromtimestamp(setting.now() / 1000, datetime.UTC)
    return moment.astimezone(zoneinfo.ZoneInfo(setting.zone)).replace(tzinfo=None)


def _now(make_value: Callable[[Setting], Any]) -> Factory:
    def make(call: Any) -> Kernel:
        kind = arrow_type(call.type)
        return lambda setting, count: pa.scalar(make_value(setting), kind)

    return make


def _moment(setting: Setting) -> datetime.datetime:
    return datetime.datetime.fromtimestamp(0, datetime.UTC) + datetime.timedelta(milliseconds=setting.now())


def _time_of_day(setting: Setting) -> datetime.time:
    return _local_now(setting).time().replace(microsecond=0)


def _watermark(call: Any) -> Kernel:
    kind = arrow_type(call.type)

    def kernel(setting: Setting, count: int, _: Value) -> Value:
        if setting.watermark_ms is None:
            return pa.scalar(None, kind)
        factor = _PER_SECOND[kind.unit] // 1000
        stamps = pa.scalar(setting.watermark_ms * factor, pa.int64())
        return pc.cast(stamps, kind)

    return kernel


KERNELS: dict[str, Factory] = {
    "EXTRACT": _extract,
    "FLOOR TO": _round_to(False),
    "CEIL TO": _round_to(True),
    "TIMESTAMPDIFF": _difference,
    "LOCALTIME": _now(_time_of_day),
    "CURRENT_TIME": _now(_time_of_day),
    "LOCALTIMESTAMP": _now(lambda setting: _local_now(setting)),
    "CURRENT_DATE": _now(lambda setting: _local_now(setting).date()),
    "CURRENT_TIMESTAMP": _now(_moment),
    "NOW": _now(_moment),
    "CURRENT_ROW_TIMESTAMP": _now(_moment),
    "PROCTIME": _now(_moment),
    "CURRENT_WATERMARK": _watermark,
    "CURRENT_DATABASE": _now(lambda setting: setting.database),
}
