"""Iceberg: tables as sinks (millstream's own; not in PyFlink)."""

from millstream.connectors.iceberg.sink import IcebergSink, IcebergSinkBuilder

__all__ = ["IcebergSink", "IcebergSinkBuilder"]
