"""The file sink (PyFlink's `FileSink`).

::

    write            .part-0-3f…-0.csv.inprogress.9c…     hidden, grows
    prepare_commit   the same, flushed, synced, closed  ──►  FileCommittable(staged, final)
    commit           part-0-3f…-0.csv                     renamed: all of it, or nothing

A writer cannot go on with a file that a failed attempt left behind, so each checkpoint finishes all files,
whatever the rolling policy: what a checkpoint covers is in its committables.
"""

from __future__ import annotations

import contextlib
import os
import uuid
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any, BinaryIO

from millstream.common.errors import ConfigurationError, NotSupportedError, SinkError
from millstream.common.serialization import BulkWriter, BulkWriterFactory, Encoder
from millstream.common.time import Duration, to_milliseconds
from millstream.connectors.files.buckets import BucketAssigner, BucketAssignerContext, check_bucket_id
from millstream.connectors.files.paths import local_path
from millstream.connectors.files.rolling import (
    DefaultRollingPolicy,
    OutputFileConfig,
    RollingPolicy,
)
from millstream.spi.sink import Committer, Sink, SinkWriter, WriterContext

__all__ = ["BulkFormatBuilder", "FileCommittable", "FileSink", "RowFormatBuilder"]


@dataclass(frozen=True, slots=True)
class FileCommittable:
    """A finished file that readers do not see yet.

    Attributes:
        staged_path: Where it is.
        final_path: Where it will be.
        in_bucket: Whether its directory is a bucket below the base path.
    """

    staged_path: str
    final_path: str
    in_bucket: bool = False


@dataclass(frozen=True)
class _Settings:
    base_path: str
    output: Encoder | BulkWriterFactory
    bucket_assigner: BucketAssigner
    rolling_policy: RollingPolicy
    file_config: OutputFileConfig
    check_interval_ms: int


class FileSink(Sink):
    """Writes records to files below a directory; a file is seen when it is finished and its epoch is safe."""

    def __init__(self, settings: _Settings) -> None:
        self._settings = settings

    @staticmethod
    def for_row_format(base_path: str, encoder: Encoder) -> RowFormatBuilder:
        """Write record by record.

        Raises:
            ConfigurationError: If it is no encoder.
            NotSupportedError: If the path is not local.
        """
        if not isinstance(encoder, Encoder):
            raise ConfigurationError(
                f"{type(encoder).__name__} is no Encoder",
                hint="Use Encoder.simple_string_encoder() or a subclass of Encoder.",
            )
        return RowFormatBuilder(base_path, encoder, RollingPolicy.default_rolling_policy())

    @staticmethod
    def for_bulk_format(base_path: str, writer_factory: BulkWriterFactory) -> BulkFormatBuilder:
        """Write files as a whole (Parquet, CSV); they are finished at checkpoints only.

        Raises:
            ConfigurationError: If it is no factory of bulk writers.
            NotSupportedError: If the path is not local.
        """
        if not isinstance(writer_factory, BulkWriterFactory):
            raise ConfigurationError(
                f"{type(writer_factory).__name__} is no BulkWriterFactory",
                hint="Use ParquetBulkWriters.for_row_type(...) or CsvBulkWriters.for_schema(...).",
            )
        return BulkFormatBuilder(base_path, writer_factory, RollingPolicy.on_checkpoint_rolling_policy())

    def build_writer(self, context: WriterContext) -> SinkWriter:
        """Make the writer of one subtask."""
        settings = self._settings
        if isinstance(settings.output, Encoder):
            settings = replace(settings, output=settings.output.for_type(context.value_type))
        return _FileWriter(settings, context.subtask_index)

    def build_committer(self) -> Committer | None:
        """Make the committer."""
        return _FileCommitter()

    def check(self) -> None:
        """Write and remove a hidden file below the base path; the directory is made if it is not there.

        Raises:
            SinkError: If that fails.
        """
        base = self._settings.base_path
        probe = os.path.join(base, f".probe-{uuid.uuid4().hex}")
        try:
            os.makedirs(base, exist_ok=True)
            with open(probe, "xb"):
                pass
            os.unlink(probe)
        except OSError as error:
            raise SinkError(
                f"directory {base!r} cannot be written",
                detail=str(error),
                hint="Give a directory that this user may write to, or make it.",
            ) from error


class _Builder:
    """What the builders of both kinds of format share."""

    def __init__(
        self, base_path: str, output: Encoder | BulkWriterFactory, rolling_policy: RollingPolicy
    ) -> None:
        local = local_path(str(base_path))
        if local is None:
            raise NotSupportedError(
                f"file sink cannot write to {base_path!r}",
                detail="Files are published by renaming local files.",
            )
        self._base_path = os.path.abspath(local)
        self._output = output
        self._rolling_policy = rolling_policy
        self._bucket_assigner = BucketAssigner.date_time_bucket_assigner()
        self._file_config = OutputFileConfig()
        self._check_interval_ms = 60_000

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

    def enable_compact(self, strategy: object, compactor: object) -> Any:
        """Merge small files; not built.

        Raises:
            NotSupportedError: Always.
        """
        raise NotSupportedError("compaction of files in FileSink is not supported")

    def disable_compact(self) -> Any:
        """Leave files as they are; the only way there is."""
        return self

    def build(self) -> FileSink:
        """Return the sink."""
        return FileSink(
            _Settings(
                self._base_path,
                self._output,
                self._bucket_assigner,
                self._rolling_policy,
                self._file_config,
                self._check_interval_ms,
            )
        )


class RowFormatBuilder(_Builder):
    """Builds a sink that writes record by record; each method returns the builder."""

    def with_rolling_policy(self, rolling_policy: RollingPolicy) -> RowFormatBuilder:
        """Set when files are finished."""
        self._rolling_policy = rolling_policy
        return self


class BulkFormatBuilder(_Builder):
    """Builds a sink that writes files as a whole; each method returns the builder."""

    def with_rolling_policy(self, rolling_policy: RollingPolicy) -> BulkFormatBuilder:
        """Set when files are finished: at checkpoints, nothing else is possible.

        Raises:
            ConfigurationError: If the policy goes by size or age.
        """
        if isinstance(rolling_policy, DefaultRollingPolicy):
            raise ConfigurationError(
                "bulk formats cannot roll by size or age",
                hint="Use RollingPolicy.on_checkpoint_rolling_policy().",
            )
        self._rolling_policy = rolling_policy
        return self


class _PartFile:
    """A file being written."""

    def __init__(
        self, committable: FileCommittable, output: Encoder | BulkWriterFactory, now_ms: int
    ) -> None:
        self.committable = committable
        self.begun_ms = now_ms
        self.written_ms = now_ms
        self._file: BinaryIO = open(committable.staged_path, "xb", buffering=1 << 18)  # noqa: SIM115
        self._encoder = output if isinstance(output, Encoder) else None
        self._bulk: BulkWriter | None = (
            output.create(self._file) if isinstance(output, BulkWriterFactory) else None
        )
        self.size_bytes = 0

    def write(self, values: list[Any], now_ms: int) -> None:
        """Add records."""
        self.written_ms = now_ms
        if self._bulk is not None:
            self._bulk.add_elements(values)
        elif self._encoder is not None:
            data = self._encoder.encode_all(values)
            self._file.write(data)
            self.size_bytes += len(data)

    def finish(self) -> FileCommittable:
        """Write it out to the disk and close it."""
        if self._bulk is not None:
            self._bulk.finish()
        self._file.flush()
        os.fsync(self._file.fileno())
        self._file.close()
        return self.committable

    def discard(self) -> None:
        """Close and remove it."""
        with contextlib.suppress(OSError):
            self._file.close()
        _remove(self.committable.staged_path)


class _FileWriter(SinkWriter):
    """Writes the files of one subtask, one open file for each bucket."""

    def __init__(self, settings: _Settings, subtask_index: int) -> None:
        self._settings = settings
        # Unique for each attempt: files of two runs, or of two sinks in one directory, never collide.
        self._uid = f"{subtask_index}-{uuid.uuid4().hex[:16]}"
        self._counter = 0
        self._open: dict[str, _PartFile] = {}
        self._finished: list[FileCommittable] = []
        self._made: list[str] = []
        self._checked_ms: int | None = None

    def write(
        self, values: list[Any], timestamps: list[int] | None, *, watermark_ms: int, now_ms: int
    ) -> None:
        """Stage a batch."""
        if not values:
            return
        try:
            for bucket_id, members in self._buckets(values, timestamps, watermark_ms, now_ms):
                part = self._open.get(bucket_id) or self._begin(bucket_id, now_ms)
                part.write(members, now_ms)
                if self._settings.rolling_policy.is_full(part.size_bytes):
                    self._roll(bucket_id)
        except OSError as error:
            raise self._failed(error) from error

    def prepare_commit(self, *, now_ms: int, checkpoint: bool, end_of_input: bool) -> list[Any]:
        """Finish the files whose time has come, and return them."""
        try:
            for bucket_id in self._due(now_ms, everything=checkpoint or end_of_input):
                self._roll(bucket_id)
        except OSError as error:
            raise self._failed(error) from error
        finished, self._finished = self._finished, []
        if finished:  # those directories hold output now
            used = {os.path.dirname(committable.final_path) for committable in finished}
            self._made = [made for made in self._made if not any(_is_within(path, made) for path in used)]
        return list(finished)

    def abort(self) -> None:
        """Remove the files not handed over, and the directories made for them if they are empty."""
        for part in self._open.values():
            part.discard()
        for committable in self._finished:
            _remove(committable.staged_path)
        self._open, self._finished = {}, []
        for directory in reversed(self._made):
            with contextlib.suppress(OSError):
                os.rmdir(directory)
        self._made = []

    def close(self) -> None:
        """Remove what was never handed over; after a good end there is nothing."""
        self.abort()

    def _buckets(
        self, values: list[Any], timestamps: list[int] | None, watermark_ms: int, now_ms: int
    ) -> Iterable[tuple[str, list[Any]]]:
        assigner = self._settings.bucket_assigner
        whole = assigner.batch_bucket_id(now_ms)
        if whole is not None:
            return [(whole, values)]
        context = BucketAssignerContext(now_ms, watermark_ms)
        groups: dict[str, list[Any]] = {}
        stamps: Iterable[int | None] = [None] * len(values) if timestamps is None else timestamps
        for value, timestamp in zip(values, stamps, strict=True):
            context.set_timestamp(timestamp)
            bucket_id = assigner.get_bucket_id(value, context)
            group = groups.get(bucket_id)
            if group is None:
                groups[check_bucket_id(bucket_id)] = [value]
            else:
                group.append(value)
        return groups.items()

    def _begin(self, bucket_id: str, now_ms: int) -> _PartFile:
        directory = (
            os.path.join(self._settings.base_path, bucket_id) if bucket_id else self._settings.base_path
        )
        self._made += _make_directory(directory)
        config = self._settings.file_config
        name = f"{config.part_prefix}-{self._uid}-{self._counter}{config.part_suffix}"
        self._counter += 1
        staged = os.path.join(directory, f".{name}.inprogress.{uuid.uuid4().hex[:8]}")
        part = _PartFile(
            FileCommittable(staged, os.path.join(directory, name), in_bucket=bucket_id != ""),
            self._settings.output,
            now_ms,
        )
        self._open[bucket_id] = part
        return part

    def _due(self, now_ms: int, *, everything: bool) -> list[str]:
        if everything:
            return list(self._open)
        if self._checked_ms is None:
            self._checked_ms = now_ms
        if now_ms - self._checked_ms < self._settings.check_interval_ms:
            return []
        self._checked_ms = now_ms
        is_old = self._settings.rolling_policy.is_old
        return [
            bucket_id
            for bucket_id, part in self._open.items()
            if is_old(age_ms=now_ms - part.begun_ms, idle_ms=now_ms - part.written_ms)
        ]

    def _roll(self, bucket_id: str) -> None:
        self._finished.append(self._open[bucket_id].finish())
        del self._open[bucket_id]

    def _failed(self, error: OSError) -> SinkError:
        return SinkError(
            f"file below {self._settings.base_path!r} could not be written",
            detail=str(error),
            hint="Check the disk's free space and the directory's permissions.",
        )


class _FileCommitter(Committer):
    """Renames finished files."""

    def commit(self, committables: Sequence[Any]) -> None:
        """Rename each file, unless that was done before; then sync the directories."""
        directories: dict[str, None] = {}
        try:
            for committable in committables:
                self._publish(committable)
                directories[os.path.dirname(committable.final_path)] = None
            for directory in directories:
                _sync_directory(directory)
        except OSError as error:
            raise SinkError("finished files could not be published", detail=str(error)) from error

    def abort(self, committables: Sequence[Any]) -> None:
        """Remove finished files that will never be published."""
        for committable in committables:
            _remove(committable.staged_path)
            if committable.in_bucket:
                with contextlib.suppress(OSError):  # it may hold other files
                    os.rmdir(os.path.dirname(committable.staged_path))

    def _publish(self, committable: FileCommittable) -> None:
        try:
            os.replace(committable.staged_path, committable.final_path)
        except FileNotFoundError as error:
            if not os.path.exists(committable.final_path):
                raise SinkError(
                    f"staged file {committable.staged_path!r} is gone before it was published",
                    detail=f"It should have become {committable.final_path!r}.",
                    hint="Do not clean up files that begin with a dot while a job may be resumed.",
                ) from error


def _make_directory(directory: str) -> list[str]:
    """Make a directory with its parents; return those that were not there, outermost first."""
    missing = list(_missing_directories(directory))
    os.makedirs(directory, exist_ok=True)
    return missing[::-1]


def _missing_directories(directory: str) -> Iterator[str]:
    while directory and not os.path.isdir(directory):
        yield directory
        directory = os.path.dirname(directory)


def _is_within(path: str, directory: str) -> bool:
    return path == directory or path.startswith(directory.rstrip("/") + "/")


def _remove(path: str) -> None:
    with contextlib.suppress(FileNotFoundError):
        os.unlink(path)


def _sync_directory(directory: str) -> None:
    descriptor = os.open(directory, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
