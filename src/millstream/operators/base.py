"""The life of an operator.

Declared half and running half: an `OperatorSpec` is what the graph holds and what travels to the slots; its
`build()` makes the `Operator` that lives in a slot for the whole attempt. One thread calls an operator::

    setup ─► open ─► { process | process_watermark | process_marked | process_status | on_processing_time }*
                     end_epoch (once in each epoch, after its last element)
                     end_input (once, after the last element of all)          ─► close

Operators take whole batches and hand whole batches on, by direct calls down the chain. They know neither
Spark nor the runtime nor where their output goes.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from millstream.base.time import MIN_TIMESTAMP
from millstream.common.accumulators import Accumulators
from millstream.common.watermark_strategy import WatermarkStrategy
from millstream.metrics.groups import MetricGroup, MetricName, MetricValue
from millstream.operators.budget import WorkBudget
from millstream.spi.batch import Batch, LatencyMarker, StreamStatus
from millstream.spi.sink import Sink
from millstream.spi.source import Source
from millstream.spi.versions import FIRST_VERSION

if TYPE_CHECKING:
    from millstream.operators.combining import Combiner
    from millstream.operators.latency import LatencyTracker
    from millstream.operators.split_time import SplitTime
    from millstream.state.keyed import KeyedStateBackend
    from millstream.state.operator_state import OperatorStateBackend
    from millstream.state.snapshots import Entries, KeyedStatePatch, StateChanges, States

__all__ = [
    "EpochTime",
    "Operator",
    "OperatorContext",
    "OperatorReport",
    "OperatorSpec",
    "Output",
    "OwnEntries",
    "Reach",
    "RestoreScope",
    "connector_name",
]


class Output(ABC):
    """Where an operator hands its results; the batches given belong to the receiver.

    Attributes:
        records_out: Records handed on so far, to side outputs too.
    """

    records_out: int = 0

    @property
    def wants_columns(self) -> bool:
        """Whether a reader of the main output does best with columns; known when all of them are open."""
        return False

    @abstractmethod
    def emit(self, batch: Batch) -> None:
        """Hand on a batch; empty ones are allowed.

        A watermark between its records counts as one that is handed on there.
        """

    @abstractmethod
    def emit_side(self, tag_id: str, batch: Batch) -> None:
        """Hand a batch without watermarks between its records to a side output; dropped if nobody reads it."""

    @abstractmethod
    def emit_watermark(self, timestamp_ms: int) -> None:
        """Hand on a watermark; must be larger than the last one."""

    @abstractmethod
    def emit_status(self, status: StreamStatus) -> None:
        """Tell that the stream went idle or active."""

    def emit_latency_marker(self, marker: LatencyMarker) -> None:
        """Hand on a latency marker; outputs that nobody measures drop it."""


def _never() -> bool:
    return False


@dataclass(slots=True)
class EpochTime:
    """Processing time as operators see it: fixed for an epoch, given by the driver.

    Attributes:
        now_ms: Epoch milliseconds.
        final: Whether this is the job's last epoch: no source gives any more, and nothing goes round.
        is_cancelled: Tells whether the job is being cancelled; an operator that waits asks now and then.
    """

    now_ms: int = 0
    final: bool = False
    is_cancelled: Callable[[], bool] = _never


@dataclass(slots=True)
class OperatorReport:
    """What an operator tells the driver at the end of an epoch.

    Attributes:
        lines: Lines for the driver's standard output (the print sink), in order.
        stderr: Whether the lines go to standard error instead.
        collected: Records for `execute_and_collect`.
        committables: For the sink's committer.
        range_ends: Positions of a source, `spi.source.RangeEnd`.
        ranges_left_early: Whether a source has not read all that was planned, so it has not finished either.
        counters: Counts of this epoch by name, such as `late_records_dropped`.
        max_timestamp_ms: Largest timestamp that it gave to a record; None if it gives none.
        splits: Event time of the splits of a source (or of an operator that makes watermarks) that changed.
        made_watermark_ms: The watermark that such an operator emitted last; None if it emitted none in this
            epoch.
        metrics: Metrics that changed; filled in by the runtime.
        accumulators: Class name and pickled accumulator of those that changed; filled in by the runtime.
        latency: Histograms of latency markers that changed; filled in by the runtime.
    """

    lines: list[str] = field(default_factory=list)
    stderr: bool = False
    collected: list[Any] = field(default_factory=list)
    committables: list[Any] = field(default_factory=list)
    range_ends: list[Any] = field(default_factory=list)
    ranges_left_early: bool = False
    counters: dict[str, int] = field(default_factory=dict)
    max_timestamp_ms: int | None = None
    splits: list[SplitTime] = field(default_factory=list)
    made_watermark_ms: int | None = None
    metrics: dict[MetricName, MetricValue] = field(default_factory=dict)
    accumulators: dict[str, tuple[str, bytes]] = field(default_factory=dict)
    latency: Mapping[MetricName, MetricValue] = field(default_factory=dict)


@dataclass(slots=True)
class OperatorContext:
    """What an operator may know of where it runs.

    Attributes:
        job_id: Unique for each run of a job.
        name: The operator's name.
        operator_id: Its stable id, from its uid or its place in the graph.
        subtask_index: From 0.
        parallelism: Of the operator.
        max_parallelism: Number of key groups.
        attempt: Number of the attempt, from 0.
        time: The epoch's processing time.
        keyed_state: State by key; None if the input is not keyed.
        operator_state: State of the subtask: lists and broadcast maps; None only where an operator is built
            by hand without it.
        job_parameters: Global job parameters.
        side_outputs: Ids of the side outputs that somebody reads.
        cached_files: Path of each file of the distributed cache, by name.
        batch: Whether the job runs in batch mode: results once, the only watermark is the final one.
        accumulators: Those that the user's function registers.
        budget: How much of its input the subtask processes in an epoch; without limits where an operator is built
            by hand.
        checkpoint_directory: Where the job's checkpoints are kept; None if no directory was named.
        metrics: The group of the user's metrics.
        generation: Tells drivers of the same job apart, larger for later ones.
        latency: Makes and takes latency markers; None if latency is not measured.
    """

    job_id: str
    name: str
    operator_id: str
    subtask_index: int
    parallelism: int
    max_parallelism: int
    attempt: int
    time: EpochTime
    keyed_state: KeyedStateBackend | None = None
    job_parameters: Mapping[str, str] = field(default_factory=dict)
    side_outputs: frozenset[str] = frozenset()
    cached_files: Mapping[str, str] = field(default_factory=dict)
    batch: bool = False
    operator_state: OperatorStateBackend | None = None
    accumulators: Accumulators = field(default_factory=Accumulators)
    budget: WorkBudget = field(default_factory=WorkBudget)
    checkpoint_directory: str | None = None
    metrics: MetricGroup = field(init=False)
    generation: int = 0
    latency: LatencyTracker | None = None

    def __post_init__(self) -> None:
        self.metrics = MetricGroup(lambda: self.time.now_ms)


@dataclass(frozen=True, slots=True)
class RestoreScope:
    """Which part of a snapshot a subtask takes over.

    Attributes:
        written_by: The subtask that the snapshot is of.
        subtask_index: The subtask that takes over.
        parallelism: How many subtasks take over.
        owns: Whether a key belongs to the subtask that takes over.
        rescaled: Whether another number of subtasks had been there: what comes from several is put together.
        version: Of which form the snapshot of a connector is.
    """

    written_by: int
    subtask_index: int
    parallelism: int
    owns: Callable[[Any], bool]
    rescaled: bool = False
    version: int = FIRST_VERSION

    @property
    def adopts(self) -> bool:
        """Whether what is in the snapshot and belongs to no key goes to this subtask, and to no other."""
        return self.written_by % self.parallelism == self.subtask_index


OwnEntries = tuple[str, Any, Iterable[tuple[Any, Any]]]
"""Name, namespace, and entries by key."""

BatchHandler = Callable[[Any], None]
"""Takes a batch, which is its own then: `Rows`, or any `Batch` if the operator takes columns."""

Reach = Callable[[int], bool]
"""Has an operator's event time advance, and returns whether it has: `advance_watermark` or `reach_watermark`."""


class Operator(ABC):
    """One operator of one subtask; see the module's picture for the order of calls.

    Attributes:
        context: Where it runs.
        output: Where its results go.
        watermark_ms: Its event time.
        records_in: Records of all inputs so far; counted by the runtime.
    """

    context: OperatorContext
    output: Output
    watermark_ms: int = MIN_TIMESTAMP
    records_in: int = 0

    def setup(self, context: OperatorContext, output: Output) -> None:
        """Be told where it runs and where results go; called once, first."""
        self.context = context
        self.output = output

    def open(self) -> None:
        """Start: open the user's function; called once."""

    @abstractmethod
    def process(self, batch: Any) -> None:
        """Process a batch of the first input, without watermarks between its records.

        Args:
            batch: `Rows`; any `Batch` if the spec says `takes_columns`.
        """

    @property
    def wants_columns(self) -> bool:
        """Whether it does best with columns, if its spec says that it takes them; asked once it is open."""
        return True

    def batch_handlers(self) -> list[BatchHandler]:
        """Return one handler for each input, in order; most operators have one input."""
        return [self.process]

    def process_watermark(self, timestamp_ms: int) -> None:
        """Advance event time: fire what is due, then hand the watermark on."""
        self.watermark_ms = timestamp_ms
        self.output.emit_watermark(timestamp_ms)

    def advance_watermark(self, timestamp_ms: int) -> bool:
        """Advance event time as `process_watermark` does, but in an epoch's budget, if that is possible.

        Called of the first operator of a chain. What is due and was not fired is fired when this is called again, in
        the next epoch, before anything else comes; until then the watermark is not there, also in checkpoints.

        Returns:
            Whether the watermark is there.
        """
        return self.reach_watermark(timestamp_ms)

    def reach_watermark(self, timestamp_ms: int) -> bool:
        """Advance event time as `process_watermark` does; returns True: the watermark is there."""
        self.process_watermark(timestamp_ms)
        return True

    def process_marked(self, batch: Any, reach: Reach) -> int | None:
        """Process a batch of the only input that has watermarks between its records; here: by cutting it there.

        Operators that can tell which of the watermarks matter to them process it whole; what they hand on is the
        same.

        Args:
            batch: The records, and the watermarks between them; in the forms that `process` takes.
            reach: Advances this operator's event time.

        Returns:
            None if all is processed. Else the index of the watermark that is not there yet, and has to be reached
            before the records behind it, which were not touched, and the watermarks behind it are processed.
        """
        marks = batch.marks
        assert marks is not None, "a batch without watermarks between its records"
        whole, count, start = batch.unmarked(), len(batch), 0
        for index, (position, watermark_ms) in enumerate(zip(*marks, strict=True)):
            if position > start:
                self.process(whole.cut(start, position))
                start = position
            if not reach(watermark_ms):
                return index
        if start < count:
            self.process(whole.cut(start, count))
        return None

    def process_status(self, status: StreamStatus) -> None:
        """Learn that all inputs are idle, or one is active again."""
        self.output.emit_status(status)

    def process_latency_marker(self, marker: LatencyMarker) -> None:
        """Note how long a marker took from its source, and hand it on."""
        if self.context.latency is not None:
            self.context.latency.take(marker)

    def on_processing_time(self) -> None:
        """Fire processing-time timers that are due at `context.time.now_ms`; called as an epoch begins."""

    def next_processing_time(self) -> int | None:
        """Return when the next processing-time timer is due, epoch milliseconds, or None."""
        return None

    @property
    def held(self) -> int:
        """Records that it took in and has no room to begin: sources wait until there are few."""
        return 0

    @property
    def in_flight(self) -> int:
        """Records that it took in and waits with for something outside, such as a call; they end in later epochs."""
        return 0

    def flush(self) -> None:
        """Work on what waits for the end of the epoch, and emit what comes of it; here: nothing waits."""

    def end_epoch(self, report: OperatorReport, *, checkpoint: bool) -> None:
        """End an epoch: flush what is buffered and fill in the report."""

    def end_input(self) -> None:
        """Learn that no element will follow; called before the last `end_epoch`."""

    def snapshot_state(self) -> Any:
        """Return what the operator itself keeps, beside keyed and operator state and entries; None for nothing.

        Written whole at each checkpoint, so what grows with the number of keys belongs to `snapshot_entries`.
        Picklable; called between batches, may share live objects.
        """
        return None

    def restore_state(self, snapshot: Any, scope: RestoreScope) -> None:
        """Take over what `snapshot_state` gave, before `open`; called for each old subtask that may matter."""

    def snapshot_entries(self) -> Iterable[OwnEntries]:
        """Return what the operator itself keeps by key: (name, namespace, [(key, entry)]).

        Picklable; called between batches, may share live objects. A (name, namespace) may come more than once.
        """
        return ()

    def changed_entries(self, changes: StateChanges) -> bool:
        """Add what changed in `snapshot_entries` since `forget_changes` was called.

        Returns:
            Whether that is all of it; if not, a snapshot is written, and what was added does not count.
        """
        return False

    def snapshot_groups(self) -> Iterator[tuple[int, States]] | None:
        """Return what `snapshot_entries` does, by key group and in portions, where it lies so; None if it does not."""
        return None

    def changed_groups(self) -> Iterator[tuple[int, KeyedStatePatch]] | None:
        """Return what `changed_entries` adds, by key group and in portions; None if that is to be asked instead."""
        return None

    def forget_changes(self) -> None:
        """Take what `snapshot_entries` gives now as what is known: it has been given for a checkpoint."""

    def restore_entries(self, name: str, entries: Entries) -> None:
        """Take over entries of keys of this subtask, after `restore_state` of the old subtask that they are of.

        Called before `open`, several times.
        """

    def abort(self) -> None:
        """The attempt failed: remove what was staged outside; `close` follows."""

    def close(self) -> None:
        """Stop: close the user's function; called once, also after a failure."""


class OperatorSpec(ABC):
    """What the graph holds for an operator: small, immutable, picklable by cloudpickle.

    Attributes:
        is_source: Whether it has no input and reads ranges.
        is_keyed: Whether it needs keyed state.
        takes_columns: Whether its operator takes batches in both forms; if not, columns are made rows before it.
        is_fed_back: Whether records come back to it from the end of an iteration.
        acts_on_time: Whether it may do something when time advances, such as fire timers.
        former_name: A class that is renamed gives the name it had first: checkpoints know it by that.
    """

    is_source: bool = False
    is_keyed: bool = False
    takes_columns: bool = False
    is_fed_back: bool = False
    acts_on_time: bool = True
    former_name: str = ""

    # What the graph and the runtime ask of an operator, so that they need not know its class.

    @property
    def reads(self) -> Source | None:
        """The source that it reads."""
        return None

    @property
    def writes(self) -> Sink | None:
        """The sink that its records go to."""
        return None

    @property
    def collects(self) -> str | None:
        """Under which name its records are brought to the driver."""
        return None

    @property
    def watermark_strategy(self) -> WatermarkStrategy | None:
        """How it makes watermarks, if it does so itself."""
        return None

    @property
    def waits_ms(self) -> int | None:
        """How long it gathers records before their event time has passed: milliseconds, 0 if that is not known.

        None if it does not wait for event time.
        """
        return None

    @property
    def feeds(self) -> int | None:
        """Node id of the operator that its records go back to."""
        return None

    @property
    def keeps_state(self) -> bool:
        """Whether a program that has changed has to find it again."""
        return self.is_keyed or self.is_source

    @property
    def kind(self) -> str:
        """What checkpoints and operator ids call such operators; never changes."""
        return self.former_name or type(self).__name__

    @property
    def state_form(self) -> str:
        """What state of its own it keeps, where that depends on more than its kind; empty if it does not.

        State is restored only by an operator of the same kind and form, so whatever makes an operator read another
        one's state wrongly belongs in here, and nothing else. Messages show it.
        """
        return ""

    @property
    def versions(self) -> Mapping[str, int]:
        """Of which forms its connector's parts of checkpoints are: `"snapshot"`, `"committable"`."""
        return {}

    def bring_up_driver_state(self, kept: Any, versions: Mapping[str, int]) -> Any:
        """Return what the driver keeps of it, from a checkpoint, in today's form.

        Args:
            kept: What the checkpoint holds.
            versions: What `versions` was then.

        Raises:
            StateIncompatibleError: If the connector does not read that form.
        """
        return kept

    def build_combiner(self) -> Combiner | None:
        """Make what puts records together before they are sent to it by key; None if every record has to come.

        What the operator gives must not depend on it.
        """
        return None

    @abstractmethod
    def build(self) -> Operator:
        """Make the running half."""


def connector_name(connector: object) -> str:
    """Return what tells one of our sources or sinks from the others; empty for a user's, which may be renamed.

    Checkpoints keep it: a class of ours that is renamed gives the name it had first as `former_name`.
    """
    kind = type(connector)
    if not kind.__module__.startswith("millstream."):
        return ""
    return getattr(kind, "former_name", "") or kind.__name__
