"""Topics of MQTT as sources and sinks (millstream's own; not in PyFlink)."""

from millstream.connectors.guarantee import DeliveryGuarantee
from millstream.connectors.messages import MalformedPolicy
from millstream.connectors.mqtt.records import MqttMessage
from millstream.connectors.mqtt.sink import MqttSink, MqttSinkBuilder
from millstream.connectors.mqtt.source import MqttAcknowledgement, MqttSource, MqttSourceBuilder
from millstream.connectors.patience import Patience

__all__ = [
    "DeliveryGuarantee",
    "MalformedPolicy",
    "MqttAcknowledgement",
    "MqttMessage",
    "MqttSink",
    "MqttSinkBuilder",
    "MqttSource",
    "MqttSourceBuilder",
    "Patience",
]
