"""WebSocket: messages as sources and sinks (millstream's own; not in PyFlink)."""

from millstream.connectors.guarantee import DeliveryGuarantee
from millstream.connectors.messages import MalformedPolicy
from millstream.connectors.patience import Patience
from millstream.connectors.websocket.sink import WebSocketSink, WebSocketSinkBuilder
from millstream.connectors.websocket.source import WebSocketSource, WebSocketSourceBuilder

__all__ = [
    "DeliveryGuarantee",
    "MalformedPolicy",
    "Patience",
    "WebSocketSink",
    "WebSocketSinkBuilder",
    "WebSocketSource",
    "WebSocketSourceBuilder",
]
