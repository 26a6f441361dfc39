"""Delta Lake: tables as sinks (millstream's own; not in PyFlink)."""

from millstream.connectors.delta.sink import DeltaSink, DeltaSinkBuilder

__all__ = ["DeltaSink", "DeltaSinkBuilder"]
