"""millstream: Apache Flink's streaming model in Python, executed by Apache Spark."""

from millstream.version import __version__

__all__ = ["__version__"]
