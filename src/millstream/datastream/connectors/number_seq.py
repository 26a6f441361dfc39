"""A sequence of numbers (PyFlink's `pyflink.datastream.connectors.number_seq`)."""

from millstream.connectors.number_sequence import NumberSequenceSource

__all__ = ["NumberSequenceSource"]
