"""All kinds of streams (PyFlink's `pyflink.datastream.data_stream`)."""

from millstream.datastream.streams.data_stream import CloseableIterator, DataStream, DataStreamSink
from millstream.datastream.streams.keyed_stream import KeyedStream
from millstream.datastream.streams.windowed_stream import WindowedStream

__all__ = ["CloseableIterator", "DataStream", "DataStreamSink", "KeyedStream", "WindowedStream"]
