"""Runs a sink's writers and committer as the engine does, attempt after attempt, and looks at the target as readers."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

from millstream.base.ids import new_id
from millstream.spi.batch import Columns, Rows
from millstream.spi.sink import Sink, SinkWriter, WriterContext
from millstream.testing.rules import ContractViolation, KeyOf, Rule, describe_difference, travel

__all__ = ["SinkAttempt", "SinkCheckpoint", "SinkRule", "SinkRun", "SinkTarget"]

_START_MS = 1_000_000


class SinkRule(Rule):
    """What `spi.sink` asks of a sink.

    Example:
        >>> from millstream.testing import SinkRule
        >>> SinkRule.HIDDEN.value
        'readers see nothing before it is committed'
    """

    TRAVELS = "a sink, its committables and its writers' snapshots can be pickled; copies are as good as the original"
    WORKS = "a sink takes what it is given, and goes on from what it has staged, without an error"
    HIDDEN = "readers see nothing before it is committed"
    STAYS = "what readers have seen does not go away"
    COMPLETE = "every record that was written is there at the end of the job"
    ONCE = "no record is there twice"
    LATE_COMMITS = "what a checkpoint holds is committed while the writers stage what comes behind it"
    REPLAYED_COMMITS = "what is committed again, by whatever committer, changes nothing"
    RESTARTED = (
        "an attempt that begins from a checkpoint loses and doubles nothing, wherever the one before it ended"
    )
    RESCALED = "so does one with another number of subtasks"
    ZOMBIES = "an attempt that goes on though another has taken over changes nothing"
    SAVEPOINTS = "a job that ended behind a savepoint can be gone on with by another job"
    LEFTOVERS = "when a job has ended nothing staged is left"
    JOB = "a job that fails anywhere and goes on from its last checkpoint loses nothing, and doubles nothing if need be"


@dataclass(frozen=True, slots=True)
class SinkTarget:
    """A sink with a target of its own.

    Attributes:
        sink: The sink.
        read: Gives the records that readers see at present, in any order.
        staged: Gives what is staged and not published at present; None if that cannot be seen.

    Example:
        >>> import pathlib, tempfile
        >>> from millstream.common import Encoder
        >>> from millstream.datastream.connectors.file_system import FileSink
        >>> from millstream.testing import SinkTarget
        >>> def lines_below(path):
        ...     parts = pathlib.Path(path).rglob("part-*")
        ...     return [line for part in parts for line in part.read_text().splitlines()]
        >>> with tempfile.TemporaryDirectory() as path:
        ...     sink = FileSink.for_row_format(path, Encoder.simple_string_encoder()).build()
        ...     target = SinkTarget(sink, read=lambda: lines_below(path))
        ...     list(target.read())
        []
    """

    sink: Sink
    read: Callable[[], Iterable[Any]]
    staged: Callable[[], Iterable[Any]] | None = None


@dataclass(frozen=True, slots=True)
class SinkCheckpoint:
    """What a checkpoint holds of a sink, as it comes back from storage.

    Attributes:
        checkpoint_id: Its number.
        snapshots: Of the writers, by subtask.
        committables: Those that were pending.
        written: Records that were written before.
    """

    checkpoint_id: int
    snapshots: tuple[Any, ...]
    committables: tuple[Any, ...]
    written: int


class SinkRun:
    """One target, and all that is done to it; `expected` may be there by now, once each.

    Args:
        target: The sink and its target.
        scenario: What is being done, for messages.
        key: Gives what records are compared by.
        directory: Where checkpoints would be kept.

    Attributes:
        job_id: The job that runs at present.
        exactly_once: Whether the sink has a committer, and so publishes with checkpoints.
    """

    def __init__(self, target: SinkTarget, scenario: str, key: KeyOf, directory: str) -> None:
        self.target = target
        self.scenario = scenario
        self.key = key
        self.directory = directory
        self.job_id = new_id()
        self.now_ms = _START_MS
        self.exactly_once = target.sink.build_committer() is not None
        self.violated: SinkRule | None = None  # what is broken if records are missing or twice from now on
        self._seen: Counter[Any] = Counter()
        self._allowed: Counter[Any] = Counter()
        self.perform("check", target.sink.check)

    def violate(self, rule: SinkRule, seen: str) -> ContractViolation:
        """Return the error that says that a rule is broken."""
        return ContractViolation(rule, self.scenario, seen)

    def new_job(self) -> None:
        """Have another job go on."""
        self.job_id = new_id()

    def perform(self, what: str, *actions: Callable[[], Any]) -> list[Any]:
        """Do something with the sink, once for each writer, say, then look at the target; return what came of it.

        Raises:
            ContractViolation: If it raises an error, or readers see what they must not.
        """
        results = []
        for action in actions:
            try:
                results.append(action())
            except Exception as error:
                raise self.violate(
                    SinkRule.WORKS, f"{what} raised {type(error).__name__}: {error}"
                ) from error
        self.look(what)
        return results

    def travelled(self, thing: Any) -> Any:
        """Return a copy of something as it arrives elsewhere."""
        return travel(thing, SinkRule.TRAVELS, self.scenario)

    def allow(self, records: Iterable[Any]) -> None:
        """Take note that records are part of a checkpoint from now on, so readers may see them."""
        self._allowed.update(map(self.key, records))

    def look(self, what: str) -> None:
        """See whether readers see nothing that they must not, and all that they saw before.

        Raises:
            ContractViolation: If not.
        """
        now = Counter(map(self.key, self.target.read()))
        if gone := self._seen - now:
            raise self.violate(SinkRule.STAYS, f"behind {what} {gone.total()} records are gone")
        self._seen = now
        if not self.exactly_once:
            return
        early = now - self._allowed
        if not early:
            return
        if all(record in self._allowed for record in early):
            raise self.violate(
                self.violated or SinkRule.ONCE,
                f"behind {what} {describe_difference(now.elements(), self._allowed.elements())}",
            )
        raise self.violate(
            SinkRule.HIDDEN,
            f"behind {what}, before it is committed, readers see {sorted(map(repr, early))[:3]}",
        )

    def finish(self, records: Sequence[Any], *, leftovers: bool = True) -> None:
        """See whether all is there at the end of a job, and nothing else.

        Raises:
            ContractViolation: If not.
        """
        wanted = Counter(map(self.key, records))
        if missing := wanted - self._seen:
            raise self.violate(
                self.violated or SinkRule.COMPLETE,
                f"at the end {describe_difference((wanted - missing).elements(), wanted.elements())}",
            )
        if leftovers and self.exactly_once and self.target.staged is not None:
            staged = list(self.target.staged())
            if staged:
                raise self.violate(SinkRule.LEFTOVERS, f"{len(staged)} staged: {staged[:3]}")


class SinkAttempt:
    """One attempt of a job that writes into a sink: a writer for each subtask, a committer.

    Args:
        run: The target.
        parallelism: Number of subtasks.
        number: Of the attempt.
        generation: Of the driver.
        restored: The checkpoint that it begins from; None begins anew.
    """

    def __init__(
        self,
        run: SinkRun,
        parallelism: int,
        *,
        number: int = 0,
        generation: int = 0,
        restored: SinkCheckpoint | None = None,
    ) -> None:
        run.now_ms += 1_000
        self._run = run
        self._parallelism = parallelism
        self._pending: list[Any] = []
        self.written = 0 if restored is None else restored.written
        self._began_ms = run.now_ms
        self._committer = run.travelled(run.target.sink).build_committer()
        if restored is not None and restored.committables:
            assert self._committer is not None
            committables = run.travelled(restored.committables)
            run.perform("recover", partial(self._committer.recover, list(committables)))
        build = [partial(self._build_writer, index, number, generation) for index in range(parallelism)]
        self._writers: list[SinkWriter] = run.perform("build_writer", *build)
        run.perform(
            "restore and open", *[partial(self._open, index, restored) for index in range(parallelism)]
        )

    def _build_writer(self, index: int, number: int, generation: int) -> SinkWriter:
        run = self._run
        context = WriterContext(
            run.job_id,
            "sink",
            index,
            self._parallelism,
            number,
            operator_id="sink-under-test",
            began_ms=self._began_ms,
            checkpoint_directory=run.directory,
            generation=generation,
        )
        sink: Sink = run.travelled(run.target.sink)
        return sink.build_writer(context)

    def _open(self, index: int, restored: SinkCheckpoint | None) -> None:
        mine: list[Any] = []
        others: list[Any] = []
        for old, snapshot in enumerate(() if restored is None else restored.snapshots):
            if snapshot is not None:
                adopted = old % self._parallelism == index
                (mine if adopted else others).append(self._run.travelled(snapshot))
        if mine or others:
            self._writers[index].restore(mine, others=others)
        self._writers[index].open()

    def write(self, records: Sequence[Any]) -> None:
        """Give records to the writers: each an empty batch and one of its own; or columns and rows if it takes both."""
        self.written += len(records)
        writes = []
        for index, writer in enumerate(self._writers):
            values = list(records[index :: self._parallelism])
            stamps = [self._run.now_ms] * len(values) if index % 2 else None
            half = len(values) // 2 if writer.takes_columns else 0
            first = Rows(values[:half], stamps and stamps[:half])
            for batch in (
                Columns.from_rows(first) if half else first,
                Rows(values[half:], stamps and stamps[half:]),
            ):
                writes.append(partial(writer.write, batch, watermark_ms=0, now_ms=self._run.now_ms))
        self._run.perform("write", *writes)

    def end_epoch(self, *, checkpoint_id: int | None = None, end_of_input: bool = False) -> None:
        """End an epoch; what is ready waits to be committed."""
        self._run.now_ms += 100
        prepare = [
            partial(
                writer.prepare_commit,
                now_ms=self._run.now_ms,
                checkpoint=checkpoint_id is not None,
                end_of_input=end_of_input,
            )
            for writer in self._writers
        ]
        prepared = self._run.perform("prepare_commit", *prepare)
        for writer, committables in zip(self._writers, prepared, strict=True):
            numbered = committables
            if checkpoint_id is not None:
                numbered = writer.number_committables(committables, checkpoint_id)
            if numbered and self._committer is None:
                raise self._run.violate(
                    SinkRule.COMPLETE, "a writer returned committables, and the sink has no committer"
                )
            self._pending += self._run.travelled(numbered)

    def snapshot(self, checkpoint_id: int) -> SinkCheckpoint:
        """Return what the checkpoint holds that ends with this epoch."""
        taken = self._run.perform("snapshot", *[writer.snapshot for writer in self._writers])
        snapshots = tuple(map(self._run.travelled, taken))
        return SinkCheckpoint(
            checkpoint_id, snapshots, tuple(self._run.travelled(self._pending)), self.written
        )

    def commit(self) -> None:
        """Commit what is pending; its checkpoint is complete."""
        self.begin_commit()()

    def begin_commit(self) -> Callable[[], None]:
        """Return what commits what is pending; its checkpoint is complete, and the writers may go on before."""
        pending, self._pending = self._pending, []

        def commit() -> None:
            if self._committer is not None and pending:
                self._run.perform("commit", partial(self._committer.commit, pending))

        return commit

    def seal(self) -> None:
        """Take note that the checkpoint is complete: what it holds is not aborted, whoever commits it."""
        self._pending = []

    def complete(self, checkpoint_id: int) -> None:
        """Tell the writers that a checkpoint is complete."""
        told = [partial(writer.checkpoint_completed, checkpoint_id) for writer in self._writers]
        self._run.perform("checkpoint_completed", *told)

    def abort(self) -> None:
        """End as the engine ends an attempt that failed."""
        self._run.perform("abort of the writers", *[writer.abort for writer in self._writers])
        self._run.perform("close of the writers", *[writer.close for writer in self._writers])
        if self._committer is not None:
            self._run.perform("abort of the committer", partial(self._committer.abort, self._pending))
            self._run.perform("close of the committer", self._committer.close)

    def close(self) -> None:
        """End well, or behind a savepoint."""
        self._run.perform("close of the writers", *[writer.close for writer in self._writers])
        if self._committer is not None:
            self._run.perform("close of the committer", self._committer.close)

    def haunt(self, records: Sequence[Any]) -> None:
        """Go on though another attempt has taken over; what it returns is not committed, its errors do not count."""
        for writer in self._writers:
            for action in (
                partial(writer.write, Rows(list(records)), watermark_ms=0, now_ms=self._run.now_ms),
                partial(writer.prepare_commit, now_ms=self._run.now_ms, checkpoint=True, end_of_input=False),
                writer.snapshot,
                writer.abort,
                writer.close,
            ):
                try:
                    action()
                except Exception:  # noqa: BLE001 - a zombie may well find that its files are gone
                    break
        self._run.look("what a zombie did")
