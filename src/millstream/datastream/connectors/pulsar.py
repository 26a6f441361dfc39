"""Pulsar under PyFlink's names: declared, not yet built (`pyflink.datastream.connectors.pulsar`)."""

from __future__ import annotations

from enum import Enum

from millstream.base.not_yet import NotYet
from millstream.datastream.connectors.base import DeliveryGuarantee

__all__ = [
    "DeliveryGuarantee",
    "MessageDelayer",
    "PulsarSink",
    "PulsarSinkBuilder",
    "PulsarSource",
    "PulsarSourceBuilder",
    "RangeGenerator",
    "StartCursor",
    "StopCursor",
    "TopicRoutingMode",
]


class _Pulsar(NotYet):
    _reason = "The Pulsar connector comes with a later release."
    _hint = "Until then use FileSource, FileSink or a Source of your own (millstream.spi.source)."


class TopicRoutingMode(Enum):
    """Which partition a record goes to."""

    ROUND_ROBIN = 0
    MESSAGE_KEY_HASH = 1
    CUSTOM = 2


class PulsarSource(_Pulsar):
    """Reads topics."""


class PulsarSourceBuilder(_Pulsar):
    """Makes a PulsarSource."""


class StartCursor(_Pulsar):
    """Where reading starts."""


class StopCursor(_Pulsar):
    """Where reading stops."""


class RangeGenerator(_Pulsar):
    """Shares keys out."""


class PulsarSink(_Pulsar):
    """Writes to topics."""


class PulsarSinkBuilder(_Pulsar):
    """Makes a PulsarSink."""


class MessageDelayer(_Pulsar):
    """Delays messages."""
