"""Kinesis under PyFlink's names: declared, not yet built (`pyflink.datastream.connectors.kinesis`)."""

from __future__ import annotations

from millstream.base.not_yet import NotYet

__all__ = [
    "FlinkKinesisConsumer",
    "KinesisDeserializationSchema",
    "KinesisFirehoseSink",
    "KinesisFirehoseSinkBuilder",
    "KinesisShardAssigner",
    "KinesisStreamsSink",
    "KinesisStreamsSinkBuilder",
    "PartitionKeyGenerator",
    "WatermarkTracker",
]


class _Kinesis(NotYet):
    _reason = "The Kinesis connectors come with a later release."
    _hint = "Until then use FileSource, FileSink or a Source of your own (millstream.spi.source)."


class FlinkKinesisConsumer(_Kinesis):
    """Reads streams."""


class KinesisDeserializationSchema(_Kinesis):
    """Messages into records."""


class KinesisShardAssigner(_Kinesis):
    """Shares shards out."""


class WatermarkTracker(_Kinesis):
    """Aligns watermarks."""


class PartitionKeyGenerator(_Kinesis):
    """Chooses the partition key of a record."""


class KinesisStreamsSink(_Kinesis):
    """Writes to a stream."""


class KinesisStreamsSinkBuilder(_Kinesis):
    """Makes a KinesisStreamsSink."""


class KinesisFirehoseSink(_Kinesis):
    """Writes to a delivery stream."""


class KinesisFirehoseSinkBuilder(_Kinesis):
    """Makes a KinesisFirehoseSink."""
