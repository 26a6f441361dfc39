"""The physical plan: what runs, one node for each operator, with the changes that its rows are.

Nodes are immutable. `modes.py` gives each its changelog mode, `keys.py` tells their keys, `translate.py` makes
operators of them, `explain.py` shows them by Flink's names.
"""

from __future__ import annotations

from dataclasses import dataclass, field, fields, replace
from typing import Any, Self

from millstream.table.expressions.rex import AggregateCall, Call, RowExpression, RowSchema, SortKey
from millstream.table.plan.changes import ChangelogMode
from millstream.table.plan.logical import JoinKind, OverFrame, WindowKind
from millstream.table.plan.matching import MatchClause
from millstream.table.plan.processing import ProcessClause

__all__ = [
    "Calc",
    "ChangelogNormalize",
    "CorrelateNode",
    "DataStreamScan",
    "Deduplicate",
    "DropUpdateBefore",
    "ExpandNode",
    "FromChangelogNode",
    "GroupAggregate",
    "GroupTableAggregate",
    "IntervalJoin",
    "Limit",
    "LookupJoin",
    "MatchNode",
    "OverAggregate",
    "PhysicalNode",
    "ProcessTableNode",
    "Rank",
    "RegularJoin",
    "SinkNode",
    "SortLimit",
    "SortNode",
    "TableScan",
    "TemporalJoin",
    "TemporalSort",
    "ToChangelogNode",
    "Union",
    "ValuesNode",
    "WatermarkAssigner",
    "Window",
    "WindowAggregate",
    "WindowDeduplicate",
    "WindowJoin",
    "WindowRank",
    "WindowTable",
]


@dataclass(frozen=True)
class PhysicalNode:
    """An operator.

    Attributes:
        schema: Of its rows; only columns that still follow watermarks are time attributes.
        mode: Which kinds of change its rows are; None until `modes.assign_modes` has told.
        final: Whether it is of a batch plan: its operator has all rows of its inputs when it works.
    """

    schema: RowSchema
    mode: ChangelogMode | None = field(default=None, kw_only=True)
    final: bool = field(default=False, kw_only=True)

    @property
    def inputs(self) -> tuple[PhysicalNode, ...]:
        """What it reads, in order."""
        found = (getattr(self, name, None) for name in ("input", "left", "right"))
        return tuple(each for each in found if isinstance(each, PhysicalNode))

    def with_inputs(self, inputs: tuple[PhysicalNode, ...]) -> Self:
        """Return the node over other inputs with the same columns."""
        sides = ("input", "left", "right")
        names = [
            each.name
            for each in fields(self)
            if each.name in sides and isinstance(getattr(self, each.name), PhysicalNode)
        ]
        changes: dict[str, Any] = dict(zip(names, inputs, strict=True))
        return replace(self, **changes)

    def finalized(self) -> Self:
        """Return the node, and all below it, as of a batch plan."""
        if self.final:
            return self
        return replace(self.with_inputs(tuple(each.finalized() for each in self.inputs)), final=True)

    def with_mode(self, mode: ChangelogMode) -> Self:
        """Return the node with a changelog mode."""
        return replace(self, mode=mode)

    @property
    def given_mode(self) -> ChangelogMode:
        """The mode.

        Raises:
            AssertionError: If none was assigned.
        """
        assert self.mode is not None, f"{type(self).__name__} has no mode yet"
        return self.mode


@dataclass(frozen=True)
class TableScan(PhysicalNode):
    """Reads a table of a catalog.

    Attributes:
        table: The `catalog.ResolvedTable`.
        columns: Places of the columns in its schema.
        source_mode: What its connector gives.
        bounded: Whether it ends.
    """

    table: Any
    columns: tuple[int, ...]
    source_mode: ChangelogMode
    bounded: bool = False


@dataclass(frozen=True)
class DataStreamScan(PhysicalNode):
    """Reads a DataStream (`logical.StreamScan`).

    Attributes:
        stream: What the environment knows of it.
        columns: Places of the columns that are read.
        source_mode: Which kinds of change it gives.
        unique: Places (of this node) of a unique key; None if it has none.
    """

    stream: Any
    columns: tuple[int, ...]
    source_mode: ChangelogMode
    unique: tuple[int, ...] | None = None


@dataclass(frozen=True)
class ValuesNode(PhysicalNode):
    """Constant rows."""

    rows: tuple[tuple[RowExpression, ...], ...]


@dataclass(frozen=True)
class WatermarkAssigner(PhysicalNode):
    """Makes watermarks."""

    input: PhysicalNode
    column: int
    expression: RowExpression


@dataclass(frozen=True)
class Calc(PhysicalNode):
    """Filters and projects."""

    input: PhysicalNode
    expressions: tuple[RowExpression, ...]
    condition: RowExpression | None = None


@dataclass(frozen=True)
class CorrelateNode(PhysicalNode):
    """Joins each row with what a table function gives."""

    input: PhysicalNode
    call: Call
    kind: JoinKind
    condition: RowExpression | None = None


@dataclass(frozen=True)
class ExpandNode(PhysicalNode):
    """Copies rows for grouping sets."""

    input: PhysicalNode
    keys: tuple[int, ...]
    sets: tuple[tuple[int, ...], ...]


@dataclass(frozen=True)
class GroupAggregate(PhysicalNode):
    """GROUP BY with a result that is kept up to date."""

    input: PhysicalNode
    keys: tuple[int, ...]
    calls: tuple[AggregateCall, ...]
    ttl_ms: int | None = None


@dataclass(frozen=True)
class GroupTableAggregate(PhysicalNode):
    """The rows that a table aggregate function gives for each key, kept up to date."""

    input: PhysicalNode
    keys: tuple[int, ...]
    call: AggregateCall
    ttl_ms: int | None = None


@dataclass(frozen=True)
class Window:
    """Windows.

    Attributes:
        kind: Their kind.
        time: Place of the time attribute.
        size_ms: Length, or gap of sessions.
        slide_ms: Slide or step.
        offset_ms: Windows begin so much later.
        rowtime: Whether by event time.
        partition: Keys of SESSION.
        local: Whether the time attribute is a TIMESTAMP_LTZ.
    """

    kind: WindowKind
    time: int
    size_ms: int
    slide_ms: int = 0
    offset_ms: int = 0
    rowtime: bool = True
    partition: tuple[int, ...] = ()
    local: bool = False


@dataclass(frozen=True)
class WindowTable(PhysicalNode):
    """Adds window_start, window_end, window_time."""

    input: PhysicalNode
    window: Window


@dataclass(frozen=True)
class WindowAggregate(PhysicalNode):
    """Aggregates by window; keys, results, then properties of the window.

    Attributes:
        window: The windows.
        properties: Which of start, end, time, proctime, in order.
        attached: Places of window_start and window_end of the input, where it has windows already.
        grouped: Whether the query has the old form, `GROUP BY TUMBLE(...)`.
    """

    input: PhysicalNode
    keys: tuple[int, ...]
    calls: tuple[AggregateCall, ...]
    window: Window
    properties: tuple[str, ...]
    attached: tuple[int, int] | None = None
    grouped: bool = False


@dataclass(frozen=True)
class OverAggregate(PhysicalNode):
    """Adds aggregates over the rows before each row.

    Attributes:
        by_values: Whether a stream is ordered by something else than time: results change as rows come.
    """

    input: PhysicalNode
    partition: tuple[int, ...]
    order: tuple[SortKey, ...]
    frame: OverFrame
    calls: tuple[AggregateCall, ...]
    rowtime: bool = True
    by_values: bool = False


@dataclass(frozen=True)
class MatchNode(PhysicalNode):
    """Searches the rows of each key for a pattern.

    Attributes:
        rowtime: Whether rows are in the order of event time.
    """

    input: PhysicalNode
    clause: MatchClause
    rowtime: bool = True


@dataclass(frozen=True)
class ProcessTableNode(PhysicalNode):
    """Calls a process table function."""

    relations: tuple[PhysicalNode, ...]
    clause: ProcessClause
    ttl_ms: int | None = None

    @property
    def inputs(self) -> tuple[PhysicalNode, ...]:
        """Its tables, in order."""
        return self.relations

    def with_inputs(self, inputs: tuple[PhysicalNode, ...]) -> ProcessTableNode:
        """Return the call of other tables."""
        return replace(self, relations=inputs)


@dataclass(frozen=True)
class ToChangelogNode(PhysicalNode):
    """Makes changes rows with the kind of each (`logical.ToChangelog`)."""

    input: PhysicalNode
    partition: tuple[int, ...]
    codes: tuple[str | None, str | None, str | None, str | None]
    full: bool = False


@dataclass(frozen=True)
class FromChangelogNode(PhysicalNode):
    """Makes rows with the kind of each changes (`logical.FromChangelog`)."""

    input: PhysicalNode
    partition: tuple[int, ...]
    op: int
    codes: tuple[tuple[str, int], ...]


@dataclass(frozen=True)
class Rank(PhysicalNode):
    """Top-N.

    Attributes:
        end_column: Place of the column that tells the last number; None if it is `end`.
        function: ROW_NUMBER, RANK or DENSE_RANK.
    """

    input: PhysicalNode
    partition: tuple[int, ...]
    order: tuple[SortKey, ...]
    start: int
    end: int
    with_number: bool
    end_column: int | None = None
    function: str = "ROW_NUMBER"
    ttl_ms: int | None = None


@dataclass(frozen=True)
class Deduplicate(PhysicalNode):
    """Keeps the first or last row of each key."""

    input: PhysicalNode
    keys: tuple[int, ...]
    time: int
    rowtime: bool
    keep_last: bool
    ttl_ms: int | None = None


@dataclass(frozen=True)
class WindowRank(PhysicalNode):
    """Top-N of each window."""

    input: PhysicalNode
    partition: tuple[int, ...]
    order: tuple[SortKey, ...]
    window: tuple[int, int]
    start: int
    end: int
    with_number: bool
    rowtime: bool = True


@dataclass(frozen=True)
class WindowDeduplicate(PhysicalNode):
    """Keeps the first or last row of each key and window."""

    input: PhysicalNode
    keys: tuple[int, ...]
    time: int
    window: tuple[int, int]
    keep_last: bool


@dataclass(frozen=True)
class RegularJoin(PhysicalNode):
    """Joins two changing relations.

    Attributes:
        condition: What holds beside the equality of keys.
        null_safe: For each key whether NULL equals NULL.
    """

    left: PhysicalNode
    right: PhysicalNode
    kind: JoinKind
    left_keys: tuple[int, ...]
    right_keys: tuple[int, ...]
    condition: RowExpression | None = None
    null_safe: tuple[bool, ...] = ()
    null_aware: bool = False
    ttl_left_ms: int | None = None
    ttl_right_ms: int | None = None


@dataclass(frozen=True)
class IntervalJoin(PhysicalNode):
    """Joins rows whose times are near."""

    left: PhysicalNode
    right: PhysicalNode
    kind: JoinKind
    left_keys: tuple[int, ...]
    right_keys: tuple[int, ...]
    left_time: int
    right_time: int
    lower_ms: int
    upper_ms: int
    condition: RowExpression | None = None
    rowtime: bool = True


@dataclass(frozen=True)
class WindowJoin(PhysicalNode):
    """Joins rows of equal windows."""

    left: PhysicalNode
    right: PhysicalNode
    kind: JoinKind
    left_keys: tuple[int, ...]
    right_keys: tuple[int, ...]
    left_window: tuple[int, int]
    right_window: tuple[int, int]
    condition: RowExpression | None = None
    rowtime: bool = True


@dataclass(frozen=True)
class TemporalJoin(PhysicalNode):
    """Joins rows with the version of their time."""

    left: PhysicalNode
    right: PhysicalNode
    kind: JoinKind
    left_keys: tuple[int, ...]
    right_keys: tuple[int, ...]
    left_time: int
    right_time: int
    condition: RowExpression | None = None


@dataclass(frozen=True)
class LookupJoin(PhysicalNode):
    """Joins rows with what an outside table has now.

    Attributes:
        table: The `catalog.ResolvedTable`.
        columns: Places of the columns of its schema that rows found have, before `computed`.
        keys: Places of the input's columns that are the key.
        table_keys: Places of the columns of the table's schema that they equal.
        right: Schema of what is found.
        condition: Over the joined row.
    """

    input: PhysicalNode
    table: Any
    columns: tuple[int, ...]
    keys: tuple[int, ...]
    table_keys: tuple[int, ...]
    right: RowSchema
    kind: JoinKind
    condition: RowExpression | None = None
    hints: tuple[Any, ...] = ()


@dataclass(frozen=True)
class Union(PhysicalNode):
    """All rows of several relations."""

    relations: tuple[PhysicalNode, ...]

    @property
    def inputs(self) -> tuple[PhysicalNode, ...]:
        """The relations."""
        return self.relations

    def with_inputs(self, inputs: tuple[PhysicalNode, ...]) -> Union:
        """Return the union of other relations."""
        return replace(self, relations=inputs)


@dataclass(frozen=True)
class SortLimit(PhysicalNode):
    """The first rows, kept up to date."""

    input: PhysicalNode
    keys: tuple[SortKey, ...]
    offset: int
    fetch: int


@dataclass(frozen=True)
class Limit(PhysicalNode):
    """Any so many rows."""

    input: PhysicalNode
    offset: int
    fetch: int | None


@dataclass(frozen=True)
class TemporalSort(PhysicalNode):
    """Rows sorted by time."""

    input: PhysicalNode
    time: int
    rest: tuple[SortKey, ...]
    rowtime: bool = True


@dataclass(frozen=True)
class SortNode(PhysicalNode):
    """A bounded input, sorted."""

    input: PhysicalNode
    keys: tuple[SortKey, ...]
    offset: int = 0
    fetch: int | None = None


@dataclass(frozen=True)
class ChangelogNormalize(PhysicalNode):
    """Upserts become changes with the row before.

    Attributes:
        forced: Whether it stays where updates by key would do, as changes may come again.
        condition: A filter behind: a row that does not match counts as deleted.
    """

    input: PhysicalNode
    key: tuple[int, ...]
    ttl_ms: int | None = None
    forced: bool = False
    condition: RowExpression | None = None


@dataclass(frozen=True)
class DropUpdateBefore(PhysicalNode):
    """Leaves -U rows out."""

    input: PhysicalNode


@dataclass(frozen=True)
class SinkNode(PhysicalNode):
    """Writes a table, or gives the rows to who asks (`table` None).

    Attributes:
        table: The `catalog.ResolvedTable`.
        materialize: Whether rows of a key are put together before the sink.
        upsert_key: Places of columns that tell the input's rows apart; None if there are none.
        overwrite: INSERT OVERWRITE.
        conflict: What the query says of rows with the same primary key: "", "ERROR", "NOTHING" or "DEDUPLICATE".
        accepted: What the sink takes.
        partition: Fixed partition values.
    """

    input: PhysicalNode
    table: Any
    accepted: ChangelogMode
    materialize: bool = False
    upsert_key: tuple[int, ...] | None = None
    overwrite: bool = False
    conflict: str = ""
    partition: tuple[tuple[str, Any], ...] = ()
