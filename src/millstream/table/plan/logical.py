"""The logical plan: immutable nodes with the schema of what they give.

Columns are addressed by place. Rewrites make new nodes; none knows the text it came from, except for names.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum
from typing import Any

from millstream.table.expressions.rex import AggregateCall, Call, RowExpression, RowSchema, SortKey
from millstream.table.plan.matching import MatchClause
from millstream.table.plan.processing import ProcessClause

__all__ = [
    "Aggregate",
    "Correlate",
    "Expand",
    "Filter",
    "FromChangelog",
    "Join",
    "JoinKind",
    "LogicalNode",
    "Match",
    "Over",
    "OverFrame",
    "OverGroup",
    "ProcessTable",
    "Project",
    "Scan",
    "SetOperation",
    "Sink",
    "Snapshot",
    "Sort",
    "StreamScan",
    "TableAggregate",
    "TableFunctionScan",
    "ToChangelog",
    "Values",
    "Watermarks",
    "WindowFunction",
    "WindowKind",
]


@dataclass(frozen=True)
class LogicalNode:
    """A relation.

    Attributes:
        schema: Of its rows.
    """

    schema: RowSchema

    @property
    def inputs(self) -> tuple[LogicalNode, ...]:
        """The relations it reads, in order."""
        found = (getattr(self, name, None) for name in ("input", "left", "right"))
        return tuple(each for each in found if isinstance(each, LogicalNode))


@dataclass(frozen=True)
class Scan(LogicalNode):
    """A table of a catalog: `table` is a `catalog.ResolvedTable` (physical and metadata columns only are read;
    computed columns and the watermark are nodes above)."""

    table: Any


@dataclass(frozen=True)
class StreamScan(LogicalNode):
    """A DataStream as a table: `stream` with what the environment knows of it (`bridge.StreamTable`)."""

    stream: Any


@dataclass(frozen=True)
class Values(LogicalNode):
    """Constant rows."""

    rows: tuple[tuple[RowExpression, ...], ...]


@dataclass(frozen=True)
class Watermarks(LogicalNode):
    """Makes a column the event-time attribute: `expression` gives the watermark of each row."""

    input: LogicalNode
    column: int
    expression: RowExpression


@dataclass(frozen=True)
class Project(LogicalNode):
    """Computes columns."""

    input: LogicalNode
    expressions: tuple[RowExpression, ...]


@dataclass(frozen=True)
class Filter(LogicalNode):
    """Keeps rows where the condition is TRUE."""

    input: LogicalNode
    condition: RowExpression


@dataclass(frozen=True)
class Aggregate(LogicalNode):
    """GROUP BY: key columns first, then the aggregates, then (with grouping sets) nothing else.

    Attributes:
        keys: Places of key columns.
        calls: The aggregates.
        sets: Grouping sets as places of `keys`; one set of all keys for a plain GROUP BY.
        window: Of the old group windows (TUMBLE(...) in GROUP BY); their start, end, rowtime and proctime
            columns follow.
        ttl_ms: How long groups are kept, 0 for ever; None as the session says.
    """

    input: LogicalNode
    keys: tuple[int, ...]
    calls: tuple[AggregateCall, ...]
    sets: tuple[tuple[int, ...], ...] = ()
    window: WindowFunction | None = None
    ttl_ms: int | None = None


@dataclass(frozen=True)
class TableAggregate(LogicalNode):
    """What a table aggregate function gives for each key (`flat_aggregate`): key columns, then its columns.

    Attributes:
        keys: Places of key columns.
        call: The call of the function.
    """

    input: LogicalNode
    keys: tuple[int, ...]
    call: AggregateCall


@dataclass(frozen=True)
class Expand(LogicalNode):
    """A copy of each row for each grouping set, behind it the number of the set (`$e`, BIGINT).

    Attributes:
        keys: Places of all grouping keys.
        sets: Places of the keys that each copy keeps; the others are NULL in it.
    """

    input: LogicalNode
    keys: tuple[int, ...]
    sets: tuple[tuple[int, ...], ...]


class WindowKind(Enum):
    """Windows of table functions."""

    TUMBLE = "TUMBLE"
    HOP = "HOP"
    CUMULATE = "CUMULATE"
    SESSION = "SESSION"


@dataclass(frozen=True)
class WindowFunction(LogicalNode):
    """A window table function: the input's columns, then window_start, window_end, window_time.

    Attributes:
        time: Place of the time attribute.
        size_ms: Of the window; the gap of sessions.
        slide_ms: Of HOP the slide, of CUMULATE the step; 0 of others.
        offset_ms: Windows begin so much later.
        partition: Key columns of SESSION.
    """

    input: LogicalNode
    kind: WindowKind
    time: int
    size_ms: int
    slide_ms: int = 0
    offset_ms: int = 0
    partition: tuple[int, ...] = ()


class JoinKind(Enum):
    """Joins."""

    INNER = "INNER"
    LEFT = "LEFT"
    RIGHT = "RIGHT"
    FULL = "FULL"
    SEMI = "SEMI"
    ANTI = "ANTI"


@dataclass(frozen=True)
class Join(LogicalNode):
    """Joins two relations; the condition is over left columns followed by right ones; None is a cross join.

    A right side that is a `Snapshot` is a temporal or look-up join.

    Attributes:
        hints: Options of the hint LOOKUP, sorted pairs.
        null_aware: An ANTI join of NOT IN, where a NULL on either side is neither in nor not in.
        ttls: How long rows of both sides are kept, in milliseconds, 0 for ever; None as the session says.
    """

    left: LogicalNode
    right: LogicalNode
    kind: JoinKind
    condition: RowExpression | None
    hints: tuple[tuple[str, str], ...] = ()
    null_aware: bool = False
    ttls: tuple[int | None, int | None] = (None, None)


@dataclass(frozen=True)
class Snapshot(LogicalNode):
    """`FOR SYSTEM_TIME AS OF period`: the versions of the input.

    `period` is over the columns of the join's left side.
    """

    input: LogicalNode
    period: RowExpression


@dataclass(frozen=True)
class Correlate(LogicalNode):
    """Each row joined with what a table function gives of it (UNNEST is the function `UNNEST`).

    Attributes:
        call: The function over the input's columns.
        kind: INNER or LEFT.
        condition: Over the input's columns followed by the function's; of LEFT only TRUE or None.
    """

    input: LogicalNode
    call: Call
    kind: JoinKind
    condition: RowExpression | None = None


@dataclass(frozen=True)
class TableFunctionScan(LogicalNode):
    """A table function of constants."""

    call: Call


@dataclass(frozen=True)
class OverFrame:
    """Which rows an OVER looks at: `preceding` None is unbounded, 0 the current row; rows, or by value (RANGE)."""

    rows: bool
    preceding: int | None
    following: int | None = 0


@dataclass(frozen=True)
class OverGroup:
    """Aggregates with the same PARTITION BY, ORDER BY and frame."""

    partition: tuple[int, ...]
    order: tuple[SortKey, ...]
    frame: OverFrame
    calls: tuple[AggregateCall, ...]


@dataclass(frozen=True)
class Over(LogicalNode):
    """Adds columns: the results of all groups, in order, behind the input's columns."""

    input: LogicalNode
    groups: tuple[OverGroup, ...]


@dataclass(frozen=True)
class Match(LogicalNode):
    """MATCH_RECOGNIZE: for each match the PARTITION BY columns, then the measures."""

    input: LogicalNode
    clause: MatchClause


@dataclass(frozen=True)
class ProcessTable(LogicalNode):
    """A call of a process table function: for each table its key columns, what the function gives, `rowtime`."""

    relations: tuple[LogicalNode, ...]
    clause: ProcessClause

    @property
    def inputs(self) -> tuple[LogicalNode, ...]:
        """Its tables, in order."""
        return self.relations


@dataclass(frozen=True)
class ToChangelog(LogicalNode):
    """TO_CHANGELOG: changes as rows that are only inserted, with the kind of each.

    Attributes:
        partition: Places of the PARTITION BY columns, which come first.
        codes: For each kind its text in the column; None leaves such changes out.
        full: Whether rows of deletes have all columns.
    """

    input: LogicalNode
    partition: tuple[int, ...]
    codes: tuple[str | None, str | None, str | None, str | None]
    full: bool = False


@dataclass(frozen=True)
class FromChangelog(LogicalNode):
    """FROM_CHANGELOG: rows with the kind of each as changes.

    Attributes:
        partition: Places of the PARTITION BY columns, which come first.
        op: Place of the column with the kind.
        codes: Texts of the column, and the kind that each means: 0 +I, 1 -U, 2 +U, 3 -D.
        order: ORDER BY; the first is the time attribute.
    """

    input: LogicalNode
    partition: tuple[int, ...]
    op: int
    codes: tuple[tuple[str, int], ...]
    order: tuple[SortKey, ...] = ()


@dataclass(frozen=True)
class Sort(LogicalNode):
    """ORDER BY with OFFSET and FETCH; without keys a plain LIMIT."""

    input: LogicalNode
    keys: tuple[SortKey, ...]
    offset: int = 0
    fetch: int | None = None


@dataclass(frozen=True)
class SetOperation(LogicalNode):
    """UNION, INTERSECT or EXCEPT (`kind`), of all rows or distinct ones."""

    relations: tuple[LogicalNode, ...]
    kind: str
    all: bool

    @property
    def inputs(self) -> tuple[LogicalNode, ...]:
        """The relations, in order."""
        return self.relations


@dataclass(frozen=True)
class Sink(LogicalNode):
    """INSERT INTO a table of a catalog (`catalog.ResolvedTable`), or a result that is collected (`table` None).

    Attributes:
        columns: Places of the table's columns that are written; all by default.
        overwrite: INSERT OVERWRITE.
        static_partition: Fixed values of partition columns.
    """

    input: LogicalNode
    table: Any
    overwrite: bool = False
    static_partition: tuple[tuple[str, Any], ...] = ()
