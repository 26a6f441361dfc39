"""The writer half of the file sink: part files of one subtask, from their first record until they are handed over.

::

    write ──► in progress (one for each bucket) ──roll──► finished ──► [waits for compaction] ──► committable
                  │                                                        │
                  └──────────────► snapshot: path, length, checksum ◄──────┘

A restored writer copies what belongs to the checkpoint into a file of its own and goes on with that: whatever the
failed attempt, or a zombie of it, does to the old file cannot do harm. The old file goes when a later checkpoint is
complete, so the same checkpoint can be restored as often as it takes.
"""

from __future__ import annotations

import posixpath
from collections.abc import Callable, Iterable, Iterator, Sequence, Set
from contextlib import ExitStack, closing
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

from millstream.base.crash_points import reach
from millstream.base.errors import LostOutputError, SinkError
from millstream.base.ids import new_id
from millstream.connectors.files.buckets import (
    BucketAssigner,
    BucketAssignerContext,
    cut_by_bucket,
    cut_columns,
)
from millstream.connectors.files.compaction import FileCompactor, FileCompactStrategy
from millstream.connectors.files.gathering import Gathered
from millstream.connectors.files.parts import (
    FileCommittable,
    InProgressFile,
    PartFile,
    PendingFile,
    WriterSnapshot,
    hidden_name,
    not_written,
)
from millstream.connectors.files.rolling import OutputFileConfig, RollingPolicy
from millstream.connectors.files.side_by_side import side_by_side
from millstream.files.output import OutputFiles, open_output
from millstream.spi.batch import Batch, Columns
from millstream.spi.serialization import BulkWriterFactory, Encoder
from millstream.spi.sink import SinkWriter, WriterContext

__all__ = ["FileSinkSettings", "FileWriter"]


@dataclass(frozen=True)
class FileSinkSettings:
    """What a file sink was built with.

    Attributes:
        base_path: Absolute path or URI.
        output: How records are written.
        bucket_assigner: Which directory a record belongs in.
        rolling_policy: When a file is finished.
        file_config: How files are named.
        check_interval_ms: How often the age of files is looked at.
        compact_strategy: When small files are merged; None for never.
        compactor: How.
    """

    base_path: str
    output: Encoder | BulkWriterFactory
    bucket_assigner: BucketAssigner
    rolling_policy: RollingPolicy
    file_config: OutputFileConfig
    check_interval_ms: int
    compact_strategy: FileCompactStrategy | None = None
    compactor: FileCompactor | None = None


class FileWriter(SinkWriter):
    """Writes the files of one subtask, one open file for each bucket."""

    def __init__(self, settings: FileSinkSettings, context: WriterContext) -> None:
        self._settings = settings
        self._files: OutputFiles = open_output(settings.base_path)
        self._is_bulk = self.takes_columns = isinstance(settings.output, BulkWriterFactory)
        self._context = context
        # Unique for each attempt: files of two runs, or of two sinks in one directory, never collide.
        unique = new_id()[:16] if self._files.renames else context.new_name()
        self._uid = f"{context.subtask_index}-{unique}"
        self._counter = 0
        self._open: dict[str, PartFile] = {}
        self._gathered = Gathered()
        self._finished: list[PendingFile] = []
        self._compaction = _Compaction(self) if settings.compact_strategy is not None else None
        self._made: list[str] = []
        self._unsynced: set[str] = set()
        self._named: set[str] = set()
        self._checked_ms: int | None = None
        self._ages = type(settings.rolling_policy).is_old is not RollingPolicy.is_old
        self._referred: set[str] = set()
        self._is_restored = False
        self._superseded: list[str] = []
        self._replaceable: list[str] = []
        self._ended = False
        self._aborted = False

    @property
    def files(self) -> OutputFiles:
        """Where the files are."""
        return self._files

    @property
    def settings(self) -> FileSinkSettings:
        """What the sink was built with."""
        return self._settings

    def restore(self, snapshots: Sequence[WriterSnapshot], *, others: Sequence[WriterSnapshot]) -> None:
        """Go on with the files that were open, and those that wait for compaction.

        Raises:
            SinkError: If what a checkpoint refers to is gone or altered.
        """
        self._is_restored = True
        for snapshot in (*snapshots, *others):
            self._referred |= snapshot.paths()
        try:
            for snapshot in snapshots:
                self._counter = max(self._counter, snapshot.counter)
                for former in snapshot.open:
                    self._resume(former)
                self._take_waiting(snapshot)
        except OSError as error:
            raise self._failed(error) from error

    def open(self) -> None:
        """Remove what killed attempts of this job left and no checkpoint refers to; one subtask does it for all."""
        if self._cleans():
            try:
                self._remove_leftovers(self._referred)
            except OSError as error:
                raise self._failed(error) from error

    def write(self, batch: Batch, *, watermark_ms: int, now_ms: int) -> None:
        """Stage a batch: columns as they are, but for formats that write record by record, and changes of rows."""
        if not len(batch):
            return
        if type(batch) is Columns and self._is_bulk and batch.kinds is None:
            self._gather_columns(batch, watermark_ms, now_ms)
            return
        rows = batch.to_rows()
        values, timestamps = rows.values, rows.timestamps
        if self._is_bulk:
            self._gather(values, timestamps, watermark_ms, now_ms)
        else:
            groups: dict[str, list[Any]] = {}
            self._assign(values, timestamps, watermark_ms, now_ms, groups)
            self._write_groups(groups, [], now_ms)
            self._roll_full(groups)

    def _gather_columns(self, batch: Columns, watermark_ms: int, now_ms: int) -> None:
        """Keep columns for their files, cut by bucket."""
        if self._gathered.rows:
            self._write_gathered(now_ms)
        assigner = self._settings.bucket_assigner
        bucket_id = assigner.batch_bucket_id(now_ms)
        if bucket_id is None:
            context = BucketAssignerContext(now_ms, watermark_ms)
            self._gathered.add_columns(cut_columns(assigner, batch.data, batch.timestamps, context))
        else:
            self._gathered.add_columns([(bucket_id, batch.data)])
        if self._gathered.is_full:
            self._write_gathered(now_ms)

    def _gather(
        self, values: list[Any], timestamps: list[int] | None, watermark_ms: int, now_ms: int
    ) -> None:
        """Keep records for their files."""
        if self._gathered.columns:
            self._write_gathered(now_ms)
        self._assign(values, timestamps, watermark_ms, now_ms, self._gathered.rows)
        self._gathered.count_rows(values)
        if self._gathered.is_full:
            self._write_gathered(now_ms)

    def _assign(
        self,
        values: list[Any],
        timestamps: list[int] | None,
        watermark_ms: int,
        now_ms: int,
        groups: dict[str, list[Any]],
    ) -> None:
        """Add records to the lists of their buckets."""
        assigner = self._settings.bucket_assigner
        bucket_id = assigner.batch_bucket_id(now_ms)
        if bucket_id is None:
            cut_by_bucket(assigner, values, timestamps, BucketAssignerContext(now_ms, watermark_ms), groups)
        else:
            groups.setdefault(bucket_id, []).extend(values)

    def _write_groups(
        self, groups: dict[str, list[Any]], parts: Sequence[tuple[str, Any]], now_ms: int
    ) -> None:
        """Write rows and record batches to the files of their buckets."""
        try:
            for bucket_id, members in groups.items():
                (self._open.get(bucket_id) or self._begin(bucket_id, now_ms)).write(members, now_ms)
            for bucket_id, batch in parts:
                (self._open.get(bucket_id) or self._begin(bucket_id, now_ms)).write_columns(batch, now_ms)
        except OSError as error:
            raise self._failed(error) from error

    def _roll_full(self, bucket_ids: Iterable[str]) -> None:
        full = self._settings.rolling_policy.is_full
        try:
            self._roll([bucket_id for bucket_id in bucket_ids if full(self._open[bucket_id].size_bytes)])
        except OSError as error:
            raise self._failed(error) from error

    def _write_gathered(self, now_ms: int) -> None:
        """Hand gathered records to their files; at an epoch's end at the latest, so what does not fit fails in it."""
        gathered, self._gathered = self._gathered, Gathered()
        self._write_groups(gathered.rows, gathered.joined_columns(), now_ms)

    def prepare_commit(self, *, now_ms: int, checkpoint: bool, end_of_input: bool) -> list[Any]:
        """Finish the files whose time has come, and return those that wait for nothing else."""
        self._ended = end_of_input
        self._write_gathered(now_ms)
        try:
            self._roll(self._due(now_ms, checkpoint=checkpoint, end_of_input=end_of_input))
            if self._compaction is None:
                ready = [pending.file for pending in self._finished]
            else:
                ready = self._compaction.take(
                    self._finished, checkpoint=checkpoint, end_of_input=end_of_input
                )
            if ready:
                self._sync_names()
        except OSError as error:
            raise self._failed(error) from error
        self._finished = []
        if ready:  # those directories hold output now
            used = _with_parents(posixpath.dirname(committable.final_path) for committable in ready)
            self._made = [made for made in self._made if made not in used]
        return ready

    def snapshot(self) -> WriterSnapshot:
        """Make the open files durable and return them with the waiting ones."""
        try:
            opened = tuple(side_by_side(part.snapshot for part in self._open.values()))
            self._sync_names()
        except OSError as error:
            raise self._failed(error) from error
        self._replaceable = list(self._superseded)
        self._made = []
        if self._compaction is None:
            return WriterSnapshot(self._counter, opened)
        return self._compaction.snapshot(WriterSnapshot(self._counter, opened))

    def checkpoint_completed(self, checkpoint_id: int) -> None:
        """Remove the files of former attempts that have been replaced by own ones."""
        for path in self._replaceable:
            self._files.remove(path)
        self._superseded = [path for path in self._superseded if path not in self._replaceable]
        self._replaceable = []

    def next_processing_time(self) -> int | None:
        """Return when the age of the open files is looked at next."""
        if not self._open or not self._ages or self._checked_ms is None:
            return None
        return self._checked_ms + self._settings.check_interval_ms

    def abort(self) -> None:
        """Remove the files that no snapshot refers to, and the directories made for them if they are empty."""
        self._aborted = True
        for part in self._open.values():
            if part.kept:
                part.release()
            else:
                part.discard()
        waiting = [] if self._compaction is None else self._compaction.files()
        for file in [pending.file for pending in self._finished] + waiting:
            if not file.kept:
                self._files.remove(file.staged_path)
        # A snapshot that was taken and not completed replaces nothing: `close` must leave what it would replace.
        self._open, self._finished, self._superseded, self._replaceable = {}, [], [], []
        self._gathered = Gathered()
        if self._compaction is not None:
            self._compaction.clear()
        for directory in reversed(self._made):
            self._files.remove_directory(directory)
        self._made = []

    def close(self) -> None:
        """Leave what the last snapshot refers to (stop with savepoint); after an end of input there is nothing."""
        superseded = self._superseded if self._ended else self._replaceable
        for path in superseded:
            self._files.remove(path)
        has_ended = self._ended and not self._aborted
        self.abort()
        if has_ended and self._cleans():  # all is published: what is staged is of zombies
            self._remove_leftovers(frozenset(), or_own=True)

    def _cleans(self) -> bool:
        """Return whether this subtask removes leftovers, and whether there can be any."""
        return self._context.subtask_index == 0 and (self._context.attempt > 0 or self._is_restored)

    def _remove_leftovers(self, referred: Set[str], *, or_own: bool = False) -> None:
        for path in list(self._files.hidden_files()):
            name = posixpath.basename(path)
            if path not in referred and self._context.is_of_former(name, or_own=or_own):
                self._files.remove(path)

    def begin_part(
        self, bucket_id: str, directory: str, name: str, now_ms: int, *, raw: bool, waits: bool = False
    ) -> PartFile:
        """Begin a hidden file; with `raw` its bytes are given as they are, if it `waits` it is read again."""
        names = FileCommittable(
            posixpath.join(directory, hidden_name(name, self._context)),
            posixpath.join(directory, name),
            in_bucket=bucket_id != "",
        )
        self._unsynced.add(directory)
        output = Encoder() if raw else self._settings.output
        return PartFile(self._files, bucket_id, names, output, now_ms, waits=waits)

    def _make_directory(self, directory: str) -> None:
        """Make a bucket's directory, and note which directories above hold names that nobody may have synced."""
        made = self._files.make_directory(directory)
        self._made += made
        self._unsynced.update(map(posixpath.dirname, made))
        # What was there may have been made by another subtask a moment ago.
        while len(directory) > len(self._files.base) and directory not in self._named:
            self._named.add(directory)
            directory = posixpath.dirname(directory)
            self._unsynced.add(directory)

    def _sync_names(self) -> None:
        """Make the names of hidden files durable, each directory once: a checkpoint is about to refer to them."""
        side_by_side(partial(self._files.sync_directory, directory) for directory in sorted(self._unsynced))
        self._unsynced.clear()

    def _begin(self, bucket_id: str, now_ms: int) -> PartFile:
        directory = self._files.join(bucket_id)
        self._make_directory(directory)
        config = self._settings.file_config
        name = f"{config.part_prefix}-{self._uid}-{self._counter}{config.part_suffix}"
        self._counter += 1
        waits = self._compaction is not None
        part = self.begin_part(bucket_id, directory, name, now_ms, raw=False, waits=waits)
        self._open[bucket_id] = part
        if self._checked_ms is None:
            self._checked_ms = now_ms
        return part

    def _resume(self, former: InProgressFile) -> None:
        path = None if former.length == 0 else self._find(former)
        if path is None:
            return
        directory, name = posixpath.split(former.final_path)
        self._make_directory(directory)
        goes_on = self._files.appends and not self._is_bulk and former.bucket_id not in self._open
        part = self.begin_part(former.bucket_id, directory, name, former.begun_ms, raw=not goes_on)
        self._open[former.bucket_id if goes_on else f"\0{name}"] = part  # so that `abort` knows of it
        part.resume(former, path)
        self._superseded.append(path)
        if self._checked_ms is None:
            self._checked_ms = former.begun_ms
        if not goes_on:
            self._roll([f"\0{name}"])

    def _find(self, former: InProgressFile) -> str | None:
        """Return where the bytes of a file are that was open at a checkpoint; None if it was published since.

        The checkpoint need not be the last: the file may have been resumed by an attempt that came after it, or
        finished.
        """
        files = self._files
        if files.checksum(former.staged_path, former.length) == former.crc:
            return former.staged_path
        if files.checksum(former.final_path, former.length) == former.crc:
            return None
        prefix = f".{posixpath.basename(former.final_path)}.inprogress."
        for path in files.hidden_files():
            if posixpath.basename(path).startswith(prefix) and (
                files.checksum(path, former.length) == former.crc
            ):
                return path
        raise LostOutputError(
            f"in-progress file {former.staged_path!r} is gone or was altered",
            detail=f"The checkpoint refers to its first {former.length} bytes.",
            hint="Do not clean up files that begin with a dot while a job may be resumed.",
        )

    def _take_waiting(self, snapshot: WriterSnapshot) -> None:
        for pending in snapshot.waiting:
            file = replace(pending.file, kept=True)
            if self._files.size(file.staged_path) is None:
                if self._files.size(file.final_path) is not None:
                    continue  # published since, by a job that went on from this savepoint
                raise LostOutputError(
                    f"finished file {file.staged_path!r} is gone before it was published",
                    hint="Do not clean up files that begin with a dot while a job may be resumed.",
                )
            self._finished.append(PendingFile(pending.bucket_id, file))
        if self._compaction is not None:
            self._compaction.checkpoints = max(self._compaction.checkpoints, snapshot.checkpoints)

    def _due(self, now_ms: int, *, checkpoint: bool, end_of_input: bool) -> list[str]:
        policy = self._settings.rolling_policy
        if end_of_input or (checkpoint and (self._is_bulk or not self._files.appends)):
            return list(self._open)
        due = [
            bucket_id
            for bucket_id, part in self._open.items()
            if checkpoint and policy.rolls_at_checkpoint(part.size_bytes)
        ]
        if self._checked_ms is None:
            self._checked_ms = now_ms
        if now_ms - self._checked_ms < self._settings.check_interval_ms:
            return due
        self._checked_ms = now_ms
        due += [
            bucket_id
            for bucket_id, part in self._open.items()
            if policy.is_old(age_ms=now_ms - part.begun_ms, idle_ms=now_ms - part.written_ms)
            and bucket_id not in due
        ]
        return due

    def _roll(self, keys: Sequence[str]) -> None:
        """Finish files, side by side; those that are finished when one fails are not open any more."""
        try:
            side_by_side(self._settlements(keys))
        finally:
            for key in keys:
                part = self._open[key]
                if part.finished is not None:
                    self._finished.append(PendingFile(part.bucket_id, part.finished))
                    del self._open[key]

    def _settlements(self, keys: Sequence[str]) -> Iterator[Callable[[], FileCommittable]]:
        for key in keys:
            part = self._open[key]
            part.complete()
            yield part.settle

    def _failed(self, error: OSError) -> SinkError:
        return not_written("file below", self._files.base, error)


class _Compaction:
    """The finished files of one writer that wait to be merged.

    Attributes:
        checkpoints: How many checkpoints ago files were merged last.
    """

    def __init__(self, writer: FileWriter) -> None:
        strategy, compactor = writer.settings.compact_strategy, writer.settings.compactor
        assert strategy is not None and compactor is not None
        self._writer = writer
        self._strategy = strategy
        self._compactor = compactor
        self._waiting: dict[str, list[FileCommittable]] = {}
        self.checkpoints = 0

    def take(
        self, finished: Iterable[PendingFile], *, checkpoint: bool, end_of_input: bool
    ) -> list[FileCommittable]:
        """Take finished files; return what is to be published now."""
        for pending in finished:
            self._waiting.setdefault(pending.bucket_id, []).append(pending.file)
        self.checkpoints += checkpoint
        everything = end_of_input or (
            self._strategy.checkpoints is not None and self.checkpoints >= self._strategy.checkpoints
        )
        if everything:
            self.checkpoints = 0
        due = [bucket for bucket, files in self._waiting.items() if everything or self._is_full(files)]
        renames = self._writer.files.renames
        merged = self._merge([bucket for bucket in due if len(self._waiting[bucket]) > 1 or not renames])
        taken = [(bucket, self._waiting.pop(bucket)) for bucket in due]
        return [merged.get(bucket, files[0]) for bucket, files in taken]

    def snapshot(self, snapshot: WriterSnapshot) -> WriterSnapshot:
        """Add what waits to a writer's snapshot; from now on it stays until it is published."""
        self._waiting = {
            bucket: [replace(file, kept=True) for file in files] for bucket, files in self._waiting.items()
        }
        waiting = tuple(
            PendingFile(bucket, file) for bucket, files in self._waiting.items() for file in files
        )
        return replace(snapshot, waiting=waiting, checkpoints=self.checkpoints)

    def files(self) -> list[FileCommittable]:
        """Return what waits."""
        return [file for files in self._waiting.values() for file in files]

    def clear(self) -> None:
        """Forget what waits."""
        self._waiting.clear()

    def _is_full(self, files: Sequence[FileCommittable]) -> bool:
        threshold = self._strategy.size_threshold
        return threshold is not None and sum(file.size_bytes for file in files) >= threshold

    def _merge(self, buckets: Sequence[str]) -> dict[str, FileCommittable]:
        """Merge the files of each bucket one after the other, and write the merged ones out side by side."""
        begun: list[PartFile] = []
        try:
            merged = side_by_side(self._merges(buckets, begun))
            for part in begun:
                reach("sink.compacted", part.committable.final_path)
        except Exception:
            for part in begun:
                part.discard()
            raise
        return {
            bucket: replace(file, merged=tuple(source.staged_path for source in self._waiting[bucket]))
            for bucket, file in zip(buckets, merged, strict=True)
        }

    def _merges(
        self, buckets: Sequence[str], begun: list[PartFile]
    ) -> Iterator[Callable[[], FileCommittable]]:
        files = self._writer.files
        for bucket_id in buckets:
            sources = self._waiting[bucket_id]
            directory, first = posixpath.split(sources[0].final_path)
            part = self._writer.begin_part(bucket_id, directory, f"compacted-{first}", 0, raw=True)
            begun.append(part)
            with ExitStack() as opened:
                inputs = [opened.enter_context(closing(files.open(source.staged_path))) for source in sources]
                reach("sink.compact", part.committable.final_path)
                part.merge(self._compactor, inputs)
            part.complete()
            yield part.settle


def _with_parents(directories: Iterable[str]) -> set[str]:
    """Return directories and all that they are in."""
    found: set[str] = set()
    for directory in directories:
        while directory not in found:
            found.add(directory)
            directory = posixpath.dirname(directory)
    return found
