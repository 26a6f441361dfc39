"""All operators of SQL as the planner declares them."""

from __future__ import annotations

from millstream.table.runtime.aggregate_specs import (
    GroupAggregateSpec,
    OverSpec,
    TableAggregateSpec,
    WindowAggregateSpec,
)
from millstream.table.runtime.conflict_operator import ConflictSpec
from millstream.table.runtime.join_specs import (
    IntervalJoinSpec,
    JoinSpec,
    LookupJoinSpec,
    TemporalJoinSpec,
    WindowJoinSpec,
)
from millstream.table.runtime.match.match_spec import MatchSpec
from millstream.table.runtime.process.changelog_specs import FromChangelogSpec, ToChangelogSpec
from millstream.table.runtime.process.process_spec import ProcessTableSpec
from millstream.table.runtime.rank_specs import (
    DeduplicateSpec,
    MaterializeSpec,
    NormalizeSpec,
    RankSpec,
    SortLimitSpec,
    SortSpec,
    TemporalSortSpec,
    WindowDeduplicateSpec,
    WindowRankSpec,
)
from millstream.table.runtime.row_specs import (
    CalcSpec,
    CorrelateSpec,
    DropBeforeSpec,
    ExpandSpec,
    LimitSpec,
    RowtimeSpec,
    SinkConstraintSpec,
    WindowAssignSpec,
)

__all__ = [
    "CalcSpec",
    "ConflictSpec",
    "CorrelateSpec",
    "DeduplicateSpec",
    "DropBeforeSpec",
    "ExpandSpec",
    "FromChangelogSpec",
    "GroupAggregateSpec",
    "TableAggregateSpec",
    "IntervalJoinSpec",
    "JoinSpec",
    "LimitSpec",
    "LookupJoinSpec",
    "MatchSpec",
    "MaterializeSpec",
    "NormalizeSpec",
    "OverSpec",
    "ProcessTableSpec",
    "RankSpec",
    "RowtimeSpec",
    "SinkConstraintSpec",
    "SortLimitSpec",
    "SortSpec",
    "TemporalJoinSpec",
    "TemporalSortSpec",
    "ToChangelogSpec",
    "WindowAggregateSpec",
    "WindowAssignSpec",
    "WindowDeduplicateSpec",
    "WindowJoinSpec",
    "WindowRankSpec",
]
