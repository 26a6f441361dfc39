"""When files of tables are finished, and how partitions that got rows are marked (connector `filesystem`).

======================================  ==============================================================
option                                  meaning
======================================  ==============================================================
``sink.rolling-policy.file-size``       a file is finished when it is as large (128 mb)
``….rollover-interval``                 or as old (30 min)
``….inactivity-interval``               or was not written to for so long (30 min)
``….check-interval``                    how often ages are looked at (1 min)
``sink.partition-commit.policy.kind``   `success-file`: a file is written into partitions that got rows
``….success-file.name``                 its name (`_SUCCESS`)
======================================  ==============================================================

Without an option of the policy, and always in formats that are written as a whole (parquet, orc, avro), files are
finished at each checkpoint. With one, files of csv and json grow over checkpoints, and are seen when they are
finished. Partitions are marked when their rows can be seen: `sink.partition-commit.trigger` is process-time, and
`….delay` 0.
"""

from __future__ import annotations

import io
import posixpath
import re
from collections.abc import Sequence
from typing import Any

from millstream.base.errors import ConfigurationError, NotSupportedError, SinkError
from millstream.connectors.files.rolling import DefaultRollingPolicy, RollingPolicy
from millstream.connectors.files.sink import FileSink, SinkBuilder
from millstream.connectors.files.writer import FileSinkSettings
from millstream.files.output import OutputFiles, open_output
from millstream.spi.serialization import BulkWriterFactory, Encoder
from millstream.spi.sink import Committer
from millstream.table.connectors.options import ConnectorOptions

__all__ = [
    "CommittingFileSink",
    "LinesEncoder",
    "file_sink_builder",
    "path_pattern",
    "read_partition_commit",
    "read_rolling",
]

_POLICY = "sink.rolling-policy."
_COMMIT = "sink.partition-commit."
_HALF_HOUR_MS = 1_800_000
_ROW_FORMATS = ("csv", "json")


def read_rolling(options: ConnectorOptions, format_name: str) -> tuple[DefaultRollingPolicy, int] | None:
    """Return the policy that files are finished by, and how often ages are looked at (ms); None for at checkpoints.

    Raises:
        ConfigurationError: If a value does not fit.
        NotSupportedError: If files of the format are finished at checkpoints only.
    """
    given = sorted(options.with_prefix(_POLICY))
    size_bytes = options.memory(f"{_POLICY}file-size", 128 << 20) or 0
    rollover_ms = options.duration(f"{_POLICY}rollover-interval", _HALF_HOUR_MS) or 0
    inactivity_ms = options.duration(f"{_POLICY}inactivity-interval", _HALF_HOUR_MS) or 0
    check_ms = options.duration(f"{_POLICY}check-interval", 60_000) or 0
    if not given:
        return None
    if format_name not in _ROW_FORMATS:
        raise NotSupportedError(
            f"option '{_POLICY}{given[0]}' of files of the format {format_name} is not in millstream yet",
            detail="Files of this format are finished at each checkpoint.",
            hint="Leave the option out, and set execution.checkpointing.interval.",
        )
    if check_ms <= 0:
        raise ConfigurationError(f"option '{_POLICY}check-interval' is {check_ms} ms, must be positive")
    policy = RollingPolicy.default_rolling_policy(size_bytes, rollover_ms, inactivity_ms)
    return policy, check_ms


def read_partition_commit(options: ConnectorOptions, *, partitioned: bool) -> str | None:
    """Return the name of the file that marks a partition; None if none does.

    Raises:
        ConfigurationError: If the table has no partitions, or a value does not fit.
        NotSupportedError: If partitions are to be marked otherwise.
    """
    given = sorted(options.with_prefix(_COMMIT))
    kind = options.text(f"{_COMMIT}policy.kind")
    name = options.text(f"{_COMMIT}success-file.name", "_SUCCESS") or "_SUCCESS"
    if not given:
        return None
    options.only(f"{_COMMIT}trigger", "process-time")
    if options.duration(f"{_COMMIT}delay", 0):
        raise NotSupportedError(
            f"option '{_COMMIT}delay' is not in millstream yet: partitions are marked when their rows can be seen"
        )
    options.only(f"{_COMMIT}policy.kind", "success-file")
    for key in given:
        if key not in ("trigger", "delay", "policy.kind", "success-file.name"):
            options.only(f"{_COMMIT}{key}")
    if kind is None:
        raise ConfigurationError(
            f"option '{_COMMIT}{given[0]}' is given without '{_COMMIT}policy.kind'",
            hint=f"Add '{_COMMIT}policy.kind' = 'success-file'.",
        )
    if not partitioned:
        raise ConfigurationError(
            f"option '{_COMMIT}policy.kind' is given for a table without PARTITIONED BY",
            hint="Declare PARTITIONED BY (column), or leave the option out.",
        )
    if not name.startswith((".", "_")) or "/" in name:
        raise ConfigurationError(
            f"option '{_COMMIT}success-file.name' is '{name}'",
            detail="A name that does not begin with _ or . would be read as a file of the table.",
        )
    return name


def path_pattern(options: ConnectorOptions) -> str | None:
    """Return what paths of files have to fit.

    Raises:
        ConfigurationError: If it is no regular expression.
    """
    pattern = options.text("source.path.regex-pattern")
    if pattern is not None:
        try:
            re.compile(pattern)
        except re.error as error:
            raise options.error(
                "source.path.regex-pattern", pattern, f"It is no regular expression: {error}."
            ) from error
    return pattern


def file_sink_builder(options: ConnectorOptions, format_name: str, writer: BulkWriterFactory) -> SinkBuilder:
    """Return a builder of the sink of a table, with its rolling policy.

    Raises:
        ConfigurationError: If an option does not fit.
        NotSupportedError: If the format does not take it.
    """
    rolling = read_rolling(options, format_name)
    path = options.required("path")
    if rolling is None:
        return FileSink.for_bulk_format(path, writer)
    policy, check_ms = rolling
    builder = FileSink.for_row_format(path, LinesEncoder(writer)).with_rolling_policy(policy)
    builder.with_bucket_check_interval(check_ms)
    return builder


class LinesEncoder(Encoder):
    """Writes records as a writer of whole files does whose files have neither head nor end.

    Args:
        writer: Makes such writers.
    """

    def __init__(self, writer: BulkWriterFactory) -> None:
        self._writer = writer

    def encode(self, element: Any) -> bytes:
        """Return the line of a record."""
        return self.encode_all([element])

    def encode_all(self, elements: Sequence[Any]) -> bytes:
        """Return the lines of records."""
        buffer = io.BytesIO()
        writer = self._writer.create(buffer)
        writer.add_elements(elements)
        writer.finish()
        return buffer.getvalue()


class CommittingFileSink(FileSink):
    """A file sink that marks directories whose files can be seen.

    Args:
        settings: Of the sink.
        success_file: Name of the empty file that is the mark.
    """

    def __init__(self, settings: FileSinkSettings, success_file: str = "_SUCCESS") -> None:
        super().__init__(settings)
        self._success_file = success_file

    def at(self, base_path: str) -> FileSink:
        """Return the same sink with another directory."""
        moved = super().at(base_path)
        return CommittingFileSink(moved._settings, self._success_file)

    def build_committer(self) -> Committer | None:
        """Make the committer."""
        inner = super().build_committer()
        assert inner is not None
        return _MarkingCommitter(inner, open_output(self._settings.base_path), self._success_file)


class _MarkingCommitter(Committer):
    def __init__(self, inner: Committer, files: OutputFiles, name: str) -> None:
        self._inner = inner
        self._files = files
        self._name = name

    def commit(self, committables: Sequence[Any]) -> None:
        """Give files their names, then mark their directories; a mark that is there already stays."""
        self._inner.commit(committables)
        for directory in sorted({posixpath.dirname(each.final_path) for each in committables}):
            self._mark(directory)

    def abort(self, committables: Sequence[Any]) -> None:
        """Remove staged files."""
        self._inner.abort(committables)

    def close(self) -> None:
        """Release what the committer holds."""
        self._inner.close()

    def _mark(self, directory: str) -> None:
        path = posixpath.join(directory, self._name)
        try:
            if self._files.size(path) is None:
                file = self._files.create(path)
                self._files.sync(file)
                file.close()
                self._files.sync_directory(directory)
        except OSError as error:
            raise SinkError(
                f"partition {directory!r} could not be marked with {self._name!r}: {error}",
                hint="Check the directory's permissions; the rows themselves are written.",
            ) from error
