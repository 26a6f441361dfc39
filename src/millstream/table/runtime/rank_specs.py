"""The declared halves of operators that keep some rows of each key: Top-N, deduplication, normalization, sorts.

Operators are imported when they are built: who plans needs few of them.
"""

from __future__ import annotations

from dataclasses import dataclass

from millstream.operators.base import Operator, OperatorSpec
from millstream.table.expressions.rex import RowExpression, RowSchema, SortKey

__all__ = [
    "DeduplicateSpec",
    "MaterializeSpec",
    "NormalizeSpec",
    "RankSpec",
    "SortLimitSpec",
    "SortSpec",
    "TemporalSortSpec",
    "WindowDeduplicateSpec",
    "WindowRankSpec",
]


@dataclass(frozen=True)
class RankSpec(OperatorSpec):
    """Declares Top-N: rows whose ROW_NUMBER() is within bounds; the output has the input's columns, then the number.

    Attributes:
        input: Columns of the input.
        partition: Places of the PARTITION BY columns.
        order: What rows are sorted by; equal ones stay in the order in which they came.
        start: First number that is put out, from 1.
        end: Last number.
        end_column: Place of a column that has the last number instead; the first row of a key decides.
        with_number: Whether the number is put out, a BIGINT.
        retracts: Whether the input has -U or -D rows.
        before: Whether -U rows are emitted.
        unique_keys: Places of columns that tell a row from all others; empty if there are none. A row without -U that
            has the key of one before replaces it.
        ttl_ms: How long a key is kept after its last row; None for ever.
    """

    input: RowSchema
    partition: tuple[int, ...]
    order: tuple[SortKey, ...]
    start: int = 1
    end: int = 1
    end_column: int | None = None
    with_number: bool = False
    retracts: bool = False
    before: bool = True
    unique_keys: tuple[int, ...] = ()
    ttl_ms: int | None = None
    is_keyed = True
    takes_columns = True

    @property
    def state_form(self) -> str:
        """What is kept."""
        kept = "all rows" if self.retracts else f"rows to {self.end}"
        return f"{kept} by {self.order}"

    def build(self) -> Operator:
        """Make the running half."""
        from millstream.table.runtime.rank import RankOperator

        return RankOperator(self)


@dataclass(frozen=True)
class DeduplicateSpec(OperatorSpec):
    """Declares that of the rows of a key the first or the last one is kept; the input is append-only.

    The first one, by arrival or by event time, comes out once and is never replaced: by event time when the watermark
    has passed it, and rows behind the watermark are dropped. The last one is replaced.

    Attributes:
        input: Columns of the input.
        keys: Places of the key columns.
        rowtime: Place of the event-time column that says which is first; None for the order of arrival.
        keep_last: Whether the last one is kept.
        before: Whether -U rows are emitted.
        ttl_ms: How long a key is kept after its last change; None for ever.
    """

    input: RowSchema
    keys: tuple[int, ...]
    rowtime: int | None = None
    keep_last: bool = False
    before: bool = True
    ttl_ms: int | None = None
    is_keyed = True
    takes_columns = True

    @property
    def state_form(self) -> str:
        """What is kept."""
        time = "arrival" if self.rowtime is None else "event time"
        return f"{'last' if self.keep_last else 'first'} by {time}"

    def build(self) -> Operator:
        """Make the running half."""
        from millstream.table.runtime.keyed_rows import DeduplicateOperator

        return DeduplicateOperator(self)


@dataclass(frozen=True)
class WindowRankSpec(OperatorSpec):
    """Declares Top-N of each window; results come when the watermark passes the window's end.

    Attributes:
        input: Columns of the input.
        partition: Places of the PARTITION BY columns, without those of the window.
        order: What rows are sorted by.
        window: Places of window_start and window_end.
        start: First number that is put out, from 1.
        end: Last number.
        with_number: Whether the number is put out, a BIGINT.
        processing: Whether windows end by the clock.
        shift_zone: The session's time zone if the time attribute is a TIMESTAMP_LTZ; None for a TIMESTAMP.
    """

    input: RowSchema
    partition: tuple[int, ...]
    order: tuple[SortKey, ...]
    window: tuple[int, int]
    start: int = 1
    end: int = 1
    with_number: bool = False
    processing: bool = False
    shift_zone: str | None = None
    is_keyed = True
    takes_columns = True

    @property
    def state_form(self) -> str:
        """What is kept."""
        return f"rows to {self.end} by {self.order}"

    def build(self) -> Operator:
        """Make the running half."""
        from millstream.table.runtime.window_rank import WindowRankOperator

        return WindowRankOperator(self)


@dataclass(frozen=True)
class WindowDeduplicateSpec(OperatorSpec):
    """Declares that of the rows of a key and window the first or the last one is kept.

    Attributes:
        input: Columns of the input.
        keys: Places of the key columns, without those of the window.
        rowtime: Place of the event-time column that says which is first.
        window: Places of window_start and window_end.
        keep_last: Whether the last one is kept.
        shift_zone: The session's time zone if the time attribute is a TIMESTAMP_LTZ; None for a TIMESTAMP.
    """

    input: RowSchema
    keys: tuple[int, ...]
    rowtime: int
    window: tuple[int, int]
    keep_last: bool = False
    shift_zone: str | None = None
    is_keyed = True
    takes_columns = True

    @property
    def state_form(self) -> str:
        """What is kept."""
        return "last" if self.keep_last else "first"

    def build(self) -> Operator:
        """Make the running half."""
        from millstream.table.runtime.window_rank import WindowRankOperator

        return WindowRankOperator(
            WindowRankSpec(
                self.input,
                self.keys,
                (SortKey(self.rowtime, descending=self.keep_last, nulls_first=False),),
                self.window,
                shift_zone=self.shift_zone,
            ),
            newest=self.keep_last,
        )


@dataclass(frozen=True)
class NormalizeSpec(OperatorSpec):
    """Declares that upserts become changes with the row before (ChangelogNormalize).

    Attributes:
        input: Columns of the input.
        key: Places of the unique key.
        before: Whether -U rows are emitted.
        ttl_ms: How long a row is kept after its last change; None for ever.
        condition: A filter behind: a row that does not match counts as deleted; None keeps all.
        zone: The session's time zone.
    """

    input: RowSchema
    key: tuple[int, ...]
    before: bool = True
    ttl_ms: int | None = None
    condition: RowExpression | None = None
    zone: str = "UTC"
    is_keyed = True
    takes_columns = True

    @property
    def state_form(self) -> str:
        """What is kept."""
        return f"{len(self.input)} columns"

    def build(self) -> Operator:
        """Make the running half."""
        from millstream.table.runtime.keyed_rows import NormalizeOperator

        return NormalizeOperator(self)


@dataclass(frozen=True)
class MaterializeSpec(OperatorSpec):
    """Declares that of all rows with a sink's key the last one that is still there is the sink's row.

    Attributes:
        input: Columns of the input.
        key: Places of the sink's primary key.
        upsert_key: Places of columns that tell the input's rows apart; None for all columns.
        ttl_ms: How long rows are kept after the key's last change; None for ever.
    """

    input: RowSchema
    key: tuple[int, ...]
    upsert_key: tuple[int, ...] | None = None
    ttl_ms: int | None = None
    is_keyed = True
    takes_columns = True

    @property
    def state_form(self) -> str:
        """What is kept."""
        return f"{len(self.input)} columns"

    def build(self) -> Operator:
        """Make the running half."""
        from millstream.table.runtime.rank import MaterializeOperator

        return MaterializeOperator(
            RankSpec(
                self.input,
                self.key,
                (),
                retracts=True,
                unique_keys=self.upsert_key or (),
                ttl_ms=self.ttl_ms,
            ),
            newest=True,
        )


@dataclass(frozen=True)
class TemporalSortSpec(OperatorSpec):
    """Declares ORDER BY of a stream by its event time first; on one subtask.

    Attributes:
        input: Columns of the input.
        time: Place of the time attribute.
        rest: What rows of the same time are sorted by.
        processing: Whether the time is processing time: rows come as they are, those of one epoch sorted by `rest`.
    """

    input: RowSchema
    time: int
    rest: tuple[SortKey, ...] = ()
    processing: bool = False
    is_keyed = True
    takes_columns = True

    def build(self) -> Operator:
        """Make the running half."""
        from millstream.table.runtime.sorts import TemporalSortOperator

        return TemporalSortOperator(self)


@dataclass(frozen=True)
class SortLimitSpec(OperatorSpec):
    """Declares ORDER BY with FETCH, kept up to date; on one subtask.

    Attributes:
        input: Columns of the input.
        keys: What rows are sorted by.
        offset: Rows left out at first.
        fetch: How many follow.
        retracts: Whether the input has -U or -D rows.
        before: Whether -U rows are emitted.
    """

    input: RowSchema
    keys: tuple[SortKey, ...]
    offset: int
    fetch: int
    retracts: bool = False
    before: bool = True
    is_keyed = True
    takes_columns = True

    def build(self) -> Operator:
        """Make the running half."""
        from millstream.table.runtime.rank import RankOperator

        return RankOperator(
            RankSpec(
                self.input,
                (),
                self.keys,
                self.offset + 1,
                self.offset + self.fetch,
                retracts=self.retracts,
                before=self.before,
            )
        )


@dataclass(frozen=True)
class SortSpec(OperatorSpec):
    """Declares ORDER BY of a bounded input, given once at the end; on one subtask.

    Attributes:
        input: Columns of the input.
        keys: What rows are sorted by.
        offset: Rows left out at first.
        fetch: How many follow; None for all.
    """

    input: RowSchema
    keys: tuple[SortKey, ...]
    offset: int = 0
    fetch: int | None = None
    is_keyed = True
    takes_columns = True

    def build(self) -> Operator:
        """Make the running half."""
        from millstream.table.runtime.sorts import SortOperator

        return SortOperator(self)
