"""The file sink (PyFlink's `FileSink`).

::

    write            .part-0-3f…-0.csv.inprogress.…       hidden, grows, over checkpoints too if its format allows it
    prepare_commit   the same, finished by the rolling policy: synced, closed  ──►  FileCommittable(staged, final)
    commit           part-0-3f…-0.csv                     renamed: all of it, or nothing

The writer is in `writer.py`, names and single files in `parts.py`, merging of small files in `compaction.py`, local
and remote file systems in `output.py`.
"""

from __future__ import annotations

import os
import posixpath
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from functools import partial
from typing import Any

from millstream.base.crash_points import reach
from millstream.base.errors import ConfigurationError, LostOutputError, SinkError
from millstream.base.time import Duration, to_milliseconds
from millstream.connectors.files.buckets import BucketAssigner
from millstream.connectors.files.compaction import FileCompactor, FileCompactStrategy
from millstream.connectors.files.parts import FileCommittable
from millstream.connectors.files.rolling import (
    DefaultRollingPolicy,
    OutputFileConfig,
    RollingPolicy,
)
from millstream.connectors.files.side_by_side import side_by_side
from millstream.connectors.files.writer import FileSinkSettings, FileWriter
from millstream.files.output import OutputFiles, open_output
from millstream.files.paths import local_path
from millstream.files.refusals import refusal_at
from millstream.spi.serialization import BulkWriterFactory, Encoder
from millstream.spi.sink import Committer, Sink, SinkWriter, WriterContext

__all__ = [
    "BulkSinkBuilder",
    "FileCommittable",
    "FileSink",
    "RowSinkBuilder",
    "SinkBuilder",
    "check_bulk_policy",
    "check_bulk_writers",
    "check_encoder",
]


def check_encoder(encoder: Encoder) -> Encoder:
    """Return an encoder.

    Raises:
        ConfigurationError: If it is none.
    """
    if not isinstance(encoder, Encoder):
        raise ConfigurationError(
            f"{type(encoder).__name__} is no Encoder",
            hint="Use Encoder.simple_string_encoder() or a subclass of Encoder.",
        )
    return encoder


def check_bulk_writers(factory: BulkWriterFactory) -> BulkWriterFactory:
    """Return a factory of bulk writers.

    Raises:
        ConfigurationError: If it is none.
    """
    if not isinstance(factory, BulkWriterFactory):
        raise ConfigurationError(
            f"{type(factory).__name__} is no BulkWriterFactory",
            hint="Use ParquetBulkWriters, CsvBulkWriters or JsonLinesBulkWriters.",
        )
    return factory


def check_bulk_policy(policy: RollingPolicy) -> RollingPolicy:
    """Return a policy that files of a bulk format can be finished by.

    Raises:
        ConfigurationError: If it goes by size or age.
    """
    if isinstance(policy, DefaultRollingPolicy):
        raise ConfigurationError(
            "bulk formats cannot roll by size or age",
            hint="Use RollingPolicy.on_checkpoint_rolling_policy().",
        )
    return policy


class SinkBuilder(ABC):
    """What the builders of both kinds of format share."""

    def __init__(
        self, base_path: str, output: Encoder | BulkWriterFactory, rolling_policy: RollingPolicy
    ) -> None:
        local = local_path(str(base_path))
        self._base_path = str(base_path) if local is None else os.path.abspath(local)
        self._output = output
        self._rolling_policy = rolling_policy
        self._bucket_assigner = BucketAssigner.date_time_bucket_assigner()
        self._file_config = OutputFileConfig()
        self._check_interval_ms = 60_000
        self._compact_strategy: FileCompactStrategy | None = None
        self._compactor: FileCompactor | None = None

    @abstractmethod
    def with_rolling_policy(self, rolling_policy: RollingPolicy) -> SinkBuilder:
        """Set when files are finished."""

    def with_bucket_check_interval(self, interval: int | Duration) -> Any:
        """Set how often the age of files is looked at (milliseconds or Duration).

        Raises:
            ConfigurationError: If it is not positive.
        """
        interval_ms = to_milliseconds(interval)
        if interval_ms <= 0:
            raise ConfigurationError(f"bucket check interval is {interval_ms} ms, must be positive")
        self._check_interval_ms = interval_ms
        return self

    def with_bucket_assigner(self, bucket_assigner: BucketAssigner) -> Any:
        """Set which directory a record belongs in; by default the hour of processing time."""
        if not isinstance(bucket_assigner, BucketAssigner):
            raise ConfigurationError(f"{type(bucket_assigner).__name__} is no BucketAssigner")
        self._bucket_assigner = bucket_assigner
        return self

    def with_output_file_config(self, output_file_config: OutputFileConfig) -> Any:
        """Set how files are named."""
        self._file_config = output_file_config
        return self

    def enable_compact(self, strategy: FileCompactStrategy, compactor: FileCompactor) -> Any:
        """Merge small files before they are published; each subtask merges its own, bucket by bucket.

        Raises:
            ConfigurationError: If the compactor would damage files of this format.
            NotSupportedError: If it cannot merge them.
        """
        if not isinstance(strategy, FileCompactStrategy):
            raise ConfigurationError(
                f"{type(strategy).__name__} is no FileCompactStrategy",
                hint="Use FileCompactStrategy.builder()....build().",
            )
        if not isinstance(compactor, FileCompactor):
            raise ConfigurationError(
                f"{type(compactor).__name__} is no FileCompactor",
                hint="Use FileCompactor.identical_file_compactor() or concat_file_compactor().",
            )
        self._compactor = compactor.for_output(self._output)
        self._compact_strategy = strategy
        return self

    def disable_compact(self) -> Any:
        """Publish files as they are finished; what waits from a run with compaction is published at once."""
        self._compact_strategy = self._compactor = None
        return self

    def build(self) -> FileSink:
        """Return the sink."""
        return FileSink(self.settings())

    def settings(self) -> FileSinkSettings:
        """Return what was set."""
        return FileSinkSettings(
            self._base_path,
            self._output,
            self._bucket_assigner,
            self._rolling_policy,
            self._file_config,
            self._check_interval_ms,
            self._compact_strategy,
            self._compactor,
        )


class RowSinkBuilder(SinkBuilder):
    """Builds a sink that writes record by record; each method returns the builder."""

    def with_rolling_policy(self, rolling_policy: RollingPolicy) -> RowSinkBuilder:
        """Set when files are finished."""
        self._rolling_policy = rolling_policy
        return self


class BulkSinkBuilder(SinkBuilder):
    """Builds a sink that writes files as a whole; each method returns the builder."""

    def with_rolling_policy(self, rolling_policy: RollingPolicy) -> BulkSinkBuilder:
        """Set when files are finished: at checkpoints, nothing else is possible.

        Raises:
            ConfigurationError: If the policy goes by size or age.
        """
        self._rolling_policy = check_bulk_policy(rolling_policy)
        return self


class FileSink(Sink):
    r"""Writes records to files below a directory; a file is seen when it is finished and its epoch is safe.

    The base path is a local path that every host sees, or a URI of a file system that pyarrow knows.

    Example:
        >>> import pathlib, tempfile
        >>> from millstream.common import Encoder
        >>> from millstream.datastream.connectors.file_system import FileSink
        >>> from millstream.testing import MiniCluster
        >>> with tempfile.TemporaryDirectory() as path, MiniCluster() as cluster:
        ...     sink = FileSink.for_row_format(path, Encoder.simple_string_encoder()).build()
        ...     env = cluster.environment()
        ...     end = env.from_collection(["tea", "cake"]).sink_to(sink)
        ...     result = env.execute("shop")
        ...     [part.read_text() for part in pathlib.Path(path).rglob("part-*")]
        ['tea\ncake\n']
    """

    BaseBuilder = SinkBuilder
    RowFormatBuilder = RowSinkBuilder
    BulkFormatBuilder = BulkSinkBuilder

    def __init__(self, settings: FileSinkSettings) -> None:
        self._settings = settings

    @staticmethod
    def for_row_format(base_path: str, encoder: Encoder) -> RowSinkBuilder:
        """Write record by record.

        Raises:
            ConfigurationError: If it is no encoder.
        """
        return RowSinkBuilder(base_path, check_encoder(encoder), RollingPolicy.default_rolling_policy())

    @staticmethod
    def for_bulk_format(base_path: str, writer_factory: BulkWriterFactory) -> BulkSinkBuilder:
        """Write files as a whole (Parquet, CSV, JSON lines); they are finished at checkpoints only.

        Raises:
            ConfigurationError: If it is no factory of bulk writers.
        """
        factory = check_bulk_writers(writer_factory)
        return BulkSinkBuilder(base_path, factory, RollingPolicy.on_checkpoint_rolling_policy())

    @property
    def base_path(self) -> str:
        """The directory below which files are written."""
        return self._settings.base_path

    def at(self, base_path: str) -> FileSink:
        """Return the same sink with another directory."""
        return type(self)(replace(self._settings, base_path=base_path))

    def get_transformer(self) -> None:
        """Return None: records are written as they come, and each subtask merges its own files."""

    def build_writer(self, context: WriterContext) -> SinkWriter:
        """Make the writer of one subtask."""
        settings = self._settings
        if isinstance(settings.output, Encoder):
            settings = replace(settings, output=settings.output.for_type(context.value_type))
        return FileWriter(settings, context)

    def build_committer(self) -> Committer | None:
        """Make the committer."""
        return _FileCommitter(open_output(self._settings.base_path))

    def check(self) -> None:
        """Write and remove a hidden file below the base path; the directory is made if it is not there.

        Raises:
            SinkError: If that fails.
        """
        open_output(self._settings.base_path).check_writable()


class _FileCommitter(Committer):
    """Gives finished files their names."""

    def __init__(self, files: OutputFiles) -> None:
        self._files = files

    def commit(self, committables: Sequence[Any]) -> None:
        """Rename each file, unless that was done before; sync each directory once; then remove what was merged."""
        directories = {posixpath.dirname(committable.final_path): None for committable in committables}
        try:
            publications = self._publications(committables)
            if self._files.appends:  # a rename in a local directory waits for nothing
                for publish in publications:
                    publish()
            else:
                side_by_side(publications)
            side_by_side(partial(self._files.sync_directory, directory) for directory in directories)
            for committable in committables:
                for path in committable.merged:
                    self._files.remove(path)
        except OSError as error:
            refusal = refusal_at(
                self._files.base,
                error,
                "Check the disk's free space and the directory's permissions; the files are kept for the next attempt.",
            )
            message = refusal.after(f"finished files below {self._files.base!r} could not be published")
            raise SinkError(message, detail=refusal.detail, hint=refusal.hint) from error

    def abort(self, committables: Sequence[Any]) -> None:
        """Remove finished files that will never be published; those that a checkpoint refers to stay."""
        for committable in committables:
            if not committable.kept:
                self._files.remove(committable.staged_path)
            if committable.in_bucket:
                self._files.remove_directory(posixpath.dirname(committable.staged_path))

    def _publications(self, committables: Sequence[FileCommittable]) -> Iterator[Callable[[], None]]:
        for committable in committables:
            reach("sink.publish", committable.final_path)
            yield partial(self._publish, committable)

    def _publish(self, committable: FileCommittable) -> None:
        final_size = self._files.size(committable.final_path)
        staged_size = self._files.size(committable.staged_path)
        if final_size is None:
            if staged_size is None:
                raise LostOutputError(
                    f"staged file {committable.staged_path!r} is gone before it was published",
                    detail=f"It should have become {committable.final_path!r}.",
                    hint="Write to a directory that all hosts share, and leave files alone that begin with a dot "
                    "while a job may be resumed.",
                )
            self._files.publish(committable.staged_path, committable.final_path)
        elif staged_size is not None:
            self._finish_copy(committable, final_size)

    def _finish_copy(self, committable: FileCommittable, final_size: int) -> None:
        """Remove a staged file that was published by a copy, where the commit before this one ended half-way."""
        size = committable.size_bytes
        # Where files are staged under their final names there is nothing to compare: names tell whose they are.
        if (
            self._files.appends
            or final_size != size
            or (
                self._files.renames
                and self._files.checksum(committable.final_path, size)
                != self._files.checksum(committable.staged_path, size)
            )
        ):
            raise SinkError(
                f"file {committable.final_path!r} is there already and is not replaced",
                detail=f"It was to become what is in {committable.staged_path!r}.",
            )
        self._files.remove(committable.staged_path)
