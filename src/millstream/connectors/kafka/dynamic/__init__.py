"""Streams that are spread over topics of several Kafka clusters, which come and go (Flink's FLIP-246)."""
