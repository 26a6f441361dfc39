"""The result of a stream, kept in files for later jobs (`DataStream.cache`).

Each subtask writes one file of pickled batches; they are published together when the job that fills the cache
ends well, so a cache is whole or not there.
"""

from __future__ import annotations

import os
import pickle
import uuid
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, BinaryIO

from millstream.base.errors import NotSerializableError, SinkError, SourceError
from millstream.base.pickling import dump_lasting
from millstream.files.file_systems import current
from millstream.files.private_files import create_own, open_own
from millstream.spi.batch import Rows
from millstream.spi.sink import Committer, Sink, SinkWriter, WriterContext
from millstream.spi.source import (
    Boundedness,
    EmitBatch,
    PlanRequest,
    RangeEnd,
    Source,
    SourcePlan,
    SourceReader,
    SplitEnumerator,
    SplitRange,
)

__all__ = ["CacheSink", "CacheSource"]

_STAGED = ".staged"


@dataclass(frozen=True)
class CacheSink(Sink):
    """Writes a stream into `directory`, which every slot and the driver must see."""

    directory: str

    def check(self) -> None:
        """Make the directory."""
        try:
            os.makedirs(self.directory, mode=0o700, exist_ok=True)
        except OSError as error:
            raise SinkError(
                f'the cache directory "{self.directory}" cannot be made: {error.strerror}',
                hint="Choose another with the option millstream.cache.dir.",
            ) from error

    def build_writer(self, context: WriterContext) -> SinkWriter:
        """Make the writer of one subtask."""
        name = f"{context.subtask_index:05d}-{uuid.uuid4().hex}{_STAGED}"
        return _CacheWriter(os.path.join(self.directory, name))

    def build_committer(self) -> Committer:
        """Make the committer."""
        return _CacheCommitter()


class _CacheWriter(SinkWriter):
    def __init__(self, path: str) -> None:
        self._path = path
        self._file: BinaryIO | None = None

    def write(self, batch: Rows, *, watermark_ms: int, now_ms: int) -> None:
        """Append a batch."""
        values, timestamps = batch.values, batch.timestamps
        if self._file is None:
            self._file = create_own(self._path)
        self._file.write(_pickle((values, timestamps)))

    def prepare_commit(self, *, now_ms: int, checkpoint: bool, end_of_input: bool) -> list[Any]:
        """Return the file, once it is whole."""
        if not end_of_input or self._file is None:
            return []
        self._file.close()
        self._file = None
        return [self._path]

    def abort(self) -> None:
        """Remove the file."""
        if self._file is not None:
            self._file.close()
            self._file = None
            os.unlink(self._path)

    def close(self) -> None:
        """Close the file."""
        if self._file is not None:
            self._file.close()


def _pickle(batch: tuple[list[Any], list[int] | None]) -> bytes:
    try:
        return dump_lasting(batch)
    except Exception as error:
        raise NotSerializableError(f"a record of a cached stream cannot be pickled: {error}") from error


class _CacheCommitter(Committer):
    def commit(self, committables: Sequence[Any]) -> None:
        """Publish the files."""
        for path in committables:
            if os.path.exists(path):  # a commit may be repeated
                os.rename(path, path.removesuffix(_STAGED))

    def abort(self, committables: Sequence[Any]) -> None:
        """Remove the files."""
        for path in committables:
            Path(path).unlink(missing_ok=True)


@dataclass(frozen=True)
class CacheSource(Source):
    """Reads what a `CacheSink` has published in `directory`."""

    directory: str

    def get_boundedness(self) -> Boundedness:
        """Return BOUNDED."""
        return Boundedness.BOUNDED

    def build_enumerator(self, parallelism: int, restored: Any | None) -> SplitEnumerator:
        """Plan whole files."""
        if not os.path.isdir(self.directory):
            raise SourceError(
                f'the cache directory "{self.directory}" is gone',
                hint="Call invalidate() on the cached stream, so that it is computed again.",
            )
        names = sorted(name for name in os.listdir(self.directory) if not name.endswith(_STAGED))
        return _CacheEnumerator([os.path.join(self.directory, name) for name in names], restored)

    def build_reader(self, subtask_index: int, parallelism: int) -> SourceReader:
        """Make the reader."""
        return _CacheReader()


class _CacheEnumerator(SplitEnumerator):
    """Deals files in turn; each subtask reads its files one after the other."""

    def __init__(self, paths: Sequence[str], restored: Any | None) -> None:
        self._positions: dict[str, int | None] = dict.fromkeys(paths, 0) if restored is None else restored

    def plan(self, request: PlanRequest) -> SourcePlan:
        """Give each subtask the first of its files that is not read."""
        ranges: dict[int, list[SplitRange]] = {}
        open_files = 0
        for index, (path, position) in enumerate(self._positions.items()):
            if position is None:
                continue
            open_files += 1
            subtask = index % request.parallelism
            if subtask not in ranges:
                ranges[subtask] = [
                    SplitRange(path, path, position, max_records=request.max_records, sequential=True)
                ]
        if not ranges:
            return SourcePlan(finished=frozenset(range(request.parallelism)))
        return SourcePlan(ranges, backlog=open_files > 0)

    def advance(self, ends: Sequence[RangeEnd]) -> None:
        """Take note of how far files were read."""
        for end in ends:
            self._positions[end.split_id] = None if end.finished else end.position

    def snapshot(self) -> Any:
        """Return the positions."""
        return dict(self._positions)


class _CacheReader(SourceReader):
    gives_away = True

    def read(self, split_range: SplitRange, emit: EmitBatch) -> RangeEnd:
        """Read batches from a position on."""
        records = 0
        with open_own(split_range.split, current().trust) as file:
            size = os.fstat(file.fileno()).st_size
            file.seek(split_range.start or 0)
            while file.tell() < size and records < split_range.max_records:
                values, timestamps = pickle.load(file)
                records += len(values)
                if not emit(Rows(values, timestamps)):
                    break
            position = file.tell()
        return RangeEnd(split_range.split_id, position, position >= size, records)
