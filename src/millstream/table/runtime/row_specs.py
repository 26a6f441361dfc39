"""The declared halves of operators that look at one row at a time: projections, watermarks, windows of rows.

Operators are imported when they are built: who plans needs few of them.
"""

from __future__ import annotations

from dataclasses import dataclass

from millstream.common.watermark_strategy import WatermarkStrategy
from millstream.operators.base import Operator, OperatorSpec
from millstream.operators.column_watermarks import TableWatermarks
from millstream.table.expressions.rex import Call, RowExpression, RowSchema
from millstream.table.plan.logical import JoinKind, WindowKind

__all__ = [
    "CalcSpec",
    "CorrelateSpec",
    "DropBeforeSpec",
    "ExpandSpec",
    "LimitSpec",
    "RowtimeSpec",
    "SinkConstraintSpec",
    "WindowAssignSpec",
]


@dataclass(frozen=True)
class CalcSpec(OperatorSpec):
    """Declares a filter and a projection, in this order.

    Attributes:
        input: Columns of the input.
        expressions: What each column of the output is; named f0, f1, ...
        condition: Rows where it is not TRUE are left out; None keeps all.
        names: Names of the output's columns; empty for f0, f1, ...
        zone: The session's time zone.
    """

    input: RowSchema
    expressions: tuple[RowExpression, ...]
    condition: RowExpression | None = None
    names: tuple[str, ...] = ()
    zone: str = "UTC"
    takes_columns = True
    acts_on_time = False

    def build(self) -> Operator:
        """Make the running half."""
        from millstream.table.runtime.calc import CalcOperator

        return CalcOperator(self)


@dataclass(frozen=True)
class RowtimeSpec(OperatorSpec):
    """Declares watermarks by expression: the largest value so far, emitted behind each batch.

    Where the source makes them (`plan/event_time.py`), they are handed on as they come.

    Attributes:
        input: Columns of the input.
        column: Place of the event-time attribute.
        expression: The watermark of a row, a TIMESTAMP or TIMESTAMP_LTZ; NULL gives none.
        idle_timeout_ms: After how long without a row the stream counts as idle; None never.
        zone: The session's time zone.
        pushed: Whether the source makes them.
    """

    input: RowSchema
    column: int
    expression: RowExpression
    idle_timeout_ms: int | None = None
    zone: str = "UTC"
    pushed: bool = False
    takes_columns = True

    @property
    def watermark_strategy(self) -> WatermarkStrategy | None:
        """That it makes them, for who explains a job's watermarks; None if the source does."""
        return None if self.pushed else WatermarkStrategy(TableWatermarks(), None, self.idle_timeout_ms)

    def build(self) -> Operator:
        """Make the running half."""
        from millstream.table.runtime.rowtime import RowtimeOperator, TimedOperator

        return TimedOperator(self) if self.pushed else RowtimeOperator(self)


@dataclass(frozen=True)
class ExpandSpec(OperatorSpec):
    """Declares copies of each row, one for each grouping set.

    The output has the input's columns, then the number of the set, a BIGINT: Flink's expand id, with a bit for each
    key that the set leaves out, the first key's the highest.

    Attributes:
        input: Columns of the input.
        keys: Places of all grouping keys.
        sets: Places (of input columns, among `keys`) that each copy keeps; the other keys are NULL.
        copies: Places of input columns that are repeated behind the number as they are: of keys that are arguments of
            aggregates too.
    """

    input: RowSchema
    keys: tuple[int, ...]
    sets: tuple[tuple[int, ...], ...]
    copies: tuple[int, ...] = ()
    takes_columns = True
    acts_on_time = False

    def build(self) -> Operator:
        """Make the running half."""
        from millstream.table.runtime.calc import ExpandOperator

        return ExpandOperator(self)


@dataclass(frozen=True)
class WindowAssignSpec(OperatorSpec):
    """Declares windows of rows: window_start, window_end, window_time behind the input's columns.

    Rows whose time is NULL are left out. Of SESSION use `WindowAggregateSpec`, or `SessionAssignSpec`.

    Attributes:
        input: Columns of the input.
        windows: TUMBLE, HOP or CUMULATE.
        time: Place of the time attribute, a TIMESTAMP or TIMESTAMP_LTZ.
        size_ms: Length of windows; of CUMULATE the largest.
        slide_ms: Of HOP the slide, of CUMULATE the step.
        offset_ms: Windows begin so much later.
        processing: Whether windows follow the clock, not the column.
        shift_zone: The session's time zone if the time is a TIMESTAMP_LTZ: window_start and window_end are what clocks
            show there. None for a TIMESTAMP.
    """

    input: RowSchema
    windows: WindowKind
    time: int
    size_ms: int
    slide_ms: int = 0
    offset_ms: int = 0
    processing: bool = False
    shift_zone: str | None = None
    takes_columns = True
    acts_on_time = False

    def build(self) -> Operator:
        """Make the running half."""
        from millstream.table.runtime.window_assign import WindowAssignOperator

        return WindowAssignOperator(self)


@dataclass(frozen=True)
class CorrelateSpec(OperatorSpec):
    """Declares a lateral join with what a table function gives of each row; UNNEST is the function `UNNEST`.

    Attributes:
        input: Columns of the input.
        call: The function over the input's columns.
        output: Columns of the input, then those of the function.
        join: INNER or LEFT.
        condition: Over the output's columns; None keeps all.
        zone: The session's time zone.
    """

    input: RowSchema
    call: Call
    output: RowSchema
    join: JoinKind = JoinKind.INNER
    condition: RowExpression | None = None
    zone: str = "UTC"
    takes_columns = True
    acts_on_time = False

    def build(self) -> Operator:
        """Make the running half."""
        from millstream.table.runtime.correlate import CorrelateOperator

        return CorrelateOperator(self)


@dataclass(frozen=True)
class DropBeforeSpec(OperatorSpec):
    """Declares that -U rows are left out: what follows goes by upsert key."""

    takes_columns = True
    acts_on_time = False

    def build(self) -> Operator:
        """Make the running half."""
        from millstream.table.runtime.calc import DropBeforeOperator

        return DropBeforeOperator()


@dataclass(frozen=True)
class SinkConstraintSpec(OperatorSpec):
    """Declares checks of rows before a sink.

    Attributes:
        input: Columns of the input, with the names that messages show.
        not_null: Places of columns that may not be NULL.
        drop: Whether rows with such NULLs are left out; else they fail the job.
        lengths: Places of CHAR, VARCHAR, BINARY and VARBINARY columns that are cut, and of CHAR and BINARY padded, to
            their length.
        fail_lengths: Whether a value that is too long fails the job instead.
    """

    input: RowSchema
    not_null: tuple[int, ...] = ()
    drop: bool = False
    lengths: tuple[int, ...] = ()
    fail_lengths: bool = False
    takes_columns = True
    acts_on_time = False

    def build(self) -> Operator:
        """Make the running half."""
        from millstream.table.runtime.constraints import SinkConstraintOperator

        return SinkConstraintOperator(self)


@dataclass(frozen=True)
class LimitSpec(OperatorSpec):
    """Declares OFFSET and FETCH without order, of an append-only input; on one subtask.

    Attributes:
        offset: Rows left out at first.
        fetch: How many follow; None for all.
    """

    offset: int = 0
    fetch: int | None = None
    takes_columns = True

    def build(self) -> Operator:
        """Make the running half."""
        from millstream.table.runtime.sorts import LimitOperator

        return LimitOperator(self)
