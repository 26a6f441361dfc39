"""What sources and sinks share (PyFlink's `pyflink.datastream.connectors.base`), and what own ones derive from."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import Any

from millstream.base.errors import MalformedRecordError, SinkError, SourceError
from millstream.connectors.guarantee import DeliveryGuarantee
from millstream.connectors.messages import DeadLetter, MalformedPolicy, MessageDecoder
from millstream.connectors.two_phase import SinkContext, TwoPhaseCommitSink
from millstream.connectors.write_ahead import CheckpointCommitter, WriteAheadSink
from millstream.spi.batch import Columns, Rows
from millstream.spi.connector import Connector
from millstream.spi.lookup import AsyncLookup, LookupCache
from millstream.spi.sink import Committer, Sink, SinkWriter, WriterContext
from millstream.spi.source import (
    Boundedness,
    EmitBatch,
    PlanRequest,
    RangeEnd,
    Source,
    SourcePlan,
    SourceReader,
    SourceReaderContext,
    SplitEnumerator,
    SplitRange,
)

__all__ = [
    "AsyncLookup",
    "Boundedness",
    "CheckpointCommitter",
    "Columns",
    "Committer",
    "Connector",
    "DeadLetter",
    "DeliveryGuarantee",
    "EmitBatch",
    "LookupCache",
    "MalformedPolicy",
    "MalformedRecordError",
    "MessageDecoder",
    "PlanRequest",
    "RangeEnd",
    "Rows",
    "Sink",
    "SinkContext",
    "SinkError",
    "SinkWriter",
    "Source",
    "SourceError",
    "SourcePlan",
    "SourceReader",
    "SourceReaderContext",
    "SplitEnumerator",
    "SplitRange",
    "StreamTransformer",
    "SupportsPreprocessing",
    "TwoPhaseCommitSink",
    "WriteAheadSink",
    "WriterContext",
]


class StreamTransformer(ABC):
    """Makes one stream of another.

    Example:
        >>> from millstream.datastream.connectors.base import StreamTransformer
        >>> class Upper(StreamTransformer):
        ...     def apply(self, ds):
        ...         return ds.map(str.upper)
    """

    @abstractmethod
    def apply(self, ds: Any) -> Any:
        """Return the stream that a sink gets for the stream `ds`."""


class SupportsPreprocessing(ABC):
    """A sink that changes the stream before it is written.

    Example:
        >>> from millstream.datastream.connectors.base import Sink, StreamTransformer, SupportsPreprocessing
        >>> class Upper(StreamTransformer):
        ...     def apply(self, ds):
        ...         return ds.map(str.upper)
        >>> class UpperCaseSink(Sink, SupportsPreprocessing):  # and build_writer
        ...     def get_transformer(self):
        ...         return Upper()
    """

    @abstractmethod
    def get_transformer(self) -> StreamTransformer | None:
        """Return what changes it; None to leave it as it is."""
