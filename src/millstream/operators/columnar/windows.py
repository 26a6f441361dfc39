"""The declared half of windows by expression: one row for each key and window."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from millstream.base.errors import ConfigurationError
from millstream.operators.base import OperatorSpec
from millstream.operators.columnar.aggregate import describe
from millstream.operators.columnar.aggregates import Aggregate
from millstream.operators.columnar.combining import ColumnCombiner, can_combine
from millstream.operators.columnar.session_windows import SessionWindowOperator
from millstream.operators.columnar.sliced_windows import SlicedWindowOperator
from millstream.operators.columnar.slices import SliceGrid
from millstream.operators.columnar.window_base import ColumnWindowOperator
from millstream.operators.combining import Combiner

__all__ = ["ColumnWindowSpec", "SessionGap"]


@dataclass(frozen=True)
class SessionGap:
    """Declares sessions.

    Attributes:
        gap_ms: Silence that ends one.
    """

    gap_ms: int

    def __str__(self) -> str:
        return "sessions"  # each has its end, whatever the gap is now


@dataclass(frozen=True)
class ColumnWindowSpec(OperatorSpec):
    """Declares aggregates over windows.

    Attributes:
        keys: Names of the key fields; none for windows of all records.
        aggregates: Names of the results, and what they are.
        windows: The windows.
        event_time: Whether they follow event time, or the clock.
        allowed_lateness_ms: How long a window is kept after its end.
        late_tag_id: Side output of late records; None drops and counts them.
        names: Names of the fields of plain tuples, in order; None if they have none.

    Raises:
        ConfigurationError: If the lateness is negative.
    """

    keys: tuple[str, ...]
    aggregates: tuple[tuple[str, Aggregate], ...]
    windows: SliceGrid | SessionGap
    event_time: bool = True
    allowed_lateness_ms: int = 0
    late_tag_id: str | None = None
    names: tuple[str, ...] | None = None
    is_keyed = True
    takes_columns = True

    def __post_init__(self) -> None:
        if self.allowed_lateness_ms < 0:
            raise ConfigurationError(f"the allowed lateness of a window is {self.allowed_lateness_ms} ms")

    @property
    def state_form(self) -> str:
        """Which windows by which time, and what is kept of their records."""
        time = "event time" if self.event_time else "processing time"
        return f"{self.windows}, {time}, {describe(self.aggregates)}"

    @property
    def waits_ms(self) -> int | None:
        """The length of its windows by event time; of sessions the gap."""
        if not self.event_time:
            return None
        return self.windows.gap_ms if isinstance(self.windows, SessionGap) else self.windows.size_ms

    def build(self) -> ColumnWindowOperator:
        """Make the running half."""
        shared: dict[str, Any] = {
            "keys": self.keys,
            "aggregates": self.aggregates,
            "event_time": self.event_time,
            "allowed_lateness_ms": self.allowed_lateness_ms,
            "late_tag_id": self.late_tag_id,
            "names": self.names,
        }
        if isinstance(self.windows, SessionGap):
            return SessionWindowOperator(self.windows.gap_ms, **shared)
        return SlicedWindowOperator(self.windows, **shared)

    def build_combiner(self) -> Combiner | None:
        """Make what begins the aggregates where records come from, if each late record need not be there itself."""
        aggregates, grid = [aggregate for _, aggregate in self.aggregates], self.windows
        late_matter = self.allowed_lateness_ms or self.late_tag_id is not None
        if late_matter or not self.event_time or not can_combine(self.keys, aggregates):
            return None
        # Whether rows are of one session is not known before all of them are there.
        if isinstance(grid, SessionGap) or grid.has_gaps:
            return None
        return ColumnCombiner(self.keys, aggregates, grid)
