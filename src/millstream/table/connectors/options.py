"""Options of tables: read with their types, and those that nobody read are refused."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import TYPE_CHECKING, TypeVar

from millstream.base.errors import ConfigurationError, NotSupportedError
from millstream.table.errors import did_you_mean

if TYPE_CHECKING:
    from millstream.table.catalog.resolved import ResolvedTable

__all__ = ["WATERMARK_OPTIONS", "ConnectorOptions", "duration_ms", "memory_bytes"]

WATERMARK_OPTIONS = (
    "scan.watermark.emit.strategy",
    "scan.watermark.emit.on-event.gap",
    "scan.watermark.alignment.group",
    "scan.watermark.alignment.max-drift",
    "scan.watermark.alignment.update-interval",
    "scan.watermark.idle-timeout",
)
"""Options of every table that is read; `watermark_options` reads them."""

T = TypeVar("T")

_UNITS_MS = {
    **dict.fromkeys(("ms", "milli", "millis", "millisecond", "milliseconds"), 1.0),
    **dict.fromkeys(("s", "sec", "secs", "second", "seconds"), 1000.0),
    **dict.fromkeys(("m", "min", "mins", "minute", "minutes"), 60_000.0),
    **dict.fromkeys(("h", "hour", "hours"), 3_600_000.0),
    **dict.fromkeys(("d", "day", "days"), 86_400_000.0),
    **dict.fromkeys(("us", "µs", "micro", "micros", "microsecond", "microseconds"), 0.001),
    **dict.fromkeys(("ns", "nano", "nanos", "nanosecond", "nanoseconds"), 0.000001),
}
_UNITS_BYTES = {
    **dict.fromkeys(("", "b", "bytes"), 1),
    **dict.fromkeys(("k", "kb", "kibibytes"), 1 << 10),
    **dict.fromkeys(("m", "mb", "mebibytes"), 1 << 20),
    **dict.fromkeys(("g", "gb", "gibibytes"), 1 << 30),
}


def duration_ms(text: str) -> int:
    """Return a length of time in milliseconds: `10 s`, `500ms`, `1 min`; a bare number is milliseconds.

    Raises:
        ValueError: If it is none.
    """
    match = re.fullmatch(r"\s*(\d+)\s*([a-zµ]*)\s*", text.lower())
    if match is None or (match.group(2) and match.group(2) not in _UNITS_MS):
        raise ValueError(f"{text!r} is no length of time such as 10 s, 500 ms, 1 min")
    return int(int(match.group(1)) * _UNITS_MS[match.group(2) or "ms"])


def memory_bytes(text: str) -> int:
    """Return a size in bytes: `64 mb`, `1gb`; a bare number is bytes.

    Raises:
        ValueError: If it is none.
    """
    match = re.fullmatch(r"\s*(\d+)\s*([a-z]*)\s*", text.lower())
    if match is None or match.group(2) not in _UNITS_BYTES:
        raise ValueError(f"{text!r} is no size such as 64 mb")
    return int(match.group(1)) * _UNITS_BYTES[match.group(2)]


class ConnectorOptions:
    """The options of one table; each is read by its key, and `check_all_read` refuses the rest."""

    def __init__(self, table: ResolvedTable) -> None:
        self._table = table
        self._values = dict(table.options)
        self._read: dict[str, None] = {"connector": None}

    @property
    def _where(self) -> str:
        return f'table "{self._table.full_name}" with the connector "{self._table.connector}"'

    def __contains__(self, key: str) -> bool:
        self._read[key] = None
        return key in self._values

    def text(self, key: str, default: str | None = None) -> str | None:
        """Return an option as it is."""
        self._read[key] = None
        return self._values.get(key, default)

    def required(self, key: str, example: str = "...") -> str:
        """Return an option that has to be there.

        Raises:
            ConfigurationError: If it is not.
        """
        value = self.text(key)
        if value is None:
            raise ConfigurationError(
                f"{self._where} has no option '{key}'", hint=f"Add '{key}' = '{example}' to WITH (...)."
            )
        return value

    def choice(self, key: str, choices: Sequence[str], default: str) -> str:
        """Return an option that is one of some words.

        Raises:
            ConfigurationError: If it is another.
        """
        value = (self.text(key) or default).lower()
        if value not in choices:
            raise self.error(key, value, f"It is one of: {', '.join(choices)}.")
        return value

    def only(self, key: str, value: str | None = None) -> None:
        """Refuse an option of Flink's that has one value here.

        Args:
            key: The option.
            value: The only value that may be given; None if the option may not be given at all.

        Raises:
            NotSupportedError: If it has another.
        """
        given = self.text(key)
        if given is not None and given.lower() != value:
            raise NotSupportedError(
                f"{self._where} has '{key}' = '{given}', which is not in millstream yet",
                hint="Leave the option out." if value is None else f"Leave the option out: it is '{value}'.",
            )

    def none_with_prefix(self, prefix: str) -> None:
        """Refuse all options of Flink's that begin so.

        Raises:
            NotSupportedError: If there is one.
        """
        for key in self.with_prefix(prefix):
            self.only(prefix + key)

    def integer(self, key: str, default: int | None = None, smallest: int | None = None) -> int | None:
        """Return an option that is a whole number.

        Raises:
            ConfigurationError: If it is none, or too small.
        """
        value = self.text(key)
        if value is None:
            return default
        try:
            number = int(value)
        except ValueError as error:
            raise self.error(key, value, "It takes a whole number.") from error
        if smallest is not None and number < smallest:
            raise self.error(key, value, f"It is at least {smallest}.")
        return number

    def flag(self, key: str, default: bool) -> bool:
        """Return an option that is true or false.

        Raises:
            ConfigurationError: If it is neither.
        """
        return self.choice(key, ("true", "false"), "true" if default else "false") == "true"

    def duration(self, key: str, default_ms: int | None = None) -> int | None:
        """Return an option that is a length of time, in milliseconds.

        Raises:
            ConfigurationError: If it is none.
        """
        value = self.text(key)
        if value is None:
            return default_ms
        try:
            return duration_ms(value)
        except ValueError as error:
            raise self.error(key, value, str(error)) from error

    def memory(self, key: str, default: int | None = None) -> int | None:
        """Return an option that is a size, in bytes.

        Raises:
            ConfigurationError: If it is none.
        """
        value = self.text(key)
        if value is None:
            return default
        try:
            return memory_bytes(value)
        except ValueError as error:
            raise self.error(key, value, str(error)) from error

    def with_prefix(self, prefix: str) -> dict[str, str]:
        """Return options whose keys begin so, without it."""
        found = {key: value for key, value in self._values.items() if key.startswith(prefix)}
        self._read.update(dict.fromkeys(found))
        return {key[len(prefix) :]: value for key, value in found.items()}

    def error(self, key: str, value: str, detail: str) -> ConfigurationError:
        """Make an error about an option's value."""
        return ConfigurationError(f"{self._where} has '{key}' = '{value}'", detail=detail)

    def check_all_read(self) -> None:
        """Refuse options that nobody read.

        Raises:
            ConfigurationError: If there are any.
        """
        unread = [key for key in self._values if key not in self._read and key not in WATERMARK_OPTIONS]
        if unread:
            known = sorted(self._read)
            raise ConfigurationError(
                f"{self._where} has the option '{unread[0]}', which it does not take",
                detail=f"It takes: {', '.join(known)}.",
                hint=did_you_mean(unread[0], known),
            )
