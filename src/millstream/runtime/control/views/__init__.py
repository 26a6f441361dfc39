"""What is seen of a job: frozen dataclasses of plain data, made by the runtime, serialised by everybody else.

Each view is a snapshot: it never changes, and may be read on any thread. Times are epoch milliseconds, durations
milliseconds, sizes bytes; None is "not known" or "not yet". Between them they hold what Flink's REST documents hold:

| view | Flink's documents |
|---|---|
| `JobView` | jobs/overview, job, vertices, subtasks, subtask times, plan, back pressure, task managers |
| `CheckpointsView` | checkpoints, their details, statistics and config |
| `ExceptionsView` | exceptions |
| `WatermarksView` | watermarks, and why they stand still |
| `EpochsView` | the last epochs, which are millstream's own |
| `MetricsView` | metrics |
| `AccumulatorsView` | accumulators |
| `ConfigView` | config |
| `ThreadsView` | thread dumps |
"""

from millstream.metrics.reported import MetricsView, MetricView
from millstream.runtime.control.views.accumulators import (
    AccumulatorsView,
    AccumulatorView,
    SubtaskAccumulatorsView,
)
from millstream.runtime.control.views.checkpoints import (
    CheckpointConfigView,
    CheckpointCounts,
    CheckpointSizes,
    CheckpointsView,
    CheckpointView,
    RestoredView,
    SlotCheckpointView,
    SummaryView,
)
from millstream.runtime.control.views.config import ConfigView, OptionView
from millstream.runtime.control.views.epochs import EpochBound, EpochsView, EpochView
from millstream.runtime.control.views.exceptions import ExceptionsView, FailureView
from millstream.runtime.control.views.job import JobView, SlotView, StatusChange, SubtaskView, VertexView
from millstream.runtime.control.views.plan import EdgeView, OperatorView, PlannedJobView, PlanView, VertexPlan
from millstream.runtime.control.views.threads import ThreadsView, ThreadView
from millstream.runtime.control.views.watermarks import WatermarkFact, WatermarksView

__all__ = [
    "AccumulatorView",
    "AccumulatorsView",
    "CheckpointConfigView",
    "CheckpointCounts",
    "CheckpointSizes",
    "CheckpointView",
    "CheckpointsView",
    "ConfigView",
    "EdgeView",
    "EpochBound",
    "EpochView",
    "EpochsView",
    "ExceptionsView",
    "FailureView",
    "JobView",
    "MetricView",
    "MetricsView",
    "OperatorView",
    "OptionView",
    "PlanView",
    "PlannedJobView",
    "RestoredView",
    "SlotCheckpointView",
    "SlotView",
    "StatusChange",
    "SubtaskAccumulatorsView",
    "SubtaskView",
    "SummaryView",
    "ThreadView",
    "ThreadsView",
    "VertexPlan",
    "VertexView",
    "WatermarkFact",
    "WatermarksView",
]
