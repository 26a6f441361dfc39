"""Apache Pulsar: topics as sources and sinks."""
