"""NATS JetStream: streams as sources, subjects as sinks (millstream's own; not in PyFlink)."""

from millstream.connectors.guarantee import DeliveryGuarantee
from millstream.connectors.messages import DeadLetter, MalformedPolicy
from millstream.connectors.nats.offsets import NatsOffsetsInitializer
from millstream.connectors.nats.records import NatsMessage
from millstream.connectors.nats.sink import NatsSink, NatsSinkBuilder
from millstream.connectors.nats.source import NatsStreamSource, NatsStreamSourceBuilder
from millstream.connectors.patience import Patience

__all__ = [
    "DeadLetter",
    "DeliveryGuarantee",
    "MalformedPolicy",
    "NatsMessage",
    "NatsOffsetsInitializer",
    "NatsSink",
    "NatsSinkBuilder",
    "NatsStreamSource",
    "NatsStreamSourceBuilder",
    "Patience",
]
