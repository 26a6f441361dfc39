"""Avro; declared, not yet built."""
