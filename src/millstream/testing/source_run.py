"""Runs a source's enumerator and readers as the engine does, and watches them."""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from enum import Enum
from importlib.util import find_spec
from typing import Any

from millstream.base.errors import shorten
from millstream.spi.batch import Batch, Columns, Rows
from millstream.spi.source import (
    PlanRequest,
    RangeEnd,
    Source,
    SourcePlan,
    SourceReader,
    SourceReaderContext,
    SplitEnumerator,
    SplitRange,
)
from millstream.testing.rules import ContractViolation, KeyOf, Rule, as_text, travel

__all__ = ["HAS_ARROW", "Reading", "SourceRule", "SourceRun"]

_SLACK_RECORDS = 10_000
_MOST_IN_BATCH = 100_000
_MOST_IDLE_PLANS = 1_000
_SILENT_PLANS = 30
_POLL_MS = 50
HAS_ARROW = find_spec("pyarrow") is not None
"""Nobody is asked for columns where there are none."""


class SourceRule(Rule):
    """What `spi.source` asks of a source.

    Example:
        >>> from millstream.testing import SourceRule
        >>> SourceRule.RESTORED.value
        'from the snapshot of any epoch, the records behind it follow, no more and no less'
    """

    TRAVELS = "a source, its splits and its positions can be pickled; copies are as good as the original"
    SUBTASKS = "ranges are planned for subtasks that are there"
    FINISHED_SUBTASKS = "a subtask that is finished is given no range any more, also behind a restore"
    FINISHED_SPLITS = "a split that is finished is planned no more"
    ONE_READER = "in one epoch a split is read by one subtask"
    BATCHES = "readers emit batches of values with as many timestamps or none, some ten thousand at a time"
    ENDS = "a reader tells where its range ended: which split, and how many records it emitted"
    BUDGET = "a range gives about as many records as it is asked for, at most"
    SAME_AGAIN = (
        "a range that is read again, by whatever reader, gives the same records and ends in the same place"
    )
    STOPS = "a reader that is told to stop loses nothing: what it did not emit comes with the next range"
    UNREAD = "what was planned and not read is planned again"
    PAUSED = "what was paused is read when it no longer is"
    ORDER = "records of a split come in the same order, however its ranges are cut"
    COMPLETE = "every record is read once, whatever the parallelism and the budget"
    RESTORED = "from the snapshot of any epoch, the records behind it follow, no more and no less"
    COMPLETED = (
        "from the last complete checkpoint the records behind it follow, whoever was told that it is complete"
    )
    RESCALED = "from the snapshot of any epoch, the records behind it follow at another parallelism too"
    ENDED = "a bounded source ends, and one that was restored at its end gives nothing"
    JOB = "a job that fails anywhere, and goes on from its last checkpoint, gives every record once"


class Reading(Enum):
    """How the ranges of an epoch are read."""

    WHOLE = "each range to its end"
    STOPPED = "each reader is told to stop with its first batch"
    FIRST_ONLY = "of each subtask only the first range, every other epoch"
    PAUSED = "half of the splits are paused every other epoch"


class SourceRun:
    """One run of a source from its beginning, or from a snapshot; sees that it keeps the rules meanwhile.

    Args:
        source: The source; a copy of it runs, as it arrives in another process.
        parallelism: Number of subtasks.
        budget: Records of a subtask in an epoch.
        scenario: What is being done, for messages.
        key: Gives what records are compared by.
        restored: A snapshot to go on from.
        finished: Subtasks that were finished when it was made, by an attempt of as many subtasks.
        reading: How ranges are read.
        rereads: Whether ranges are read a second time, by a reader that is asked for the other form of batches, and
            compared.
        columns: Whether readers are asked for columns.

    Attributes:
        read: What each subtask emitted, in order.
        splits: The same as (what it is compared by, timestamp), by split.
        epochs: Epochs so far.

    Example:
        >>> from millstream.testing import SourceRun
        >>> from millstream.connectors.number_sequence import NumberSequenceSource
        >>> first = SourceRun(NumberSequenceSource(1, 10), 2, 3)
        >>> plan = first.epoch()
        >>> first.read
        [[1, 2, 3], [6, 7, 8]]
        >>> SourceRun(NumberSequenceSource(1, 10), 1, 100, restored=first.snapshot()).run()
        [4, 5, 9, 10]
    """

    def __init__(
        self,
        source: Source,
        parallelism: int,
        budget: int,
        *,
        scenario: str = "by hand",
        key: KeyOf = as_text,
        restored: Any = None,
        finished: Collection[int] = (),
        reading: Reading = Reading.WHOLE,
        rereads: bool = False,
        columns: bool = False,
    ) -> None:
        self.scenario = scenario
        self._source: Source = travel(source, SourceRule.TRAVELS, scenario)
        self._parallelism = parallelism
        self._budget = budget
        self._key = key
        self._reading = reading
        self._rereads = rereads
        self._columns = columns
        self._enumerator: SplitEnumerator = self._source.build_enumerator(parallelism, restored)
        self._readers = [self._open_reader(index, columns=columns) for index in range(parallelism)]
        self._retired = frozenset(finished)
        self._finished: set[int] = set()
        self._finished_splits: set[str] = set()
        self._idle_plans = 0
        self._now_ms = 1_000
        self.read: list[list[Any]] = [[] for _ in range(parallelism)]
        self.splits: dict[str, list[tuple[Any, Any]]] = {}
        self.epochs = 0

    @property
    def has_ended(self) -> bool:
        """Whether all subtasks are finished."""
        return len(self._finished) == self._parallelism

    @property
    def is_silent(self) -> bool:
        """Whether nothing has come for a while."""
        return self._idle_plans > _SILENT_PLANS

    @property
    def finished(self) -> frozenset[int]:
        """Subtasks that are finished."""
        return frozenset(self._finished)

    @property
    def records(self) -> list[tuple[Any, Any]]:
        """All that was read."""
        return [record for records in self.splits.values() for record in records]

    def violate(self, rule: SourceRule, seen: str) -> ContractViolation:
        """Return the error that says that a rule is broken."""
        return ContractViolation(rule, f"{self.scenario}, epoch {self.epochs}", seen)

    def snapshot(self) -> Any:
        """Return the enumerator's snapshot as it comes back from a checkpoint."""
        return travel(self._enumerator.snapshot(), SourceRule.TRAVELS, self.scenario)

    def complete(self, checkpoint_id: int, *, readers: bool = True) -> None:
        """Tell the enumerator, and the readers, that a checkpoint with its last snapshot is complete."""
        self._enumerator.checkpoint_completed(checkpoint_id)
        if readers:
            for reader in self._readers:
                reader.checkpoint_completed(checkpoint_id)

    def run(self, *, until: Callable[[], bool] = lambda: False) -> list[Any]:
        """Run epochs until the source has ended, or somebody says that it is enough, then close it.

        Args:
            until: Says so.

        Returns:
            What was read, subtask by subtask.

        Raises:
            ContractViolation: If a rule is broken; if nothing comes any more and it does not end.
        """
        while not self.has_ended and not until():
            self.epoch()
        self.close()
        return [value for values in self.read for value in values]

    def epoch(self, now_ms: int | None = None) -> SourcePlan:
        """Plan and read one epoch.

        Args:
            now_ms: Its processing time; None has some time pass, as much as the source asks for.

        Returns:
            What was planned.
        """
        self.epochs += 1
        if now_ms is not None:
            self._now_ms = now_ms
        paused = self._choose_paused()
        plan = self._enumerator.plan(PlanRequest(self._parallelism, self._budget, self._now_ms, paused))
        self._check_plan(plan)
        ends: list[RangeEnd] = []
        left_early: set[int] = set()
        for subtask, ranges in plan.ranges.items():
            chosen = self._choose(ranges, paused)
            read = self._read_ranges(subtask, chosen)
            ends += read
            stopped = self._reading is Reading.STOPPED and not all(end.finished for end in read)
            if len(chosen) < len(ranges) or stopped:
                left_early.add(subtask)
        self._enumerator.advance(ends)
        self._finished_splits.update(end.split_id for end in ends if end.finished)
        self._finished |= plan.finished - left_early
        self._note_progress(plan, ends, rests=bool(left_early))
        return plan

    def _choose_paused(self) -> frozenset[str]:
        if self._reading is not Reading.PAUSED or self.epochs % 2:
            return frozenset()
        return frozenset(sorted(self.splits)[self.epochs // 2 % 2 :: 2])

    def _choose(self, ranges: Sequence[SplitRange], paused: frozenset[str]) -> Sequence[SplitRange]:
        """Return the ranges of a subtask that are read in this epoch."""
        if self._reading is Reading.FIRST_ONLY and self.epochs % 2:
            return ranges[:1] if self.epochs % 4 == 1 else []
        return [each for each in ranges if each.split_id not in paused]

    def _note_progress(self, plan: SourcePlan, ends: Sequence[RangeEnd], *, rests: bool) -> None:
        moved = rests or any(end.records or end.finished for end in ends)
        self._idle_plans = 0 if moved else self._idle_plans + 1
        if self._idle_plans > _MOST_IDLE_PLANS and not self.has_ended:
            raise self.violate(
                SourceRule.ENDED,
                f"nothing came in {_MOST_IDLE_PLANS} epochs, and subtasks "
                f"{sorted(set(range(self._parallelism)) - self._finished)} are not finished",
            )
        later_ms = plan.next_ms if plan.next_ms is not None and not moved else self._now_ms
        self._now_ms = max(later_ms, self._now_ms + _POLL_MS)

    def _check_plan(self, plan: SourcePlan) -> None:
        indexes = {*plan.ranges, *plan.finished}
        if not indexes <= set(range(self._parallelism)):
            raise self.violate(SourceRule.SUBTASKS, f"subtasks {sorted(indexes)} of {self._parallelism}")
        readers: dict[str, int] = {}
        for subtask, ranges in plan.ranges.items():
            if ranges and (subtask in self._finished or subtask in self._retired):
                raise self.violate(
                    SourceRule.FINISHED_SUBTASKS, f'subtask {subtask} and split "{ranges[0].split_id}"'
                )
            for each in ranges:
                if each.split_id in self._finished_splits:
                    raise self.violate(SourceRule.FINISHED_SPLITS, f'split "{each.split_id}"')
                if readers.setdefault(each.split_id, subtask) != subtask:
                    raise self.violate(
                        SourceRule.ONE_READER,
                        f'split "{each.split_id}" was planned for subtasks {readers[each.split_id]} and {subtask}',
                    )

    def _open_reader(self, subtask: int, *, columns: bool) -> SourceReader:
        reader = self._source.build_reader(subtask, self._parallelism)
        reader.context = SourceReaderContext()
        reader.wants_columns = columns
        reader.open()
        return reader

    def _read_ranges(self, subtask: int, ranges: Sequence[SplitRange]) -> list[RangeEnd]:
        ends = []
        for each in ranges:
            travelled: SplitRange = travel(each, SourceRule.TRAVELS, self.scenario)
            end, records = self._read(self._readers[subtask], travelled, self.read[subtask])
            if self._rereads:
                self._read_again(subtask, travelled, end, records)
            self.splits.setdefault(each.split_id, []).extend(records)
            ends.append(travel(end, SourceRule.TRAVELS, self.scenario))
        return ends

    def _read(
        self, reader: SourceReader, split_range: SplitRange, values: list[Any]
    ) -> tuple[RangeEnd, list[tuple[Any, Any]]]:
        records: list[tuple[Any, Any]] = []

        def emit(batch: Batch) -> bool:
            self._check_batch(batch)
            rows = batch.to_rows()
            stamps = [None] * len(rows) if rows.timestamps is None else rows.timestamps
            records.extend(zip(map(self._key, rows.values), stamps, strict=True))
            values.extend(rows.values)
            return self._reading is not Reading.STOPPED

        end = reader.read(split_range, emit)
        if end.split_id != split_range.split_id or end.records != len(records):
            raise self.violate(
                SourceRule.ENDS,
                f'a range of split "{split_range.split_id}" emitted {len(records)} records, and ended with {end}',
            )
        if len(records) > split_range.max_records + _SLACK_RECORDS:
            raise self.violate(
                SourceRule.BUDGET,
                f"{len(records)} records of a range with max_records={split_range.max_records}",
            )
        return end, records

    def _check_batch(self, batch: Any) -> None:
        if not isinstance(batch, (Rows, Columns)) or len(batch) > _MOST_IN_BATCH or batch.marks is not None:
            raise self.violate(SourceRule.BATCHES, f"{shorten(batch)}")
        if batch.timestamps is not None and len(batch.timestamps) != len(batch):
            raise self.violate(
                SourceRule.BATCHES, f"{len(batch)} values with {len(batch.timestamps)} timestamps"
            )

    def _read_again(
        self, subtask: int, split_range: SplitRange, end: RangeEnd, records: list[tuple[Any, Any]]
    ) -> None:
        other = self._open_reader(subtask, columns=HAS_ARROW and not self._columns)
        again, same = self._read(other, split_range, [])
        other.close()
        both = min(len(records), len(same))
        if records[:both] != same[:both]:
            place = next(i for i in range(both) if records[i] != same[i])
            raise self.violate(
                SourceRule.SAME_AGAIN,
                f'record {place} of a range of split "{split_range.split_id}" was {records[place]}, then {same[place]}',
            )
        # Without a stop a reader may end sooner, or later, as it likes.
        if split_range.stop is not None and again != end:
            raise self.violate(SourceRule.SAME_AGAIN, f"it ended at {end}, then at {again}")

    def close(self) -> None:
        """Close readers and enumerator."""
        for reader in self._readers:
            reader.close()
        self._enumerator.close()
