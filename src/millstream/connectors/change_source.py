"""What sources of the changes of tables have in common (change data capture), and their builders."""

from __future__ import annotations

from typing import Any, Protocol, Self

from millstream.connectors.table_source import SPLIT_ROWS, ServerSettings, positive
from millstream.spi.source import Boundedness, Source

__all__ = ["ChangeSource", "ChangeSourceBuilder"]


class _Request(Protocol):
    @property
    def tables(self) -> tuple[str, ...]:
        """The tables."""


class ChangeSource(Source):
    """The rows of tables, and then each insert, update and delete.

    Args:
        address: Of the server; shown without secrets.
        request: Which tables, and how.
    """

    def __init__(self, address: Any, request: _Request) -> None:
        self._address = address
        self._request: Any = request

    def __repr__(self) -> str:
        return f"{type(self).__name__}({', '.join(self._request.tables)} at {self._address})"

    def get_boundedness(self) -> Boundedness:
        """Return CONTINUOUS_UNBOUNDED."""
        return Boundedness.CONTINUOUS_UNBOUNDED


class ChangeSourceBuilder(ServerSettings):
    """Says which tables are read; each method returns the builder."""

    def __init__(self) -> None:
        super().__init__()
        self._tables: tuple[str, ...] = ()
        self._reads_tables = True
        self._split_rows = SPLIT_ROWS

    def set_tables(self, *tables: str) -> Self:
        """Read the changes of these tables, named as in SQL: `orders`, `shop.orders`."""
        self._tables = tables
        return self

    def set_changes_only(self) -> Self:
        """Read no tables first: changes from when the job starts on."""
        self._reads_tables = False
        return self

    def set_split_size(self, rows: int) -> Self:
        """Have about so many rows in a split as the tables are read; by default 200,000.

        Raises:
            ConfigurationError: If it is not positive.
        """
        self._split_rows = positive("split size", rows)
        return self
