"""Holds a sink against the contract of `spi.sink`: commits, failures between any two steps, rescaling, zombies, jobs.

::

    epoch   write … write ─ prepare_commit ─ snapshot ═ checkpoint complete ═ commit ─ checkpoint_completed
                         │                 │                               │        │
    fails             WRITTEN           STAGED                          RECORDED  COMMITTED
    commits late                                              ═ checkpoint_completed ─ write … prepare_commit ─ commit

The attempt that fails is ended by the engine (aborted), killed, killed with its driver, or goes on as a zombie. The
next one begins from the last checkpoint, with as many subtasks or another number. After every step readers look at the
target.
"""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Iterable, Sequence
from enum import Enum
from functools import partial
from itertools import product
from typing import Any

from millstream.datastream.streams.data_stream import DataStream
from millstream.testing.cluster import MiniCluster
from millstream.testing.failures import FailurePoint
from millstream.testing.rules import ContractViolation, KeyOf, as_text, describe_difference
from millstream.testing.sink_run import SinkAttempt, SinkCheckpoint, SinkRule, SinkRun, SinkTarget
from millstream.verify.run import scratch_base

__all__ = ["check_sink", "check_sink_in_jobs"]

_EPOCHS = 4
_FEW = 6
_HUGE = 20_000
_PARALLELISMS = ((1, 1), (2, 2), (1, 3), (3, 2))
NewTarget = Callable[[], SinkTarget]
Attach = Callable[[DataStream[Any]], object]
Read = Callable[[MiniCluster], Iterable[Any]]


class _Point(Enum):
    """Where an attempt fails in an epoch."""

    WRITTEN = "when records were written"
    STAGED = "before its checkpoint was complete"
    RECORDED = "before what its checkpoint holds was committed"
    COMMITTED = "behind the commit"


class _Manner(Enum):
    """How an attempt ends that fails."""

    ABORTED = "was aborted"
    KILLED = "was killed"
    DRIVER_KILLED = "was killed with its driver"
    ZOMBIE = "went on"


def check_sink(
    new_target: NewTarget,
    *,
    record: Callable[[int], Any] = str,
    key: KeyOf = as_text,
    parallelisms: Sequence[tuple[int, int]] = _PARALLELISMS,
) -> None:
    """Check that a sink keeps the contract of `millstream.spi.sink`; returns if it does.

    A sink with a committer has to publish every record exactly once, another one at least once.

    Args:
        new_target: Makes the sink with an empty target of its own; called once for each scenario, some hundred times.
        record: Makes the nth record; all differ. By default the number as text.
        key: Gives something hashable that is equal for a record and what is read of it; by default their text.
        parallelisms: Numbers of subtasks that are tried, before and behind a failure.

    Raises:
        ContractViolation: If it breaks a rule; names the rule, what was being done, and what was seen.
    """
    check = _SinkCheck(new_target, record, key)
    for before, _ in parallelisms:
        for checkpoints in (True, False):
            check.undisturbed(before, _FEW * _EPOCHS, checkpoints=checkpoints)
        check.undisturbed(before, 0, checkpoints=True)
        check.commits_late(before)
    check.undisturbed(parallelisms[0][0], _HUGE, checkpoints=True)
    check.commits_again(parallelisms[0][0])
    for (before, after), epoch, point, manner in product(parallelisms, (0, 2), _Point, _Manner):
        check.failing(before, after, epoch, point, manner)
    for before, after in parallelisms:
        check.stopped_with_savepoint(before, after)
    check_sink_in_jobs(
        lambda: _in_job(new_target()),
        record=record,
        key=key,
        at_least_once=new_target().sink.build_committer() is None,
    )


def _in_job(target: SinkTarget) -> tuple[Attach, Read]:
    return lambda stream: stream.sink_to(target.sink), lambda _: target.read()


class _SinkCheck:
    """The scenarios, each on a target of its own."""

    def __init__(self, new_target: NewTarget, record: Callable[[int], Any], key: KeyOf) -> None:
        self._new_target = new_target
        self._record = record
        self._key = key

    def _records(self, start: int, count: int) -> list[Any]:
        return [self._record(number) for number in range(start, start + count)]

    def _run(self, scenario: str, directory: str) -> SinkRun:
        return SinkRun(self._new_target(), scenario, self._key, directory)

    def undisturbed(self, parallelism: int, count: int, *, checkpoints: bool) -> None:
        """Write records in a few epochs; without checkpoints all is committed at the end."""
        how = "a checkpoint with each epoch" if checkpoints else "no checkpoints"
        with tempfile.TemporaryDirectory(dir=scratch_base()) as directory:
            run = self._run(f"{count} records, {parallelism} subtasks, {how}", directory)
            attempt = SinkAttempt(run, parallelism)
            size = count // _EPOCHS
            for epoch in range(_EPOCHS):
                last = epoch == _EPOCHS - 1
                attempt.write(records := self._records(epoch * size, size))
                ends = checkpoints or last
                attempt.end_epoch(checkpoint_id=epoch + 1 if ends else None, end_of_input=last)
                if checkpoints:
                    attempt.snapshot(epoch + 1)
                    run.allow(records)
                elif last:
                    run.allow(self._records(0, count))
                if ends:
                    attempt.commit()
                if checkpoints and not last:
                    attempt.complete(epoch + 1)
            attempt.close()
            run.finish(self._records(0, count))

    def commits_late(self, parallelism: int) -> None:
        """Commit what a checkpoint holds when writers are told of it, and have staged what comes behind it."""
        with tempfile.TemporaryDirectory(dir=scratch_base()) as directory:
            run = self._run(f"{parallelism} subtasks, commits while the writers go on", directory)
            run.violated = SinkRule.LATE_COMMITS
            attempt = SinkAttempt(run, parallelism)
            behind: list[Any] = []
            for epoch in range(_EPOCHS):
                last = epoch == _EPOCHS - 1
                attempt.write(records := self._records(epoch * _FEW, _FEW))
                attempt.end_epoch(checkpoint_id=epoch + 1, end_of_input=last)
                attempt.snapshot(epoch + 1)
                run.allow(behind + records)
                commit = attempt.begin_commit()
                if not last:
                    attempt.complete(epoch + 1)
                    attempt.write(behind := self._records((_EPOCHS + epoch) * _FEW, _FEW))
                    attempt.end_epoch()
                commit()
            attempt.close()
            run.finish(self._records(0, (2 * _EPOCHS - 1) * _FEW))

    def commits_again(self, parallelism: int) -> None:
        """Commit everything several times, with committers of other processes."""
        with tempfile.TemporaryDirectory(dir=scratch_base()) as directory:
            run = self._run(f"{parallelism} subtasks, each commit is repeated", directory)
            attempt = SinkAttempt(run, parallelism)
            attempt.write(records := self._records(0, _FEW))
            attempt.end_epoch(checkpoint_id=1, end_of_input=True)
            checkpoint = attempt.snapshot(1)
            run.allow(records)
            attempt.commit()
            run.violated = SinkRule.REPLAYED_COMMITS
            for method in ("commit", "recover", "commit"):
                committer = run.travelled(run.target.sink).build_committer()
                if committer is not None and checkpoint.committables:
                    again = run.travelled(list(checkpoint.committables))
                    run.perform(f"a second {method}", partial(getattr(committer, method), again))
                    run.perform("close of the committer", committer.close)
            run.violated = None
            attempt.close()
            run.finish(records)

    def failing(self, before: int, after: int, epoch: int, point: _Point, manner: _Manner) -> None:
        """Have an attempt fail in an epoch, and another one go on."""
        scenario = (
            f"{before} subtasks, an attempt that failed in epoch {epoch + 1} {point.value} {manner.value}, "
            f"then {after} subtasks"
        )
        with tempfile.TemporaryDirectory(dir=scratch_base()) as directory:
            run = self._run(scenario, directory)
            attempt = SinkAttempt(run, before)
            checkpoint = None
            for number in range(epoch):
                checkpoint = self._epoch(run, attempt, number)
            checkpoint = self._fail(run, attempt, epoch, point) or checkpoint
            run.violated = SinkRule.RESTARTED if before == after else SinkRule.RESCALED
            if manner is _Manner.ABORTED:
                attempt.abort()
            elif manner is _Manner.ZOMBIE:
                run.violated = SinkRule.ZOMBIES
            killed = manner is _Manner.DRIVER_KILLED
            if killed and checkpoint is None:
                run.new_job()  # nobody knows of the one before, nor of what it staged
            following = SinkAttempt(
                run, after, number=0 if killed else 1, generation=1 if killed else 0, restored=checkpoint
            )
            begin = 0 if checkpoint is None else checkpoint.written // _FEW
            for number in range(begin, _EPOCHS):
                haunts = manner is _Manner.ZOMBIE and number == begin and number < _EPOCHS - 1
                meanwhile = partial(attempt.haunt, self._records(10_000, _FEW)) if haunts else None
                self._epoch(run, following, number, last=number == _EPOCHS - 1, meanwhile=meanwhile)
            following.close()
            forgotten = manner is _Manner.ZOMBIE or (killed and checkpoint is None)
            run.finish(self._records(0, _FEW * _EPOCHS), leftovers=not forgotten)

    def _epoch(
        self,
        run: SinkRun,
        attempt: SinkAttempt,
        number: int,
        *,
        last: bool = False,
        meanwhile: Callable[[], None] | None = None,
    ) -> SinkCheckpoint:
        """Run a whole epoch with a checkpoint at its end; something may be done before it is committed."""
        checkpoint_id = number + 1
        records = self._records(number * _FEW, _FEW)
        attempt.write(records)
        attempt.end_epoch(checkpoint_id=checkpoint_id, end_of_input=last)
        checkpoint = attempt.snapshot(checkpoint_id)
        if meanwhile is not None:
            meanwhile()
        run.allow(records)
        attempt.commit()
        if not last:
            attempt.complete(checkpoint_id)
        return checkpoint

    def _fail(self, run: SinkRun, attempt: SinkAttempt, number: int, point: _Point) -> SinkCheckpoint | None:
        """Run an epoch up to a point; return its checkpoint if it is complete."""
        records = self._records(number * _FEW, _FEW)
        attempt.write(records)
        if point is _Point.WRITTEN:
            return None
        attempt.end_epoch(checkpoint_id=number + 1)
        checkpoint = attempt.snapshot(number + 1)
        if point is _Point.STAGED:
            return None
        run.allow(records)
        if point is _Point.COMMITTED:
            attempt.commit()
        else:
            attempt.seal()
        return checkpoint

    def stopped_with_savepoint(self, before: int, after: int) -> None:
        """End a job behind a savepoint, and have another job go on from it."""
        with tempfile.TemporaryDirectory(dir=scratch_base()) as directory:
            run = self._run(
                f"{before} subtasks, stopped with a savepoint, another job goes on with {after}", directory
            )
            attempt = SinkAttempt(run, before)
            self._epoch(run, attempt, 0)
            savepoint = self._epoch(run, attempt, 1)
            attempt.close()
            run.violated = SinkRule.SAVEPOINTS
            run.new_job()
            following = SinkAttempt(run, after, restored=savepoint)
            for number in range(2, _EPOCHS):
                self._epoch(run, following, number, last=number == _EPOCHS - 1)
            following.close()
            run.finish(self._records(0, _FEW * _EPOCHS))


def check_sink_in_jobs(
    new_target: Callable[[], tuple[Attach, Read]],
    *,
    record: Callable[[int], Any] = str,
    key: KeyOf = as_text,
    at_least_once: bool = False,
) -> None:
    """Check that jobs lose no record on the way into a sink, and double none, wherever they fail.

    For whatever ends a stream: `print()`, sink functions, sinks of any kind.

    Args:
        new_target: Makes a target of its own for each job: what attaches the sink to a stream, and what reads what is
            there when the job has ended, given the cluster that it ran on.
        record: Makes the nth record; all differ.
        key: Gives something hashable that is equal for a record and what is read of it.
        at_least_once: Whether records may come twice where a job fails.

    Raises:
        ContractViolation: If records are missing, or twice.
    """
    records = [record(number) for number in range(_FEW * _EPOCHS)]
    wanted = [key(each) for each in records]
    for parallelism, point in product((1, 2), [None, *FailurePoint]):
        attach, read = new_target()
        with MiniCluster(
            parallelism=parallelism, options={"millstream.epoch.fixed-records": _FEW}
        ) as cluster:
            if point is not None:
                cluster.fail_at(point, 2)
            environment = cluster.environment()
            attach(environment.from_collection(records).rebalance())
            environment.execute()
            found = [key(each) for each in read(cluster)]
        if at_least_once and point is not None:
            found = list(dict.fromkeys(found))
        difference = describe_difference(found, wanted)
        if difference is not None:
            failure = "undisturbed" if point is None else f"a failure at {point.name}"
            raise ContractViolation(
                SinkRule.JOB, f"a job with {parallelism} subtasks, {failure}", f"at the end {difference}"
            )
