"""Iceberg: tables as sources and sinks (millstream's own; not in PyFlink)."""

from millstream.connectors.iceberg.sink import IcebergSink, IcebergSinkBuilder
from millstream.connectors.iceberg.source import IcebergSource, IcebergSourceBuilder

__all__ = ["IcebergSink", "IcebergSinkBuilder", "IcebergSource", "IcebergSourceBuilder"]
