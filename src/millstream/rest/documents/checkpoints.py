"""Checkpoints and savepoints, as Flink's documents show them.

One file holds what a slot keeps for all vertices, so the size of one vertex' or subtask's state is not known: -1.
Nothing is in flight between two epochs, so what Flink measures of alignment is 0.
"""

from __future__ import annotations

from collections.abc import Sequence

from msgspec import UNSET, UnsetType, field

from millstream.rest.documents.base import UNKNOWN, Document, SnakeDocument, or_unknown
from millstream.rest.documents.statistics import percentile
from millstream.runtime.control.views import (
    CheckpointConfigView,
    CheckpointsView,
    CheckpointView,
    JobView,
    RestoredView,
    SummaryView,
    VertexView,
)

__all__ = [
    "Checkpoint",
    "CheckpointConfig",
    "CheckpointDetails",
    "CheckpointStatistics",
    "SubtaskCheckpoints",
    "checkpoint_config",
    "checkpoint_details",
    "checkpoint_statistics",
    "subtask_checkpoints",
]

_NOT_A_NUMBER = "NaN"
_NEVER_MS = 2**63 - 1
"""Flink's interval of a job that makes none."""
_BACKENDS = {"hashmap": "HashMapStateBackend", "rocksdb": "EmbeddedRocksDBStateBackend"}


class Counts(Document, frozen=True, kw_only=True):
    """How many there were."""

    restored: int
    total: int
    in_progress: int
    completed: int
    failed: int


class Summary(Document, frozen=True, kw_only=True):
    """A figure over checkpoints or subtasks."""

    min: int
    max: int
    avg: int
    p50: float | str
    p90: float | str
    p95: float | str
    p99: float | str
    p999: float | str


class Summaries(SnakeDocument, frozen=True, kw_only=True):
    """Figures over all completed checkpoints."""

    checkpointed_size: Summary
    state_size: Summary
    end_to_end_duration: Summary
    alignment_buffered: Summary
    processed_data: Summary
    persisted_data: Summary


class TaskCheckpoint(SnakeDocument, frozen=True, kw_only=True):
    """A vertex' part of a checkpoint."""

    id: int
    status: str
    latest_ack_timestamp: int
    checkpointed_size: int
    state_size: int
    end_to_end_duration: int
    alignment_buffered: int = 0
    processed_data: int = 0
    persisted_data: int = 0
    num_subtasks: int
    num_acknowledged_subtasks: int


class Checkpoint(SnakeDocument, frozen=True, kw_only=True):
    """A checkpoint or savepoint."""

    class_name: str = field(name="className")
    id: int
    status: str
    is_savepoint: bool
    savepoint_format: str | None = field(name="savepointFormat")
    trigger_timestamp: int
    latest_ack_timestamp: int
    checkpointed_size: int
    state_size: int
    end_to_end_duration: int
    alignment_buffered: int = 0
    processed_data: int = 0
    persisted_data: int = 0
    num_subtasks: int
    num_acknowledged_subtasks: int
    checkpoint_type: str
    tasks: dict[str, TaskCheckpoint]
    external_path: str | UnsetType = UNSET
    discarded: bool | UnsetType = UNSET
    failure_timestamp: int | UnsetType = UNSET
    failure_message: str | UnsetType = UNSET


class CheckpointDetails(Checkpoint, frozen=True, kw_only=True):
    """`/jobs/:jobid/checkpoints/details/:checkpointid`: with a part for each vertex."""


class Restored(SnakeDocument, frozen=True, kw_only=True):
    """What an attempt began from."""

    id: int
    restore_timestamp: int
    is_savepoint: bool
    external_path: str


class Latest(Document, frozen=True, kw_only=True):
    """The last of each kind."""

    completed: Checkpoint | None
    savepoint: Checkpoint | None
    failed: Checkpoint | None
    restored: Restored | None


class CheckpointStatistics(Document, frozen=True, kw_only=True):
    """`/jobs/:jobid/checkpoints`."""

    counts: Counts
    summary: Summaries
    latest: Latest
    history: list[Checkpoint]


class Externalization(SnakeDocument, frozen=True, kw_only=True):
    """Whether checkpoints stay when a job has ended."""

    enabled: bool
    delete_on_cancellation: bool


class CheckpointConfig(SnakeDocument, frozen=True, kw_only=True):
    """`/jobs/:jobid/checkpoints/config`."""

    mode: str
    interval: int
    timeout: int
    min_pause: int
    max_concurrent: int
    externalization: Externalization
    state_backend: str
    checkpoint_storage: str
    unaligned_checkpoints: bool = False
    tolerable_failed_checkpoints: int
    aligned_checkpoint_timeout: int = 0
    checkpoints_after_tasks_finish: bool = True
    state_changelog_enabled: bool = False
    changelog_periodic_materialization_interval: int = 0
    changelog_storage: str = "none"


class CheckpointDuration(Document, frozen=True, kw_only=True):
    """How long a subtask took: `sync` holds the epoch up, `async` is the rest."""

    sync: int
    in_background: int = field(name="async")


class CheckpointDurations(Document, frozen=True, kw_only=True):
    """Figures of that over subtasks."""

    sync: Summary
    in_background: Summary = field(name="async")


class Alignment(Document, frozen=True, kw_only=True):
    """What was in flight: nothing."""

    buffered: int = 0
    processed: int = 0
    persisted: int = 0
    duration: int = 0


class Alignments(Document, frozen=True, kw_only=True):
    """Figures of that over subtasks."""

    buffered: Summary
    processed: Summary
    persisted: Summary
    duration: Summary


class SubtaskSummaries(SnakeDocument, frozen=True, kw_only=True):
    """Figures over a vertex' subtasks."""

    checkpointed_size: Summary
    state_size: Summary
    end_to_end_duration: Summary
    checkpoint_duration: CheckpointDurations
    alignment: Alignments
    start_delay: Summary


class SubtaskCheckpoint(SnakeDocument, frozen=True, kw_only=True):
    """A subtask's part; only index and status before it is complete."""

    class_name: str = field(name="className")
    index: int
    status: str
    ack_timestamp: int | UnsetType = UNSET
    end_to_end_duration: int | UnsetType = UNSET
    checkpointed_size: int | UnsetType = UNSET
    state_size: int | UnsetType = UNSET
    checkpoint: CheckpointDuration | UnsetType = UNSET
    alignment: Alignment | UnsetType = UNSET
    start_delay: int | UnsetType = UNSET
    unaligned_checkpoint: bool | UnsetType = UNSET
    aborted: bool | UnsetType = UNSET


class SubtaskCheckpoints(TaskCheckpoint, frozen=True, kw_only=True):
    """`/jobs/:jobid/checkpoints/details/:checkpointid/subtasks/:vertexid`."""

    summary: SubtaskSummaries
    subtasks: list[SubtaskCheckpoint]


def checkpoint_statistics(view: CheckpointsView) -> CheckpointStatistics:
    """Return how many checkpoints there were, and the last of them."""
    counts = view.counts
    none = counts.completed == 0
    nothing = _zeros()
    restored = view.latest_restored
    return CheckpointStatistics(
        counts=Counts(
            restored=counts.restored,
            total=counts.triggered,
            in_progress=counts.in_progress,
            completed=counts.completed,
            failed=counts.failed,
        ),
        summary=Summaries(
            checkpointed_size=_summary(view.checkpointed_size, none=none),
            state_size=_summary(view.state_size, none=none),
            end_to_end_duration=_summary(view.duration_ms, none=none),
            alignment_buffered=nothing,
            processed_data=nothing,
            persisted_data=nothing,
        ),
        latest=Latest(
            completed=None if view.latest_completed is None else _checkpoint(view.latest_completed, {}),
            savepoint=None if view.latest_savepoint is None else _checkpoint(view.latest_savepoint, {}),
            failed=None if view.latest_failed is None else _checkpoint(view.latest_failed, {}),
            restored=None if restored is None else _restored(restored),
        ),
        history=[_checkpoint(each, {}) for each in view.history],
    )


def checkpoint_details(job: JobView, checkpoint: CheckpointView) -> CheckpointDetails:
    """Return one checkpoint with a part for each vertex."""
    tasks = {vertex.vertex_id: _task(checkpoint, vertex) for vertex in job.vertices}
    return _checkpoint(checkpoint, tasks, CheckpointDetails)


def subtask_checkpoints(checkpoint: CheckpointView, vertex: VertexView) -> SubtaskCheckpoints:
    """Return a vertex' part of a checkpoint with one for each subtask."""
    task = _task(checkpoint, vertex)
    writing = {slot.slot: slot.writing_ms for slot in checkpoint.slots}
    times = [writing[each.subtask] for each in vertex.subtasks if each.subtask in writing]
    return SubtaskCheckpoints(
        **{name: getattr(task, name) for name in TaskCheckpoint.__struct_fields__},
        summary=SubtaskSummaries(
            checkpointed_size=_summary_of([]),
            state_size=_summary_of([]),
            end_to_end_duration=_summary_of([checkpoint.duration_ms or 0] * len(times)),
            checkpoint_duration=CheckpointDurations(sync=_summary_of(times), in_background=_summary_of([])),
            alignment=Alignments(
                buffered=_zeros(), processed=_zeros(), persisted=_zeros(), duration=_zeros()
            ),
            start_delay=_zeros(),
        ),
        subtasks=[_subtask(checkpoint, each.subtask, writing.get(each.subtask)) for each in vertex.subtasks],
    )


def checkpoint_config(view: CheckpointConfigView) -> CheckpointConfig:
    """Return what the options say."""
    return CheckpointConfig(
        mode=view.mode,
        interval=_NEVER_MS if view.interval_ms is None else view.interval_ms,
        timeout=view.timeout_ms,
        min_pause=view.min_pause_ms,
        max_concurrent=view.max_concurrent,
        externalization=Externalization(
            enabled=view.keep_on_cancel or view.keep_on_failure,
            delete_on_cancellation=not view.keep_on_cancel,
        ),
        state_backend=_BACKENDS.get(view.state_backend, view.state_backend),
        checkpoint_storage="FileSystemCheckpointStorage",
        tolerable_failed_checkpoints=view.tolerable_failures,
    )


def _checkpoint(
    view: CheckpointView,
    tasks: dict[str, TaskCheckpoint],
    kind: type[CheckpointDetails] | type[Checkpoint] = Checkpoint,
) -> CheckpointDetails:
    is_complete = view.status == "COMPLETED"
    failed = view.status == "FAILED"
    document = kind(
        class_name=view.status.lower(),
        id=view.checkpoint_id,
        status=view.status,
        is_savepoint=view.is_savepoint,
        savepoint_format="CANONICAL" if view.is_savepoint else None,
        trigger_timestamp=view.triggered_ms,
        latest_ack_timestamp=or_unknown(view.ended_ms) if is_complete else UNKNOWN,
        checkpointed_size=view.checkpointed_size,
        state_size=view.state_size,
        end_to_end_duration=or_unknown(view.duration_ms),
        num_subtasks=view.slot_count,
        num_acknowledged_subtasks=view.slot_count if is_complete else len(view.slots),
        checkpoint_type=_type(view),
        tasks=tasks,
        external_path=view.path if is_complete and view.path is not None else UNSET,
        discarded=view.is_discarded if is_complete else UNSET,
        failure_timestamp=or_unknown(view.ended_ms) if failed else UNSET,
        failure_message=(view.failure or "") if failed else UNSET,
    )
    return document  # type: ignore[return-value]


def _type(view: CheckpointView) -> str:
    if not view.is_savepoint:
        return "CHECKPOINT"
    return "SYNC_SAVEPOINT" if view.stops else "SAVEPOINT"


def _task(checkpoint: CheckpointView, vertex: VertexView) -> TaskCheckpoint:
    is_complete = checkpoint.status == "COMPLETED"
    return TaskCheckpoint(
        id=checkpoint.checkpoint_id,
        status=checkpoint.status,
        latest_ack_timestamp=or_unknown(checkpoint.ended_ms) if is_complete else UNKNOWN,
        checkpointed_size=UNKNOWN,
        state_size=UNKNOWN,
        end_to_end_duration=or_unknown(checkpoint.duration_ms),
        num_subtasks=len(vertex.subtasks),
        num_acknowledged_subtasks=len(vertex.subtasks) if is_complete else 0,
    )


def _subtask(checkpoint: CheckpointView, index: int, writing_ms: int | None) -> SubtaskCheckpoint:
    if checkpoint.status != "COMPLETED" or writing_ms is None:
        return SubtaskCheckpoint(class_name="pending", index=index, status="pending_or_failed")
    return SubtaskCheckpoint(
        class_name="completed",
        index=index,
        status="completed",
        ack_timestamp=or_unknown(checkpoint.ended_ms),
        end_to_end_duration=or_unknown(checkpoint.duration_ms),
        checkpointed_size=UNKNOWN,
        state_size=UNKNOWN,
        checkpoint=CheckpointDuration(sync=writing_ms, in_background=0),
        alignment=Alignment(),
        start_delay=0,
        unaligned_checkpoint=False,
        aborted=False,
    )


def _restored(view: RestoredView) -> Restored:
    return Restored(
        id=view.checkpoint_id,
        restore_timestamp=view.restored_ms,
        is_savepoint=view.is_savepoint,
        external_path=view.path,
    )


def _summary(view: SummaryView, *, none: bool) -> Summary:
    quantiles = (view.p50, view.p90, view.p95, view.p99, view.p999)
    p50, p90, p95, p99, p999 = (_NOT_A_NUMBER if none else each for each in quantiles)
    return Summary(min=view.min, max=view.max, avg=view.avg, p50=p50, p90=p90, p95=p95, p99=p99, p999=p999)


def _summary_of(values: Sequence[int]) -> Summary:
    """Return the figures over some values; quantiles of none are "NaN"."""
    ordered = sorted(values)
    view = SummaryView(
        min=ordered[0] if ordered else 0,
        max=ordered[-1] if ordered else 0,
        avg=sum(ordered) // len(ordered) if ordered else 0,
        **{f"p{name}": percentile(ordered, share) for name, share in _SHARES.items()},
    )
    return _summary(view, none=not ordered)


_SHARES = {"50": 0.5, "90": 0.9, "95": 0.95, "99": 0.99, "999": 0.999}


def _zeros() -> Summary:
    return _summary(SummaryView(), none=False)
