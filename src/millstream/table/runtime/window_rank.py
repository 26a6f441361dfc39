"""Top-N of windows, and one row of each key in a window."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa

from millstream.table.runtime.arrays import arrow_types
from millstream.table.runtime.changes import columns_batch
from millstream.table.runtime.epoch_operator import Input
from millstream.table.runtime.top_table import TopTable
from millstream.table.runtime.window_rows import WindowRowsOperator

if TYPE_CHECKING:
    from millstream.table.runtime.rank_specs import WindowRankSpec

__all__ = ["WindowRankOperator"]

_NONE = -1


class WindowRankOperator(WindowRowsOperator):
    """Keeps the first rows of each window and partition until the window ends.

    Args:
        spec: What is declared.
        newest: Whether of equal rows the last that came is first.
    """

    def __init__(self, spec: WindowRankSpec, *, newest: bool = False) -> None:
        kinds = arrow_types(spec.input)
        super().__init__(
            [kinds], [spec.partition], [spec.window], processing=spec.processing, zone=spec.shift_zone
        )
        self._spec = spec
        self._top = TopTable(kinds, spec.order, spec.end, retracts=False, newest=newest)

    def add(self, index: int, rows: Input, slots: Any) -> None:
        """Keep rows that are among the first so far."""
        self._top.reach(len(self.slots))
        self._top.add(slots, rows)

    def fire(self, slots: Any) -> None:
        """Emit the first rows of windows, in their order."""
        top = self._top.rows_of(slots)[:, self._spec.start - 1 :]
        where = np.nonzero(top != _NONE)
        if len(where[0]):
            columns = self._top.pool.rows.take(top[where])
            if self._spec.with_number:
                columns.append(pa.array(where[1] + self._spec.start, pa.int64()))
            self.emit(columns_batch(columns, None, len(where[0])))
        self._top.clear(slots)
        if self._top.is_wasteful:
            self._top.keep(np.arange(len(self.slots)))

    def renumber(self, slots: Any) -> None:
        """Have some slots only."""
        self._top.keep(slots)

    def entries(self, slots: Any) -> list[Any]:
        """Return the first rows of slots."""
        return self._top.entries(slots)

    def restore(self, slots: Any, entries: list[Any]) -> None:
        """Take over the first rows of slots."""
        self._top.reach(len(self.slots))
        self._top.restore(slots, entries)
