"""The declared halves of joins.

Operators are imported when they are built: who plans needs few of them.
"""

from __future__ import annotations

from dataclasses import dataclass

from millstream.operators.base import Operator, OperatorSpec
from millstream.spi.lookup import AsyncLookup, LookupCache
from millstream.table.expressions.rex import RowExpression, RowSchema
from millstream.table.plan.logical import JoinKind

__all__ = ["IntervalJoinSpec", "JoinSpec", "LookupJoinSpec", "TemporalJoinSpec", "WindowJoinSpec"]


@dataclass(frozen=True)
class JoinSpec(OperatorSpec):
    """Declares a join of two changing inputs; the output has the left columns, then (not of SEMI, ANTI) the right ones.

    Attributes:
        left: Columns of the left input.
        right: Columns of the right input.
        left_keys: Places of the left columns that equal the right ones; NULL equals nothing. Empty for a cross join, on
            one subtask.
        right_keys: As many of the right input, counted from its own first column.
        join: The join.
        condition: What else has to hold, over the left columns followed by the right ones.
        left_unique: Places of columns of which the left input has one row for each value; None if it has no such.
        right_unique: The same of the right input.
        left_upserts: Whether the left input comes without -U: `left_unique` says which row a +U or -D is of.
        right_upserts: The same of the right input.
        before: Whether -U rows are emitted; without, updates come as +U alone where they can be told.
        null_aware: An ANTI join of NOT IN: a NULL among the right keys leaves nothing, a NULL left key is not in.
        null_safe: For each key whether NULL equals NULL (IS NOT DISTINCT FROM); empty for none.
        left_retracts: Whether the left input has anything but inserts.
        right_retracts: The same of the right input.
        zone: The session's time zone.
        ttl_left_ms: How long left rows are kept; None for ever.
        ttl_right_ms: The same of right rows.
    """

    left: RowSchema
    right: RowSchema
    left_keys: tuple[int, ...]
    right_keys: tuple[int, ...]
    join: JoinKind
    condition: RowExpression | None = None
    left_unique: tuple[int, ...] | None = None
    right_unique: tuple[int, ...] | None = None
    left_upserts: bool = False
    right_upserts: bool = False
    before: bool = True
    null_aware: bool = False
    null_safe: tuple[bool, ...] = ()
    left_retracts: bool = True
    right_retracts: bool = True
    zone: str = "UTC"
    ttl_left_ms: int | None = None
    ttl_right_ms: int | None = None
    is_keyed = True
    takes_columns = True

    @property
    def state_form(self) -> str:
        """What is kept of the two sides."""
        return f"{self.join.value} of {len(self.left)} and {len(self.right)} columns"

    def build(self) -> Operator:
        """Make the running half."""
        from millstream.table.runtime.join import JoinOperator

        return JoinOperator(self)


@dataclass(frozen=True)
class IntervalJoinSpec(OperatorSpec):
    """Declares a join of append-only inputs whose times lie within bounds: left + lower <= right <= left + upper.

    Attributes:
        left: Columns of the left input.
        right: Columns of the right input.
        left_keys: Places of the left key columns.
        right_keys: As many of the right input.
        join: INNER, LEFT, RIGHT or FULL; rows without partner come when the watermark says that none will come.
        left_time: Place of the left time attribute.
        right_time: Place of the right time attribute, counted from the right input's first column.
        lower_ms: Least difference of right and left time, inclusive.
        upper_ms: Greatest difference, inclusive.
        condition: What else has to hold, over the left columns followed by the right ones.
        processing: Whether times are those of arrival.
        zone: The session's time zone.
    """

    left: RowSchema
    right: RowSchema
    left_keys: tuple[int, ...]
    right_keys: tuple[int, ...]
    join: JoinKind
    left_time: int
    right_time: int
    lower_ms: int
    upper_ms: int
    condition: RowExpression | None = None
    processing: bool = False
    zone: str = "UTC"
    is_keyed = True
    takes_columns = True

    @property
    def state_form(self) -> str:
        """What is kept, and until when."""
        time = "processing time" if self.processing else "event time"
        return f"{self.join.value}, {time}, from {self.lower_ms} to {self.upper_ms} ms"

    def build(self) -> Operator:
        """Make the running half."""
        from millstream.table.runtime.interval_join import IntervalJoinOperator

        return IntervalJoinOperator(self)


@dataclass(frozen=True)
class WindowJoinSpec(OperatorSpec):
    """Declares a join of the rows of equal windows; results come when the watermark passes the window's end.

    Attributes:
        left: Columns of the left input, window columns among them.
        right: Columns of the right input.
        left_keys: Places of the left key columns, without those of the window.
        right_keys: As many of the right input.
        join: The join.
        left_window: Places of window_start and window_end.
        right_window: The same of the right input.
        condition: What else has to hold, over the left columns followed by the right ones.
        processing: Whether windows end by the clock.
        zone: The session's time zone.
        shift_zone: The same if the time attribute is a TIMESTAMP_LTZ, so window columns are what clocks show there.
    """

    left: RowSchema
    right: RowSchema
    left_keys: tuple[int, ...]
    right_keys: tuple[int, ...]
    join: JoinKind
    left_window: tuple[int, int]
    right_window: tuple[int, int]
    condition: RowExpression | None = None
    processing: bool = False
    zone: str = "UTC"
    shift_zone: str | None = None
    is_keyed = True
    takes_columns = True

    @property
    def state_form(self) -> str:
        """What is kept."""
        return f"{self.join.value} of {len(self.left)} and {len(self.right)} columns"

    def build(self) -> Operator:
        """Make the running half."""
        from millstream.table.runtime.window_join import WindowJoinOperator

        return WindowJoinOperator(self)


@dataclass(frozen=True)
class TemporalJoinSpec(OperatorSpec):
    """Declares a join of left rows with the version of the right row that was valid at the left row's time.

    The right input is a changelog by `right_keys`, which are its primary key. Left rows wait for the watermark.

    Attributes:
        left: Columns of the left input.
        right: Columns of the right input.
        left_keys: Places of the left key columns.
        right_keys: As many of the right input.
        join: INNER or LEFT.
        left_time: Place of the left event-time attribute.
        right_time: Place of the right event-time attribute, counted from the right input's first column.
        condition: What else has to hold, over the left columns followed by the right ones.
        zone: The session's time zone.
    """

    left: RowSchema
    right: RowSchema
    left_keys: tuple[int, ...]
    right_keys: tuple[int, ...]
    join: JoinKind
    left_time: int
    right_time: int
    condition: RowExpression | None = None
    zone: str = "UTC"
    is_keyed = True
    takes_columns = True

    @property
    def state_form(self) -> str:
        """What is kept."""
        return f"{self.join.value} of {len(self.left)} and {len(self.right)} columns"

    def build(self) -> Operator:
        """Make the running half."""
        from millstream.table.runtime.temporal_join import TemporalJoinOperator

        return TemporalJoinOperator(self)


@dataclass(frozen=True)
class LookupJoinSpec(OperatorSpec):
    """Declares a join of each row with what an outside table has for its key as the row passes.

    Attributes:
        input: Columns of the input.
        lookup: Finds rows: for each key a list of tuples with the look-up's columns, in order. A key is a value, or a
            tuple of several.
        keys: Places of the input's columns that are the key, in the order of the look-up's keys.
        right: Columns of the look-up's rows.
        join: INNER or LEFT.
        condition: What else has to hold, over the input's columns followed by the look-up's.
        zone: The session's time zone.
        cache: What each subtask keeps; None for nothing.
        capacity: How many look-ups are under way at most.
        timeout_ms: For one look-up with its attempts; 0 for none.
        ordered: Whether rows keep their order.
        attempts: How often a look-up is tried at most.
        retry_delay_ms: Between two attempts.
        retry_missing: Whether it is tried again when nothing was found, not only after an error.
    """

    input: RowSchema
    lookup: AsyncLookup
    keys: tuple[int, ...]
    right: RowSchema
    join: JoinKind
    condition: RowExpression | None = None
    zone: str = "UTC"
    cache: LookupCache | None = None
    capacity: int = 100
    timeout_ms: int = 180_000
    ordered: bool = True
    attempts: int = 1
    retry_delay_ms: int = 0
    retry_missing: bool = False
    takes_columns = True

    def build(self) -> Operator:
        """Make the running half."""
        from millstream.table.runtime.lookup_join import LookupJoinOperator

        return LookupJoinOperator(self)
