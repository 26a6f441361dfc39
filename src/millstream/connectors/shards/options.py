"""How shards are found and read."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from millstream.base.errors import ConfigurationError

__all__ = ["ReadOptions", "number"]


@dataclass(frozen=True, slots=True)
class ReadOptions:
    """How shards are read.

    Attributes:
        most_records: Records of one answer, at most.
        interval_ms: Between two reads of a shard.
        empty_interval_ms: Behind a read that gave nothing.
        first_wait_ms: After a read that was one too many.
        longest_wait_ms: After many of them.
        growth: How much longer each time.
        adaptive: Whether answers are kept as small as two megabytes in a second.
        discovery_ms: How often shards are listed; None for only when one was read to its end.
    """

    most_records: int
    interval_ms: int
    empty_interval_ms: int
    first_wait_ms: int
    longest_wait_ms: int
    growth: float
    adaptive: bool
    discovery_ms: int | None


def number(properties: Mapping[str, str], name: str, default: int, *, least: int = 0) -> int:
    """Return a property that is a number.

    Raises:
        ConfigurationError: If it is none, or too small.
    """
    text = properties.get(name, str(default))
    try:
        value = int(text)
    except ValueError:
        raise ConfigurationError(f'the property "{name}" is {text!r}, not a number') from None
    if value < least:
        raise ConfigurationError(f'the property "{name}" is {value}', detail=f"It is at least {least}.")
    return value
