"""Delta Lake: tables as sources and sinks (millstream's own; not in PyFlink)."""

from millstream.connectors.delta.sink import DeltaSink, DeltaSinkBuilder
from millstream.connectors.delta.source import DeltaSource, DeltaSourceBuilder

__all__ = ["DeltaSink", "DeltaSinkBuilder", "DeltaSource", "DeltaSourceBuilder"]
