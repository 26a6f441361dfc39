"""Sources and sinks (PyFlink's `pyflink.datastream.connectors`)."""

from millstream.spi.sink import Sink
from millstream.spi.source import Source

__all__ = ["Sink", "Source"]
