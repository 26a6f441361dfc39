"""The contract of sources (after FLIP-27, cut for epochs).

A source has a declared half, `Source`, and two running ones. On the driver a `SplitEnumerator` discovers
splits and, for each epoch, plans **ranges**: which part of which split each subtask reads. In the slot a
`SourceReader` reads one range after the other. A range says where it starts; where it ends is fixed by
`stop` if the system knows (a Kafka offset), else by `max_records`, and then the reader tells what it reached.
Either way the position goes into the epoch's report, and from there into the next plan and checkpoint, so a
replay starts from exactly the same record.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from enum import Enum
from typing import Any, ClassVar

from millstream.metrics.groups import MetricGroup
from millstream.spi.batch import Batch
from millstream.spi.versions import FIRST_VERSION, refuse_version
from millstream.types.basic import TypeInformation

__all__ = [
    "Boundedness",
    "EmitBatch",
    "Pending",
    "PlanRequest",
    "RangeEnd",
    "Source",
    "SourcePlan",
    "SourceReader",
    "SourceReaderContext",
    "SplitEnumerator",
    "SplitRange",
]

EmitBatch = Callable[[Batch], bool]
"""Takes a batch: values and their timestamps (epoch milliseconds) or None; it belongs to the callee.

Returns whether the reader is to go on. If not, the epoch's time or space is used up: what was emitted is kept, and
a reader does well to end the range there and tell where. One that goes on loses nothing but memory.
"""


class Boundedness(Enum):
    """Whether a source ends.

    Example:
        >>> from millstream.connectors.number_sequence import NumberSequenceSource
        >>> NumberSequenceSource(1, 10).get_boundedness()
        <Boundedness.BOUNDED: 'bounded'>
    """

    BOUNDED = "bounded"
    CONTINUOUS_UNBOUNDED = "unbounded"


@dataclass(frozen=True, slots=True)
class SplitRange:
    """Part of a split, to be read by one subtask in one epoch.

    Attributes:
        split_id: Names the split, unique within the source.
        split: What the reader needs to find it (a path, a partition); picklable and small.
        start: Position of the first record; None for the split's beginning. Its meaning is the source's own.
        stop: Position behind the last record; None if only `max_records` ends the range.
        max_records: Read at most about so many records.
        sequential: Whether it is begun only after the ranges before it are finished, as files are: it holds
            the watermark back only from then on. Others (partitions) do from the moment they are planned.

    Example:
        >>> from millstream.spi.source import SplitRange
        >>> part = SplitRange("a.txt", "/data/a.txt", start=0, stop=4_096, max_records=1_000)
        >>> part.split_id, part.start, part.stop
        ('a.txt', 0, 4096)
    """

    split_id: str
    split: Any
    start: Any = None
    stop: Any = None
    max_records: int = 1_000_000
    sequential: bool = False


@dataclass(frozen=True, slots=True)
class RangeEnd:
    """Where a range was left.

    Attributes:
        split_id: The split.
        position: Position behind the last record read.
        finished: Whether nothing will ever follow in this split.
        records: How many records were read.

    Example:
        >>> from millstream.spi.source import RangeEnd
        >>> RangeEnd("orders-0", position=1_200, finished=False, records=200).position
        1200
    """

    split_id: str
    position: Any
    finished: bool
    records: int


@dataclass(frozen=True, slots=True)
class PlanRequest:
    """What the engine asks of an enumerator for one epoch.

    Attributes:
        parallelism: Number of source subtasks.
        max_records: Budget of each subtask.
        now_ms: The epoch's processing time, epoch milliseconds.
        paused: Splits to plan no ranges of, because they are ahead of others (watermark alignment). What is
            planned of them all the same is not read, and has to be planned again; an enumerator that heeds them
            gives their share of the budget to others.

    Example:
        >>> from millstream.connectors.number_sequence import NumberSequenceSource
        >>> from millstream.spi.source import PlanRequest
        >>> enumerator = NumberSequenceSource(1, 10).build_enumerator(2, None)
        >>> plan = enumerator.plan(PlanRequest(parallelism=2, max_records=3, now_ms=0))
        >>> sorted(plan.ranges), plan.backlog
        ([0, 1], True)
    """

    parallelism: int
    max_records: int
    now_ms: int
    paused: frozenset[str] = frozenset()


@dataclass(frozen=True, slots=True)
class SourcePlan:
    """What each source subtask reads in one epoch.

    Attributes:
        ranges: Ranges by subtask index; a subtask that is not there reads nothing.
        finished: Subtasks that will get nothing after this epoch.
        backlog: Whether more could have been planned: the next epoch may start at once and be larger.
        next_ms: When it is worth asking again, epoch milliseconds; None if nothing is known.

    Example:
        >>> from millstream.spi.source import SourcePlan, SplitRange
        >>> plan = SourcePlan(ranges={0: [SplitRange("lines", "/data/a.txt", start=0, max_records=100)]})
        >>> [each.split for each in plan.ranges[0]], plan.backlog
        (['/data/a.txt'], False)
    """

    ranges: Mapping[int, Sequence[SplitRange]] = field(default_factory=dict)
    finished: frozenset[int] = frozenset()
    backlog: bool = False
    next_ms: int | None = None


@dataclass(frozen=True, slots=True)
class Pending:
    """What waits outside, in a source's splits, to be read.

    Attributes:
        records: How many records, by subtask; empty if that is not known.
        bytes: How many bytes, by subtask; empty if that is not known.
        splits: How many splits that are assigned and not finished, by subtask; empty if that is not known.
        unassigned_splits: How many splits that no subtask has yet; None if that is not known.

    Example:
        >>> from millstream.spi.source import Pending
        >>> waiting = Pending(records={0: 1_200, 1: 80}, unassigned_splits=3)
        >>> sum(waiting.records.values()), waiting.bytes
        (1280, {})
    """

    records: Mapping[int, int] = field(default_factory=dict)
    bytes: Mapping[int, int] = field(default_factory=dict)
    splits: Mapping[int, int] = field(default_factory=dict)
    unassigned_splits: int | None = None


class SplitEnumerator(ABC):
    """Plans what is read. Lives on the driver; one thread calls it.

    Example:
        >>> from millstream.connectors.number_sequence import NumberSequenceSource
        >>> from millstream.spi.source import PlanRequest, RangeEnd, SplitEnumerator
        >>> enumerator: SplitEnumerator = NumberSequenceSource(1, 10).build_enumerator(1, None)
        >>> first = enumerator.plan(PlanRequest(parallelism=1, max_records=4, now_ms=0)).ranges[0][0]
        >>> first.start, first.stop
        (0, 4)
    """

    @abstractmethod
    def plan(self, request: PlanRequest) -> SourcePlan:
        """Plan one epoch; called once before each, after `advance` of the one before."""

    @abstractmethod
    def advance(self, ends: Sequence[RangeEnd]) -> None:
        """Take note of where the last epoch's ranges were left."""

    @abstractmethod
    def snapshot(self) -> Any:
        """Return the positions behind everything that `advance` was told; picklable, for a checkpoint."""

    def checkpoint_completed(self, checkpoint_id: int) -> None:
        """Learn that a checkpoint is complete that holds what `snapshot` gives now: nothing was planned since.

        Called at most once for each checkpoint, in order, while sinks may still be committing what it holds: a later
        attempt goes on with that. The last checkpoint of a job and the savepoint that it stops with count; a
        savepoint of a job that goes on does not. If the attempt fails in between it is not called: what it does has to
        be done by the next call as well.

        Here a source tells others how far it has been read (offsets of a consumer group, a replication slot); the job
        itself goes on from its checkpoints. So what it raises is logged and does not fail the job. The next epoch
        waits for it.
        """

    def pending(self) -> Pending:
        """Return what was there when `plan` was called last and `advance` was not told of: for metrics.

        Called about once a second; asks nobody. By default nothing is known.
        """
        return Pending()

    def close(self) -> None:
        """Release what the enumerator holds."""


def _drop(tag_id: str, batch: Batch) -> None:
    """Nobody reads it."""


@dataclass(frozen=True, slots=True)
class SourceReaderContext:
    """What a reader may use of where it runs; by default nowhere in particular, for readers that are run by hand.

    Attributes:
        metrics: The operator's group: a reader makes metrics of its own in it.
        emit_side: Hands a batch to the side output with an id. It comes before what is emitted later, in the same
            range, and as often as that does if the job fails: what belongs to records has to be emitted in the range
            that they are read in.
        side_outputs: Ids of the side outputs that somebody reads; None if that is not known.

    Example:
        >>> from millstream.spi.source import SourceReaderContext
        >>> context = SourceReaderContext()
        >>> skipped = context.metrics.counter("skippedLines")
        >>> skipped.inc(2)
        >>> skipped.get_count()
        2
    """

    metrics: MetricGroup = field(default_factory=lambda: MetricGroup(lambda: 0))
    emit_side: Callable[[str, Batch], None] = _drop
    side_outputs: frozenset[str] | None = None


class SourceReader(ABC):
    """Reads ranges. Lives in the slot for the whole attempt; one thread calls it.

    Attributes:
        context: Set before `open`: metrics and side outputs.
        gives_away: Whether records that can be changed are referred to by nothing but the lists they are emitted in;
            if not, they are looked at, and copied where they are not.
        wants_columns: Set before `open`: whether what follows does best with columns. A reader that decodes columns
            anyway emits them then; any reader may emit either form at any time.

    Example:
        >>> from millstream.spi.batch import Rows
        >>> from millstream.spi.source import RangeEnd, SourceReader, SplitRange
        >>> class Countdown(SourceReader):
        ...     def read(self, split_range, emit):
        ...         left = split_range.split if split_range.start is None else split_range.start
        ...         numbers = list(range(left, max(0, left - split_range.max_records), -1))
        ...         emit(Rows(numbers))
        ...         left -= len(numbers)
        ...         return RangeEnd(split_range.split_id, left, left == 0, len(numbers))
        >>> seen = []
        >>> Countdown().read(SplitRange("from 5", 5, max_records=3), seen.append)
        RangeEnd(split_id='from 5', position=2, finished=False, records=3)
        >>> seen[0].values
        [5, 4, 3]
    """

    context: SourceReaderContext
    gives_away: bool = False
    wants_columns: bool = False

    def open(self) -> None:
        """Called once, before the first range."""

    def checkpoint_completed(self, checkpoint_id: int) -> None:
        """Learn that a checkpoint is complete: it holds all that this reader has read until now.

        Called with the next epoch, before anything is read, or before `close` if there is none; otherwise as
        `SplitEnumerator.checkpoint_completed`. What it raises is logged and does not fail the job.
        """

    @abstractmethod
    def read(self, split_range: SplitRange, emit: EmitBatch) -> RangeEnd:
        """Read one range, in batches of at most some ten thousand records, and tell where it ended.

        It ends where `emit` says so, too: at any position behind what was emitted.

        Raises:
            SourceError: If the split cannot be read.
            MalformedRecordError: If a record does not parse; names file, line and column.
        """

    def close(self) -> None:
        """Called once, at the end of the attempt."""


class Source(ABC):
    """What a user declares: small, immutable, picklable.

    Attributes:
        snapshot_version: Of which form the enumerator's snapshots are; count it up when the form changes.

    Example:
        >>> from millstream.datastream.connectors.base import Source
        >>> from millstream.connectors.number_sequence import NumberSequenceSource
        >>> from millstream.testing import SourceRun
        >>> source: Source = NumberSequenceSource(1, 6)
        >>> source.get_boundedness().name
        'BOUNDED'
        >>> sorted(SourceRun(source, 2, 100).run())
        [1, 2, 3, 4, 5, 6]
    """

    snapshot_version: ClassVar[int] = FIRST_VERSION

    @abstractmethod
    def get_boundedness(self) -> Boundedness:
        """Return whether the source ends."""

    @abstractmethod
    def build_enumerator(self, parallelism: int, restored: Any | None) -> SplitEnumerator:
        """Make the enumerator, from a snapshot if there is one.

        Raises:
            SourceError: If the source is not there (a missing file): before the job starts.
        """

    @abstractmethod
    def build_reader(self, subtask_index: int, parallelism: int) -> SourceReader:
        """Make the reader of one subtask."""

    def upgrade_snapshot(self, version: int, snapshot: Any) -> Any:
        """Make a snapshot of today's form of an older one; called on the driver, before `build_enumerator`.

        Args:
            version: Of which form it is: lower than `snapshot_version`.
            snapshot: What an enumerator of that form gave.

        Raises:
            StateIncompatibleError: If there is no way; by default always.
        """
        refuse_version(
            f'snapshot of source "{type(self).__name__}"', version, self.snapshot_version, "upgrade_snapshot"
        )

    def max_parallelism(self) -> int | None:
        """Return how many subtasks can share the source at most; None for any number."""
        return None

    def get_produced_type(self) -> TypeInformation | None:
        """Return the type that all records have; None if it is not known before the job runs.

        It is the type of the source's stream, which is what `print()` and formats go by. Records are not checked
        against it: that they have it is the source's promise.
        """
        return None
