"""The older name of the file sink (PyFlink's `StreamingFileSink`, given to `add_sink`)."""

from __future__ import annotations

from abc import abstractmethod
from typing import ClassVar

from millstream.connectors.files.rolling import RollingPolicy
from millstream.connectors.files.sink import (
    FileSink,
    SinkBuilder,
    check_bulk_policy,
    check_bulk_writers,
    check_encoder,
)
from millstream.spi.serialization import BulkWriterFactory, Encoder

__all__ = ["StreamingFileSink"]


class _StreamingBuilder(SinkBuilder):
    """What the builders of both kinds of format share."""

    @abstractmethod
    def with_rolling_policy(self, policy: RollingPolicy) -> _StreamingBuilder:
        """Set when files are finished."""

    def build(self) -> StreamingFileSink:
        """Return the sink."""
        return StreamingFileSink(self.settings())


class _StreamingRowBuilder(_StreamingBuilder):
    """Builds a sink that writes record by record; each method returns the builder."""

    def with_rolling_policy(self, policy: RollingPolicy) -> _StreamingRowBuilder:
        """Set when files are finished."""
        self._rolling_policy = policy
        return self


class _StreamingBulkBuilder(_StreamingBuilder):
    """Builds a sink that writes files as a whole; each method returns the builder."""

    def with_rolling_policy(self, policy: RollingPolicy) -> _StreamingBulkBuilder:
        """Set when files are finished: at checkpoints, nothing else is possible.

        Raises:
            ConfigurationError: If the policy goes by size or age.
        """
        self._rolling_policy = check_bulk_policy(policy)
        return self


class StreamingFileSink(FileSink):
    """A FileSink under its older name; either goes on with what the other one left in a savepoint.

    Unlike Flink's it publishes all files when its input ends, as FileSink does.

    Example:
        >>> from millstream.common import Encoder
        >>> from millstream.datastream.connectors.file_system import StreamingFileSink
        >>> sink = StreamingFileSink.for_row_format("/data/out", Encoder.simple_string_encoder()).build()
        >>> sink.base_path
        '/data/out'
    """

    former_name: ClassVar[str] = "FileSink"
    BaseBuilder = _StreamingBuilder
    DefaultRowFormatBuilder = _StreamingRowBuilder
    DefaultBulkFormatBuilder = _StreamingBulkBuilder

    @staticmethod
    def for_row_format(  # type: ignore[override]
        base_path: str, encoder: Encoder
    ) -> _StreamingRowBuilder:
        """Write record by record.

        Raises:
            ConfigurationError: If it is no encoder.
        """
        return _StreamingRowBuilder(base_path, check_encoder(encoder), RollingPolicy.default_rolling_policy())

    @staticmethod
    def for_bulk_format(  # type: ignore[override]
        base_path: str, writer_factory: BulkWriterFactory
    ) -> _StreamingBulkBuilder:
        """Write files as a whole (Parquet, CSV, JSON lines); they are finished at checkpoints only.

        Raises:
            ConfigurationError: If it is no factory of bulk writers.
        """
        factory = check_bulk_writers(writer_factory)
        return _StreamingBulkBuilder(base_path, factory, RollingPolicy.on_checkpoint_rolling_policy())
