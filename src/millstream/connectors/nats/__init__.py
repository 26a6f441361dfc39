"""NATS JetStream: streams as sources, subjects as sinks."""
