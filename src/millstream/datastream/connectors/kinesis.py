"""Streams of Amazon Kinesis, and Firehose (PyFlink's `pyflink.datastream.connectors.kinesis`).

`KinesisStreamsSource` is Java Flink's newer source; what else PyFlink does not name is millstream's own.
"""

from millstream.connectors.kinesis.consumer import FlinkKinesisConsumer, WatermarkTracker
from millstream.connectors.kinesis.firehose_sink import KinesisFirehoseSink, KinesisFirehoseSinkBuilder
from millstream.connectors.kinesis.partition_keys import PartitionKeyGenerator
from millstream.connectors.kinesis.records import KinesisDeserializationSchema
from millstream.connectors.kinesis.shards import KinesisShard, KinesisShardAssigner
from millstream.connectors.kinesis.source import KinesisStreamsSource, KinesisStreamsSourceBuilder
from millstream.connectors.kinesis.streams_sink import KinesisStreamsSink, KinesisStreamsSinkBuilder
from millstream.connectors.messages import DeadLetter, MalformedPolicy
from millstream.connectors.patience import Patience

__all__ = [
    "DeadLetter",
    "FlinkKinesisConsumer",
    "KinesisDeserializationSchema",
    "KinesisFirehoseSink",
    "KinesisFirehoseSinkBuilder",
    "KinesisShard",
    "KinesisShardAssigner",
    "KinesisStreamsSink",
    "KinesisStreamsSinkBuilder",
    "KinesisStreamsSource",
    "KinesisStreamsSourceBuilder",
    "MalformedPolicy",
    "PartitionKeyGenerator",
    "Patience",
    "WatermarkTracker",
]
