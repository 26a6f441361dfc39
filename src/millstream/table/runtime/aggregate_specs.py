"""The declared halves of aggregations: by key, by window, and OVER.

Operators are imported when they are built: who plans needs few of them.
"""

from __future__ import annotations

from dataclasses import dataclass

from millstream.operators.base import Operator, OperatorSpec
from millstream.operators.combining import Combiner
from millstream.table.expressions.rex import AggregateCall, RowSchema, SortKey
from millstream.table.plan.logical import OverFrame, WindowKind
from millstream.table.runtime.slices import Slices

__all__ = ["GroupAggregateSpec", "OverSpec", "TableAggregateSpec", "WindowAggregateSpec", "describe_calls"]


def describe_calls(calls: tuple[AggregateCall, ...]) -> str:
    """Return aggregates as text: what is kept of them depends on nothing else."""
    parts = []
    for call in calls:
        distinct = "DISTINCT " if call.distinct else ""
        some = "" if call.filter is None else " FILTER"
        nulls = f" {call.nulls}" if call.nulls else ""
        parts.append(f"{call.function}({distinct}{call.type}{nulls}){some}")
    return ", ".join(parts)


@dataclass(frozen=True)
class GroupAggregateSpec(OperatorSpec):
    """Declares GROUP BY; the output has the keys, then the results.

    Without keys there is one row, on one subtask: in a stream as soon as a row came, in batch mode always.
    Changes are netted for each epoch and key.

    Attributes:
        input: Columns of the input.
        keys: Places of the key columns.
        calls: The aggregates.
        retracts: Whether the input has -U or -D rows.
        before: Whether -U rows are emitted.
        ttl_ms: How long a key is kept after its last row; None for ever.
    """

    input: RowSchema
    keys: tuple[int, ...]
    calls: tuple[AggregateCall, ...]
    retracts: bool = False
    before: bool = True
    ttl_ms: int | None = None
    is_keyed = True
    takes_columns = True

    @property
    def state_form(self) -> str:
        """What is kept for each key."""
        return f"{describe_calls(self.calls)}{' of changes' if self.retracts else ''}"

    def build(self) -> Operator:
        """Make the running half."""
        from millstream.table.runtime.group_aggregate import GroupAggregateOperator

        return GroupAggregateOperator(
            self.input,
            self.keys,
            self.calls,
            retracts=self.retracts,
            before=self.before,
            ttl_ms=self.ttl_ms,
        )

    def build_combiner(self) -> Combiner | None:
        """Make what begins the aggregates where rows come from, if all rows are inserts."""
        from millstream.table.runtime.combine import GroupCombiner, can_combine

        if self.retracts or not self.keys or not can_combine(self.calls, self.input, retracts=False):
            return None
        return GroupCombiner(self.input, self.keys, self.calls)


@dataclass(frozen=True)
class TableAggregateSpec(OperatorSpec):
    """Declares what a table aggregate function gives by key; the output has the keys, then its columns.

    Rows that come are +I, rows that go -D, netted for each epoch and key.

    Attributes:
        input: Columns of the input.
        keys: Places of the key columns.
        call: The call of the function.
        retracts: Whether the input has -U or -D rows.
        ttl_ms: How long a key is kept after its last row; None for ever.
    """

    input: RowSchema
    keys: tuple[int, ...]
    call: AggregateCall
    retracts: bool = False
    ttl_ms: int | None = None
    is_keyed = True
    takes_columns = True

    @property
    def state_form(self) -> str:
        """What is kept for each key."""
        return f"{describe_calls((self.call,))}{' of changes' if self.retracts else ''}"

    def build(self) -> Operator:
        """Make the running half."""
        from millstream.table.runtime.table_aggregate import TableAggregateOperator

        return TableAggregateOperator(self)


@dataclass(frozen=True)
class WindowAggregateSpec(OperatorSpec):
    """Declares aggregates by key and window; the output has the keys, the results, then properties of the window.

    Attributes:
        input: Columns of the input.
        keys: Places of the key columns.
        calls: The aggregates.
        windows: The windows.
        time: Place of the time attribute; of attached windows it is not read.
        size_ms: Length of windows; the gap of sessions; of CUMULATE the largest.
        slide_ms: Of HOP the slide, of CUMULATE the step.
        offset_ms: Windows begin so much later.
        processing: Whether windows follow the clock.
        properties: Which of `"start"`, `"end"`, `"time"`, `"proctime"` are put out, in order; all TIMESTAMP(3) but
            `"proctime"`, TIMESTAMP_LTZ(3); `"time"` has the type of the time attribute.
        attached: Places of window_start and window_end of rows that have their windows already; None if not. `windows`,
            sizes and `time` do not matter then.
        retracts: Whether the input has -U or -D rows.
        shift_zone: The session's time zone if the time is a TIMESTAMP_LTZ: window_start and window_end are what clocks
            show there. None for a TIMESTAMP.
    """

    input: RowSchema
    keys: tuple[int, ...]
    calls: tuple[AggregateCall, ...]
    windows: WindowKind
    time: int
    size_ms: int
    slide_ms: int = 0
    offset_ms: int = 0
    processing: bool = False
    properties: tuple[str, ...] = ()
    attached: tuple[int, int] | None = None
    retracts: bool = False
    shift_zone: str | None = None
    is_keyed = True
    takes_columns = True

    @property
    def state_form(self) -> str:
        """Which windows by which time, and what is kept of their rows."""
        kind = "attached windows" if self.attached is not None else self.windows.value
        time = "processing time" if self.processing else "event time"
        sizes = (
            "" if self.windows is WindowKind.SESSION else f" {self.size_ms} {self.slide_ms} {self.offset_ms}"
        )
        return f"{kind}{sizes}, {time}, {describe_calls(self.calls)}"

    @property
    def waits_ms(self) -> int | None:
        """The length of its windows by event time; of sessions the gap."""
        return None if self.processing else self.size_ms

    def build(self) -> Operator:
        """Make the running half."""
        from millstream.table.runtime.session_aggregate import SessionAggregateOperator
        from millstream.table.runtime.window_aggregate import WindowAggregateOperator

        if self.windows is WindowKind.SESSION and self.attached is None:
            return SessionAggregateOperator(self)
        return WindowAggregateOperator(self)

    def build_combiner(self) -> Combiner | None:
        """Make what begins the aggregates where rows come from, if all rows are inserts."""
        from millstream.table.runtime.combine import WindowCombiner, can_combine

        if (
            self.retracts
            or self.processing
            or self.attached is not None
            or self.windows is WindowKind.SESSION
        ):
            return None
        slices = Slices(self.windows, self.size_ms, self.slide_ms, self.offset_ms)
        if not self.keys or slices.has_gaps or not can_combine(self.calls, self.input, retracts=False):
            return None
        return WindowCombiner(
            self.input, self.keys, self.calls, time=self.time, slices=slices, zone=self.shift_zone
        )


@dataclass(frozen=True)
class OverSpec(OperatorSpec):
    """Declares aggregates OVER a frame; the output has the input's columns, then the results.

    By event time rows come out when the watermark passes them, late ones are dropped and counted. By values all rows
    are kept, and results change as rows come and go; by time, and in batch mode, the input is append-only. Several
    OVERs are several operators.

    Attributes:
        input: Columns of the input.
        partition: Places of the PARTITION BY columns.
        order: The first ORDER BY column: the time attribute, ascending; in batch mode, and by values, any.
        rowtime: Whether the order is event time; else it is processing time, the order of arrival.
        frame: Which rows count; bounds of RANGE in milliseconds.
        calls: The aggregates and window functions.
        ttl_ms: Not of event time: how long a key is kept after its last row; None for ever.
        further: Further ORDER BY columns, in batch mode and by values.
        by_values: Whether a stream is ordered by something else than time.
        retracts: Whether the input has -U or -D rows; by values only.
        before: Whether -U rows are wanted; by values only.
    """

    input: RowSchema
    partition: tuple[int, ...]
    order: SortKey | None
    rowtime: bool
    frame: OverFrame
    calls: tuple[AggregateCall, ...]
    ttl_ms: int | None = None
    further: tuple[SortKey, ...] = ()
    by_values: bool = False
    retracts: bool = False
    before: bool = True
    is_keyed = True
    takes_columns = True

    @property
    def keys(self) -> tuple[SortKey, ...]:
        """All ORDER BY columns."""
        return () if self.order is None else (self.order, *self.further)

    @property
    def state_form(self) -> str:
        """What is kept."""
        if self.by_values:
            return f"rows by {self.keys}"
        time = "event time" if self.rowtime else "processing time"
        return f"{time}, {self.frame}, {describe_calls(self.calls)}"

    def build(self) -> Operator:
        """Make the running half."""
        from millstream.table.runtime.over import OverOperator
        from millstream.table.runtime.over_values import OverValuesOperator

        return OverValuesOperator(self) if self.by_values else OverOperator(self)
