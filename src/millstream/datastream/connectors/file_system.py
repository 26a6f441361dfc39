"""Files (PyFlink's `pyflink.datastream.connectors.file_system`)."""

from millstream.connectors.files.buckets import BucketAssigner
from millstream.connectors.files.rolling import (
    DefaultRollingPolicy,
    OnCheckpointRollingPolicy,
    OutputFileConfig,
    RollingPolicy,
)
from millstream.connectors.files.sink import FileSink
from millstream.connectors.files.source import FileSource, FileSourceBuilder
from millstream.formats.text import StreamFormat
from millstream.spi.formats import BulkFormat

__all__ = [
    "BucketAssigner",
    "BulkFormat",
    "DefaultRollingPolicy",
    "FileSink",
    "FileSource",
    "FileSourceBuilder",
    "OnCheckpointRollingPolicy",
    "OutputFileConfig",
    "RollingPolicy",
    "StreamFormat",
]
