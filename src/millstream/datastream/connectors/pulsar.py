"""Pulsar: topics as sources and sinks (`pyflink.datastream.connectors.pulsar`)."""

from millstream.connectors.guarantee import DeliveryGuarantee
from millstream.connectors.messages import DeadLetter, MalformedPolicy
from millstream.connectors.patience import Patience
from millstream.connectors.pulsar.cursors import StartCursor, StopCursor
from millstream.connectors.pulsar.keys import RangeGenerator
from millstream.connectors.pulsar.records import PulsarMessage
from millstream.connectors.pulsar.routing import MessageDelayer, TopicRoutingMode
from millstream.connectors.pulsar.sink import PulsarSink, PulsarSinkBuilder
from millstream.connectors.pulsar.source import PulsarSource, PulsarSourceBuilder

__all__ = [
    "DeadLetter",
    "DeliveryGuarantee",
    "MalformedPolicy",
    "MessageDelayer",
    "Patience",
    "PulsarMessage",
    "PulsarSink",
    "PulsarSinkBuilder",
    "PulsarSource",
    "PulsarSourceBuilder",
    "RangeGenerator",
    "StartCursor",
    "StopCursor",
    "TopicRoutingMode",
]
