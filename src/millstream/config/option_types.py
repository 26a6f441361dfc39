"""What an option is: its key, type and default (Flink's `ConfigOption`); `config/options.py` lists them all."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from datetime import timedelta
from enum import Enum
from typing import Any

from millstream.base.errors import ConfigurationError, shorten
from millstream.base.time import Duration, Time, to_milliseconds

__all__ = ["ConfigOption", "OptionType", "parse_duration_ms"]


class OptionType(Enum):
    """What kind of value an option takes; the value is how messages name it."""

    STRING = "a string"
    INTEGER = "an integer"
    POSITIVE_INTEGER = "a positive integer"
    FLOAT = "a number"
    BOOLEAN = "true or false"
    DURATION = "a duration, such as 200 (ms), '10 s' or '1 min'"
    MAP = "a mapping of strings, such as 'a:1,b:2'"

    def convert(self, value: object) -> Any:
        """Return `value` as this type.

        Raises:
            ValueError: If it does not fit; `TypeError` likewise.
        """
        return _CONVERTERS[self](value)


@dataclass(frozen=True)
class ConfigOption:
    """One option.

    Attributes:
        key: Hierarchical, lower case, separated by dots.
        type: What kind of value it takes; durations are read as milliseconds.
        default: What holds when nobody sets it, already of that type; None for no value.
        doc: One or two sentences for users.
        choices: The only values allowed; empty for any.
        fallback_keys: Older keys that Flink still takes for this option.

    Example:
        >>> from millstream.common import ConfigOptions
        >>> option = ConfigOptions.key("shop.discount").int_type().default_value(5)
        >>> option.key, option.default, option.convert("7")
        ('shop.discount', 5, 7)
    """

    key: str
    type: OptionType
    default: Any = None
    doc: str = ""
    choices: tuple[str, ...] = field(default=(), kw_only=True)
    fallback_keys: tuple[str, ...] = field(default=(), kw_only=True)

    def convert(self, value: object) -> Any:
        """Return `value` as the option's type.

        Raises:
            ConfigurationError: If it does not fit; names key, value and expected type.
        """
        try:
            converted = self.type.convert(value)
        except (ValueError, TypeError) as error:
            raise self._misfit(value, f"The option takes {self.type.value}.") from error
        if self.choices and converted.lower() not in map(str.lower, self.choices):
            raise self._misfit(value, f"The option takes one of: {', '.join(self.choices)}.")
        return converted

    def _misfit(self, value: object, detail: str) -> ConfigurationError:
        return ConfigurationError(
            f'option "{self.key}" was given {shorten(value)} of type {type(value).__name__}', detail=detail
        )


_UNITS_MS = {
    "ns": 1e-6,
    "nano": 1e-6,
    "us": 1e-3,
    "µs": 1e-3,
    "micro": 1e-3,
    "": 1,
    "ms": 1,
    "milli": 1,
    "millisecond": 1,
    "s": 1_000,
    "sec": 1_000,
    "second": 1_000,
    "m": 60_000,
    "min": 60_000,
    "minute": 60_000,
    "h": 3_600_000,
    "hour": 3_600_000,
    "d": 86_400_000,
    "day": 86_400_000,
}


def parse_duration_ms(value: object) -> int:
    """Return a duration in milliseconds, rounded down; a bare number is milliseconds already.

    >>> [parse_duration_ms(text) for text in (5, "200ms", "10 s", "1 min", "1.5 hours")]
    [5, 200, 10000, 60000, 5400000]

    Raises:
        ValueError: If it is not a duration, or negative.
    """
    if isinstance(value, (Duration, Time, timedelta)):
        return to_milliseconds(value)
    match = re.fullmatch(r"\s*(\d+(?:\.\d+)?)\s*([a-zµ]*)\s*", str(value).lower())
    if match is None or isinstance(value, bool):
        raise ValueError(f"{value!r} is not a duration")
    unit = match[2] if match[2] in _UNITS_MS else match[2].removesuffix("s")
    if unit not in _UNITS_MS:
        raise ValueError(f"{match[2]!r} is not a unit of time")
    return int(float(match[1]) * _UNITS_MS[unit])


def _to_string(value: object) -> str:
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, (str, int, float)):
        return str(value)
    if isinstance(value, Enum):
        return value.name
    raise ValueError("not a string")


def _to_integer(value: object) -> int:
    if isinstance(value, bool):
        raise ValueError("a bool is not an integer")
    if isinstance(value, int):
        return int(value)
    if isinstance(value, str):
        return int(value)
    raise ValueError("not an integer")


def _to_positive_integer(value: object) -> int:
    number = _to_integer(value)
    if number < 1:
        raise ValueError("not positive")
    return number


def _to_float(value: object) -> float:
    if isinstance(value, bool) or not isinstance(value, (int, float, str)):
        raise ValueError("not a number")
    return float(value)


def _to_boolean(value: object) -> bool:
    if isinstance(value, bool):
        return value
    if isinstance(value, str) and value.strip().lower() in ("true", "false"):
        return value.strip().lower() == "true"
    raise ValueError("neither true nor false")


def _to_map(value: object) -> dict[str, str]:
    if isinstance(value, Mapping):
        return {str(key): _to_string(item) for key, item in value.items()}
    if not isinstance(value, str):
        raise ValueError("not a mapping")
    text = value.strip()
    if text.startswith("{"):
        return _to_map(json.loads(text))
    pairs = [part.partition(":") for part in re.split(r"[,;]", text) if part.strip()]
    if not all(colon for _, colon, _ in pairs):
        raise ValueError("a pair has no colon")
    return {key.strip(): item.strip() for key, _, item in pairs}


_CONVERTERS: dict[OptionType, Callable[[object], Any]] = {
    OptionType.STRING: _to_string,
    OptionType.INTEGER: _to_integer,
    OptionType.POSITIVE_INTEGER: _to_positive_integer,
    OptionType.FLOAT: _to_float,
    OptionType.BOOLEAN: _to_boolean,
    OptionType.DURATION: parse_duration_ms,
    OptionType.MAP: _to_map,
}
