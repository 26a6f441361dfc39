"""Properties of Flink's source of DynamoDB's streams: where reading begins, how shards are found and read."""

from __future__ import annotations

import logging
from collections.abc import Mapping

from millstream.base.errors import ConfigurationError
from millstream.config.option_types import parse_duration_ms
from millstream.connectors.shards.options import ReadOptions
from millstream.connectors.shards.positions import Place, StartingPosition

__all__ = ["check_names", "read_options", "starting_position"]

log = logging.getLogger(__name__)

_INITPOS = "flink.stream.initpos"
_DISCOVERY = "flink.shard.discovery.intervalmillis"
_FULL = "flink.dynamodbstreams.getrecords.nonempty.mindelay"
_EMPTY = "flink.dynamodbstreams.getrecords.empty.mindelay"
_LEAST = "flink.dynamodbstreams.backoff.mindelayduration"
_MOST = "flink.dynamodbstreams.backoff.maxdelay"
_KNOWN = frozenset({_INITPOS, _DISCOVERY, _FULL, _EMPTY, _LEAST, _MOST})
_MOST_RECORDS = 1_000
_GROWTH = 2.0


def starting_position(properties: Mapping[str, str]) -> StartingPosition:
    """Return where reading begins without a checkpoint; LATEST if the properties say nothing.

    Raises:
        ConfigurationError: If it is neither LATEST nor TRIM_HORIZON.
    """
    name = properties.get(_INITPOS, "LATEST").upper()
    if name not in ("TRIM_HORIZON", "LATEST"):
        raise ConfigurationError(
            f'the property "{_INITPOS}" is {name!r}', detail="It is LATEST or TRIM_HORIZON."
        )
    return StartingPosition(Place[name])


def read_options(properties: Mapping[str, str]) -> ReadOptions:
    """Return how shards are read.

    Raises:
        ConfigurationError: If a property is no duration.
    """
    return ReadOptions(
        most_records=_MOST_RECORDS,
        interval_ms=_duration_ms(properties, _FULL, "250 ms"),
        empty_interval_ms=_duration_ms(properties, _EMPTY, "1 s"),
        first_wait_ms=_duration_ms(properties, _LEAST, "100 ms"),
        longest_wait_ms=_duration_ms(properties, _MOST, "1 s"),
        growth=_GROWTH,
        adaptive=False,
        discovery_ms=_duration_ms(properties, _DISCOVERY, "60 s"),
    )


def check_names(properties: Mapping[str, str]) -> None:
    """Warn of properties that nothing reads: mistyped, or about a client in Java."""
    for name in properties:
        if name not in _KNOWN and not name.startswith("aws."):
            log.warning('the property "%s" of a DynamoDB source has no effect', name)


def _duration_ms(properties: Mapping[str, str], name: str, default: str) -> int:
    """Return a duration in milliseconds; a number alone is one.

    >>> _duration_ms({"wait": "2 s"}, "wait", "1 min"), _duration_ms({}, "wait", "1 min")
    (2000, 60000)
    """
    text = properties.get(name, default)
    try:
        return parse_duration_ms(text)
    except ValueError:
        raise ConfigurationError(
            f'the property "{name}" is {text!r}', detail="It is a duration: 250 ms, 1 s, 1 min."
        ) from None
