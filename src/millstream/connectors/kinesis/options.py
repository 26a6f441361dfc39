"""Properties of Flink's consumer of Kinesis: how shards are found and read."""

from __future__ import annotations

import logging
from collections.abc import Mapping

from millstream.base.errors import ConfigurationError, NotSupportedError
from millstream.connectors.shards.options import ReadOptions, number

__all__ = ["check_names", "read_options"]

log = logging.getLogger(__name__)

_GET = "flink.shard.getrecords"
_MOST_RECORDS = 10_000
_KNOWN = (
    "aws.",
    "flink.stream.initpos",
    "flink.shard.getrecords.maxrecordcount",
    "flink.shard.getrecords.intervalmillis",
    "flink.shard.getrecords.backoff.",
    "flink.shard.adaptivereads",
    "flink.shard.use.adaptive.reads",
    "flink.shard.discovery.intervalmillis",
    "flink.shard.idle.interval",
    "flink.watermark.lookahead.millis",
    "flink.stream.recordpublisher",
)


def read_options(properties: Mapping[str, str]) -> ReadOptions:
    """Return what the properties say.

    Raises:
        ConfigurationError: If one has a value that does not fit.
        NotSupportedError: If shards are to be read by enhanced fan-out.
    """
    publisher = properties.get("flink.stream.recordpublisher", "POLLING").upper()
    if publisher != "POLLING":
        raise NotSupportedError(
            f'the property "flink.stream.recordpublisher" is {publisher!r}: enhanced fan-out is not there',
            hint="Leave it out: shards are polled.",
        )
    adaptive = properties.get(
        "flink.shard.adaptivereads", properties.get("flink.shard.use.adaptive.reads", "")
    )
    most = number(properties, f"{_GET}.maxrecordcount", _MOST_RECORDS, least=1)
    if most > _MOST_RECORDS:
        raise ConfigurationError(
            f'the property "{_GET}.maxrecordcount" is {most}', detail=f"It is at most {_MOST_RECORDS}."
        )
    discovery_ms = number(properties, "flink.shard.discovery.intervalmillis", 10_000, least=-1)
    interval_ms = number(properties, f"{_GET}.intervalmillis", 200)
    return ReadOptions(
        most_records=most,
        interval_ms=interval_ms,
        empty_interval_ms=interval_ms,
        first_wait_ms=number(properties, f"{_GET}.backoff.base", 300, least=1),
        longest_wait_ms=number(properties, f"{_GET}.backoff.max", 1_000, least=1),
        growth=_decimal(properties, f"{_GET}.backoff.expconst", 1.5),
        adaptive=adaptive.lower() == "true",
        discovery_ms=None if discovery_ms < 0 else discovery_ms,
    )


def check_names(properties: Mapping[str, str]) -> None:
    """Warn of properties that nothing reads: mistyped, or about a client in Java."""
    for name in properties:
        if not name.startswith(_KNOWN):
            log.warning('the property "%s" of a Kinesis source has no effect', name)


def _decimal(properties: Mapping[str, str], name: str, default: float) -> float:
    text = properties.get(name, str(default))
    try:
        value = float(text)
    except ValueError:
        raise ConfigurationError(f'the property "{name}" is {text!r}, not a number') from None
    if not value >= 1:
        raise ConfigurationError(f'the property "{name}" is {value:g}', detail="It is at least 1.")
    return value
