"""The session's options that planning heeds."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass

from millstream.base.errors import ConfigurationError
from millstream.table.plan.context import PlanContext

__all__ = ["PlanSettings", "duration_ms"]

_UNITS = {
    "ms": 1,
    "milli": 1,
    "s": 1_000,
    "sec": 1_000,
    "second": 1_000,
    "min": 60_000,
    "m": 60_000,
    "minute": 60_000,
    "h": 3_600_000,
    "hour": 3_600_000,
    "d": 86_400_000,
    "day": 86_400_000,
}


def duration_ms(text: str, option: str) -> int:
    """Return a span of time as Flink's options have it, `10 min`, in milliseconds.

    Raises:
        ConfigurationError: If it is none.
    """
    match = re.fullmatch(r"\s*(\d+)\s*([a-z]*)\s*", text.lower())
    unit = None if match is None else _UNITS.get(match[2] or "ms", _UNITS.get(match[2].rstrip("s")))
    if match is None or unit is None:
        raise ConfigurationError(
            f'option "{option}" is "{text}", which is no span of time',
            hint='Write it like "10 min" or "1 d".',
        )
    return int(match[1]) * unit


@dataclass(frozen=True)
class PlanSettings:
    """Options.

    Attributes:
        ttl_ms: How long idle state is kept (`table.exec.state.ttl`); None for ever.
        idle_ms: After how long without rows a source counts as idle (`table.exec.source.idle-timeout`); None never.
        duplicates: Whether changes may come again (`table.exec.source.cdc-events-duplicate`).
        materialize: `table.exec.sink.upsert-materialize`: NONE, AUTO or FORCE.
        asks_conflict: `table.exec.sink.require-on-conflict`: whether a query whose upsert key is not the sink's primary
            key has to have ON CONFLICT.
        not_null: `table.exec.sink.not-null-enforcer`: ERROR or DROP.
        lengths: `table.exec.sink.type-length-enforcer`: IGNORE, TRIM_PAD or ERROR.
        zone: `table.local-time-zone`.
    """

    ttl_ms: int | None = None
    idle_ms: int | None = None
    duplicates: bool = False
    materialize: str = "AUTO"
    not_null: str = "ERROR"
    lengths: str = "IGNORE"
    zone: str = "UTC"
    asks_conflict: bool = True

    @staticmethod
    def of(context: PlanContext) -> PlanSettings:
        """Return the settings of a session."""
        options: Mapping[str, str] = context.options
        return PlanSettings(
            _span(options, "table.exec.state.ttl"),
            _span(options, "table.exec.source.idle-timeout"),
            options.get("table.exec.source.cdc-events-duplicate", "false").lower() == "true",
            _one_of(options, "table.exec.sink.upsert-materialize", ("AUTO", "NONE", "FORCE")),
            _one_of(options, "table.exec.sink.not-null-enforcer", ("ERROR", "DROP")),
            _one_of(options, "table.exec.sink.type-length-enforcer", ("IGNORE", "TRIM_PAD", "ERROR")),
            _zone(options.get("table.local-time-zone", "default")),
            options.get("table.exec.sink.require-on-conflict", "true").lower() != "false",
        )


def _zone(name: str) -> str:
    return "UTC" if name == "default" else name


def _one_of(options: Mapping[str, str], name: str, values: tuple[str, ...]) -> str:
    """Return an option's value, by default the first that it can have.

    Raises:
        ConfigurationError: If it has another.
    """
    text = options.get(name, values[0]).upper()
    if text not in values:
        raise ConfigurationError(
            f'option "{name}" is "{options[name]}"', detail=f"It is one of: {', '.join(values)}."
        )
    return text


def _span(options: Mapping[str, str], name: str) -> int | None:
    text = options.get(name)
    return None if text is None else duration_ms(text, name) or None
