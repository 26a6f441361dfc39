"""Where reading of Kinesis' streams begins."""

from __future__ import annotations

import datetime
from collections.abc import Mapping

from millstream.base.errors import ConfigurationError, NotSupportedError
from millstream.connectors.shards.positions import Place, StartingPosition

__all__ = ["starting_position"]

INITPOS = "flink.stream.initpos"
TIMESTAMP = "flink.stream.initpos.timestamp"
TIMESTAMP_FORMAT = "flink.stream.initpos.timestamp.format"
_JAVA_FORMAT = "yyyy-MM-dd'T'HH:mm:ss.SSSXXX"


def starting_position(properties: Mapping[str, str]) -> StartingPosition:
    """Return what Flink's properties say; LATEST if they say nothing.

    Raises:
        ConfigurationError: If they do not fit.
        NotSupportedError: If the time is in a format of Java's.
    """
    name = properties.get(INITPOS, "LATEST").upper()
    if name in ("TRIM_HORIZON", "LATEST"):
        return StartingPosition(Place[name])
    if name != "AT_TIMESTAMP":
        raise ConfigurationError(
            f'the property "{INITPOS}" is {name!r}', detail="It is TRIM_HORIZON, LATEST or AT_TIMESTAMP."
        )
    if properties.get(TIMESTAMP_FORMAT, _JAVA_FORMAT) != _JAVA_FORMAT:
        raise NotSupportedError(
            f'the property "{TIMESTAMP_FORMAT}" is a format of Java\'s',
            hint="Leave it out, and give the time as 2026-01-31T12:00:00.000+01:00 or in seconds since 1970.",
        )
    return StartingPosition(Place.TIMESTAMP, _time_ms(properties.get(TIMESTAMP, "")))


def _time_ms(text: str) -> int:
    """Return a time in epoch milliseconds.

    >>> _time_ms("1.5"), _time_ms("1970-01-01T01:00:01.500+01:00")
    (1500, 1500)
    """
    try:
        return _not_negative(round(float(text) * 1_000))
    except ValueError:
        pass
    try:
        time = datetime.datetime.fromisoformat(text)
    except ValueError:
        raise _no_time(text) from None
    if time.tzinfo is None:
        raise _no_time(text)
    return _not_negative(round(time.timestamp() * 1_000))


def _not_negative(time_ms: int) -> int:
    if time_ms < 0:
        raise _no_time(f"{time_ms} ms")
    return time_ms


def _no_time(text: str) -> ConfigurationError:
    return ConfigurationError(
        f'the property "{TIMESTAMP}" is {text!r}',
        detail="It is a time with its zone, 2026-01-31T12:00:00.000+01:00, or seconds since 1970: 1769857200.5.",
    )
