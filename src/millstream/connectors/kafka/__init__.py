"""Kafka: sources and sinks."""
