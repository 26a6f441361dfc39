"""Files (PyFlink's `pyflink.datastream.connectors.file_system`)."""

from millstream.connectors.files.buckets import BucketAssigner, BucketAssignerContext
from millstream.connectors.files.compaction import FileCompactor, FileCompactStrategy
from millstream.connectors.files.providers import FileEnumeratorProvider, FileSplitAssignerProvider
from millstream.connectors.files.rolling import (
    DefaultRollingPolicy,
    OnCheckpointRollingPolicy,
    OutputFileConfig,
    RollingPolicy,
)
from millstream.connectors.files.sink import FileSink
from millstream.connectors.files.source import FileSource, FileSourceBuilder
from millstream.connectors.files.streaming_sink import StreamingFileSink
from millstream.formats.text.lines import StreamFormat
from millstream.spi.formats import BulkFormat

__all__ = [
    "BucketAssigner",
    "BucketAssignerContext",
    "BulkFormat",
    "DefaultRollingPolicy",
    "FileCompactStrategy",
    "FileCompactor",
    "FileEnumeratorProvider",
    "FileSink",
    "FileSource",
    "FileSourceBuilder",
    "FileSplitAssignerProvider",
    "OnCheckpointRollingPolicy",
    "OutputFileConfig",
    "RollingPolicy",
    "StreamFormat",
    "StreamingFileSink",
]
