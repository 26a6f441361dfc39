"""WebSocket: streams of messages as sources and sinks."""
