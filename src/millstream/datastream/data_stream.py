"""All kinds of streams (PyFlink's `pyflink.datastream.data_stream`)."""

from millstream.datastream.streams.all_windowed_stream import AllWindowedStream
from millstream.datastream.streams.broadcast_stream import BroadcastConnectedStream, BroadcastStream
from millstream.datastream.streams.cached_data_stream import CachedDataStream
from millstream.datastream.streams.connected_streams import ConnectedStreams
from millstream.datastream.streams.data_stream import CloseableIterator, DataStream, DataStreamSink
from millstream.datastream.streams.interval_join import IntervalJoin, IntervalJoined
from millstream.datastream.streams.joined_streams import CoGroupedStreams, JoinedStreams
from millstream.datastream.streams.keyed_stream import KeyedStream
from millstream.datastream.streams.windowed_stream import WindowedStream

__all__ = [
    "AllWindowedStream",
    "BroadcastConnectedStream",
    "BroadcastStream",
    "CachedDataStream",
    "CloseableIterator",
    "CoGroupedStreams",
    "ConnectedStreams",
    "DataStream",
    "DataStreamSink",
    "IntervalJoin",
    "IntervalJoined",
    "JoinedStreams",
    "KeyedStream",
    "WindowedStream",
]
