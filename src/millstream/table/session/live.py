"""A query's result as a table on the screen that changes."""

from __future__ import annotations

from collections import Counter
from typing import Any

from rich.console import Console, Group
from rich.live import Live
from rich.table import Table as Grid

__all__ = ["Materialized", "show_live"]

_SHOWN_ROWS = 40


class Materialized:
    """The rows that a changelog has left, in the order they came.

    Args:
        names: Of the columns.
    """

    def __init__(self, names: tuple[str, ...]) -> None:
        self.names = names
        self.changes = 0
        self._rows: Counter[tuple[str | None, ...]] = Counter()

    def apply(self, kind: int, row: tuple[str | None, ...]) -> None:
        """Add a row (+I, +U), or take it back (-U, -D)."""
        self.changes += 1
        if kind in (0, 2):
            self._rows[row] += 1
        elif self._rows[row] > 1:
            self._rows[row] -= 1
        else:
            del self._rows[row]

    def rows(self) -> list[tuple[str | None, ...]]:
        """Return the rows, each as often as it is there."""
        return list(self._rows.elements())

    def grid(self) -> Group:
        """Return the last rows as a table for the screen, and how many there are."""
        rows = self.rows()
        grid = Grid()
        for name in self.names:
            grid.add_column(name, overflow="ellipsis")
        for row in rows[-_SHOWN_ROWS:]:
            grid.add_row(*("<NULL>" if value is None else value for value in row))
        return Group(grid, f"{len(rows)} rows after {self.changes} changes; Ctrl-C ends the query")


def show_live(result: Any) -> None:
    """Show a result until its job ends."""
    from millstream.table.session.values import text_rows

    schema = result.schema
    table = Materialized(schema.names)
    with Live(table.grid(), console=Console(), refresh_per_second=8) as live:
        try:
            for kinds, batch in result.collect_batches():
                for kind, row in text_rows(kinds, batch, schema, result.zone):
                    table.apply(kind, row)
                live.update(table.grid())
        except KeyboardInterrupt:
            result.collect().close()
            raise
