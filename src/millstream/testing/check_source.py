"""Holds a source against the contract of `spi.source`: ranges, snapshots, rescaling, and jobs that fail.

::

    reference ── one subtask, each range read twice ─► what is right (or what the caller expects)
    then, for each parallelism and budget:  whole │ readers stopped │ ranges left out │ splits paused
          for epochs all along the way:     snapshot ─► pickled ─► the rest, at each parallelism
          in one way:                       snapshot ─► checkpoint_completed … failure ─► from the last of these
    then, in jobs on a MiniCluster:         failures before and behind epochs, checkpoints, commits
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from enum import Enum
from typing import Any

from millstream.common.source_functions import SourceFunction
from millstream.common.watermark_strategy import WatermarkStrategy
from millstream.datastream.stream_execution_environment import StreamExecutionEnvironment
from millstream.datastream.streams.data_stream import DataStream
from millstream.spi.source import Boundedness, Source
from millstream.testing.cluster import MiniCluster
from millstream.testing.failures import FailurePoint
from millstream.testing.rules import ContractViolation, KeyOf, as_text, describe_difference
from millstream.testing.source_run import HAS_ARROW, Reading, SourceRule, SourceRun

__all__ = ["check_source", "check_source_function"]

_PARALLELISMS = (1, 2, 3, 7)
_BUDGETS = (1, 3, 50, 100_000)
_MOST_EPOCHS = 100
"""With a small budget a large source takes too many epochs: it is given a larger one."""
_SNAPSHOTS = 12
_EPOCHS_OF_ATTEMPT = 2
_JOB_RECORDS = 20_000
_IDLE = "1 s"


def check_source(
    source: Source,
    *,
    expected: Iterable[Any] | None = None,
    key: KeyOf = as_text,
    parallelisms: Sequence[int] = _PARALLELISMS,
    budgets: Sequence[int] = _BUDGETS,
    records: int = 1_000,
) -> None:
    """Check that a source keeps the contract of `millstream.spi.source`; returns if it does.

    What it reads must not change meanwhile. Check it with nothing to read, with a little and with much: each of them
    breaks other sources.

    Args:
        source: The source.
        expected: Its records in any order; None takes what it gives at first for right. Of an unbounded source all
            that it gives before it falls silent; None if it never does.
        key: Gives something hashable that is equal for equal records; by default their text.
        parallelisms: Numbers of subtasks that are tried, as far as the source allows them.
        budgets: Records of a subtask in an epoch that are tried.
        records: Of an unbounded source, how many are read in each run.

    Raises:
        ContractViolation: If it breaks a rule; names the rule, what was being done, and what was seen.
    """
    most = source.max_parallelism()
    allowed = [each for each in parallelisms if most is None or each <= most] or [1]
    wanted = None if expected is None else [key(record) for record in expected]
    _SourceCheck(source, key, allowed, list(budgets), records, wanted).check()


@dataclass(frozen=True, slots=True)
class _Kept:
    """A snapshot, and what had been read and finished when it was made."""

    epoch: int
    records: Sequence[Any]
    snapshot: Any
    finished: frozenset[int]


class _Fails(Enum):
    """When an attempt fails."""

    UNTOLD = "a failure before anybody is told that the next is complete"
    HALF_TOLD = "a failure when the enumerator is told that the next is complete"
    TOLD = "a failure when readers are told that the next is complete"
    LATER = "a failure one epoch behind the next"


@dataclass
class _SourceCheck:
    """One check; `wanted` is what a bounded source is to give, as soon as that is known."""

    source: Source
    key: KeyOf
    parallelisms: Sequence[int]
    budgets: Sequence[int]
    records: int
    wanted: list[Any] | None
    orders: dict[tuple[int, str], list[Any]] = field(default_factory=dict)

    @property
    def bounded(self) -> bool:
        return self.source.get_boundedness() is Boundedness.BOUNDED

    @property
    def complete(self) -> bool:
        """Whether all that the source has is read in each run."""
        return self.bounded or self.wanted is not None

    def check(self) -> None:
        """Check all rules."""
        reference = self._run(1, self._affordable(0)[-1], Reading.WHOLE, rereads=True)
        if self.bounded and self.wanted is None:
            self.wanted = [value for value, _ in reference.records]
        self._compare(reference, SourceRule.COMPLETE)
        size = len(reference.records)
        for parallelism in self.parallelisms:
            for budget in self._affordable(size):
                for reading in Reading:
                    run = self._run(parallelism, budget, reading, rereads=reading is Reading.WHOLE)
                    self._compare(run, _RULE_OF[reading])
                    self._compare_order(run, parallelism)
        for parallelism in self.parallelisms:
            self._check_snapshots(parallelism, self._affordable(size)[0])
        for parallelism in self.parallelisms:
            self._check_completed(parallelism, self._affordable(size)[0])
        if self.bounded and size <= _JOB_RECORDS:
            self._check_jobs()

    def _affordable(self, size: int) -> list[int]:
        """Return budgets with which the source does not take too many epochs."""
        if not self.complete:
            return [each for each in self.budgets if each <= self.records] or [self.records]
        return sorted({max(each, -(-size // _MOST_EPOCHS)) for each in self.budgets})

    def _run(self, parallelism: int, budget: int, reading: Reading, *, rereads: bool = False) -> SourceRun:
        scenario = f"{parallelism} subtasks, budget {budget}, {reading.value}"
        columns = HAS_ARROW and parallelism % 2 == 0
        run = self._begin(parallelism, budget, scenario, reading=reading, rereads=rereads, columns=columns)
        run.run(until=self._enough(run))
        return run

    def _begin(self, parallelism: int, budget: int, scenario: str, **how: Any) -> SourceRun:
        return SourceRun(self.source, parallelism, budget, scenario=scenario, key=self.key, **how)

    def _enough(self, run: SourceRun) -> Callable[[], bool]:
        if self.bounded:
            return lambda: False
        if self.complete:
            return lambda: run.is_silent
        return lambda: len(run.records) >= self.records

    def _compare(self, run: SourceRun, rule: SourceRule, before: Sequence[Any] = ()) -> None:
        """See whether a source gave all that it has, if that is known."""
        if self.wanted is None:
            return
        found = [*before, *(value for value, _ in run.records)]
        difference = describe_difference(found, self.wanted)
        if difference is not None:
            raise run.violate(rule, f"of {len(self.wanted)} records {difference}")

    def _compare_order(self, run: SourceRun, parallelism: int) -> None:
        """See whether the splits gave the same records in the same order as in other runs, as far as they came."""
        for split_id, records in run.splits.items():
            known = self.orders.get((parallelism, split_id), [])
            both = min(len(known), len(records))
            if known[:both] != records[:both]:
                place = next(i for i in range(both) if known[i] != records[i])
                raise run.violate(
                    SourceRule.ORDER,
                    f'record {place} of split "{split_id}" was {known[place]} before, and is {records[place]}',
                )
            if len(records) > len(known):
                self.orders[parallelism, split_id] = list(records)

    def _check_snapshots(self, parallelism: int, budget: int) -> None:
        scenario = f"{parallelism} subtasks, budget {budget}, a snapshot with each epoch"
        run = self._begin(parallelism, budget, scenario)
        kept = [_Kept(0, [], run.snapshot(), frozenset())]
        enough = self._enough(run)
        while not run.has_ended and not enough():
            run.epoch()
            kept.append(_Kept(run.epochs, list(run.records), run.snapshot(), run.finished))
        run.close()
        step = max(1, len(kept) // _SNAPSHOTS)
        for each in [*kept[::step], kept[-1]]:
            for after in self.parallelisms:
                self._go_on(each, parallelism, after, budget)

    def _go_on(self, kept: _Kept, parallelism: int, after: int, budget: int) -> None:
        scenario = (
            f"from the snapshot of epoch {kept.epoch} of {parallelism} subtasks with {after}, budget {budget}"
        )
        finished = kept.finished if parallelism == after else ()
        run = self._begin(after, budget, scenario, restored=kept.snapshot, finished=finished)
        run.run(until=self._enough(run))
        rule = SourceRule.RESTORED if parallelism == after else SourceRule.RESCALED
        before = kept.records
        self._compare(run, rule, [value for value, _ in before])
        if not self.complete and (again := set(before) & set(run.records)) and self._is_distinct(before):
            raise run.violate(rule, f"{len(again)} records came again, such as {next(iter(again))}")

    def _check_completed(self, parallelism: int, budget: int) -> None:
        """Tell the source of checkpoints, and go on from the last of them whenever an attempt fails."""
        kept = _Kept(0, [], None, frozenset())
        before: list[tuple[Any, Any]] = []
        for fails in (*_Fails, *_Fails, None):
            scenario = (
                f"{parallelism} subtasks, budget {budget}, from checkpoint {kept.epoch}, "
                f"{'to the end' if fails is None else fails.value}"
            )
            run = self._begin(parallelism, budget, scenario, restored=kept.snapshot, finished=kept.finished)
            kept = self._run_told(run, kept, fails)
            run.close()
            if fails is None:
                self._compare(run, SourceRule.COMPLETED, [value for value, _ in before])
            before += kept.records

    def _run_told(self, run: SourceRun, kept: _Kept, fails: _Fails | None) -> _Kept:
        """Run an attempt with a checkpoint behind each epoch; return the last."""
        first, enough = kept.epoch, self._enough(run)
        while not run.has_ended and not enough():
            run.epoch()
            kept = _Kept(first + run.epochs, list(run.records), run.snapshot(), run.finished)
            ends = fails is not None and run.epochs == _EPOCHS_OF_ATTEMPT
            if not ends or fails is not _Fails.UNTOLD:
                run.complete(kept.epoch, readers=not ends or fails is not _Fails.HALF_TOLD)
            if ends:
                if fails is _Fails.LATER and not run.has_ended:
                    run.epoch()
                break
        return kept

    def _is_distinct(self, before: Sequence[Any]) -> bool:
        return len(set(before)) == len(before)

    def _check_jobs(self) -> None:
        assert self.wanted is not None
        source = self.source

        def attach(environment: StreamExecutionEnvironment) -> DataStream[Any]:
            return environment.from_source(source, WatermarkStrategy.no_watermarks(), "source")

        _check_jobs(attach, self.wanted, self.key, self.parallelisms[:2])


def check_source_function(
    build: Callable[[], SourceFunction],
    expected: Iterable[Any],
    *,
    key: KeyOf = as_text,
    parallelisms: Sequence[int] = (1,),
    idle: str = _IDLE,
) -> None:
    """Check that jobs give what a source function receives, once, wherever they fail.

    What a function receives may not come again, so it is looked at from outside, in jobs.

    Args:
        build: Makes a function that has received nothing yet, such as one that reads a socket of a new server; called
            once for each job. After a failure its copies go on receiving where others left off.
        expected: All that it receives, in any order.
        key: Gives something hashable that is equal for equal records.
        parallelisms: Numbers of subtasks that are tried.
        idle: A function that does not return has given all when nothing came for so long.

    Raises:
        ContractViolation: If records are missing or come twice.
    """

    def attach(environment: StreamExecutionEnvironment) -> DataStream[Any]:
        return environment.add_source(build())

    wanted = [key(record) for record in expected]
    _check_jobs(attach, wanted, key, parallelisms, {"millstream.execution.stop-when-idle": idle})


def _check_jobs(
    attach: Callable[[StreamExecutionEnvironment], DataStream[Any]],
    wanted: Sequence[Any],
    key: KeyOf,
    parallelisms: Sequence[int],
    options: dict[str, Any] | None = None,
) -> None:
    epoch = max(1, len(wanted) // 10)
    settings = {"millstream.epoch.fixed-records": epoch, **(options or {})}
    for parallelism in parallelisms:
        for point in [None, *FailurePoint]:
            with MiniCluster(parallelism=parallelism, options=settings) as cluster:
                if point is not None:
                    cluster.fail_at(point, 2)
                found = map(key, cluster.collect(attach(cluster.environment())))
                difference = describe_difference(found, wanted)
            if difference is not None:
                failure = "undisturbed" if point is None else f"a failure at {point.name}"
                raise ContractViolation(
                    SourceRule.JOB,
                    f"a job with {parallelism} subtasks, {failure}",
                    f"of {len(wanted)} records {difference}",
                )


_RULE_OF = {
    Reading.WHOLE: SourceRule.COMPLETE,
    Reading.STOPPED: SourceRule.STOPS,
    Reading.FIRST_ONLY: SourceRule.UNREAD,
    Reading.PAUSED: SourceRule.PAUSED,
}
