"""Spark as a sink (millstream's own; not in PyFlink)."""

from millstream.connectors.spark.committer import SparkCommit
from millstream.connectors.spark.sink import SparkSink, SparkSinkBuilder

__all__ = ["SparkCommit", "SparkSink", "SparkSinkBuilder"]
