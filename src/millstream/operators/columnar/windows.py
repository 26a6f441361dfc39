"""The declared half of windows by expression: one row for each key and window."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from millstream.base.errors import ConfigurationError
from millstream.operators.base import OperatorSpec
from millstream.operators.columnar.aggregate import describe
from millstream.operators.columnar.aggregates import Aggregate
from millstream.operators.columnar.combining import ColumnCombiner, can_combine
from millstream.operators.columnar.sliced_windows import SlicedWindowOperator
from millstream.operators.columnar.slices import SliceGrid
from millstream.operators.columnar.window_base import ColumnWindowOperator
from millstream.operators.combining import Combiner

__all__ = ["ColumnWindowSpec"]


@dataclass(frozen=True)
class ColumnWindowSpec(OperatorSpec):
    """Declares aggregates over windows.

    Attributes:
        keys: Names of the key fields.
        aggregates: Names of the results, and what they are.
        grid: The windows.
        event_time: Whether they follow event time, or the clock.
        allowed_lateness_ms: How long a window is kept after its end.
        late_tag_id: Side output of late records; None drops and counts them.
        names: Names of the fields of plain tuples, in order; None if they have none.

    Raises:
        ConfigurationError: If the lateness is negative.
    """

    keys: tuple[str, ...]
    aggregates: tuple[tuple[str, Aggregate], ...]
    grid: SliceGrid
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
        grid, time = self.grid, "event time" if self.event_time else "processing time"
        windows = (
            f"slices of windows of {grid.size_ms} ms every {grid.slide_ms} ms, offset {grid.offset_ms} ms"
        )
        return f"{windows}, {time}, {describe(self.aggregates)}"

    @property
    def waits_ms(self) -> int | None:
        """The length of its windows by event time."""
        return self.grid.size_ms if self.event_time else None

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
        return SlicedWindowOperator(self.grid, **shared)

    def build_combiner(self) -> Combiner | None:
        """Make what begins the aggregates where records come from, if each late record need not be there itself."""
        aggregates = [aggregate for _, aggregate in self.aggregates]
        late_matter = self.allowed_lateness_ms or self.late_tag_id is not None
        if late_matter or not self.event_time or self.grid.has_gaps or not can_combine(self.keys, aggregates):
            return None
        return ColumnCombiner(self.keys, aggregates, self.grid)
