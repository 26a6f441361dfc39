"""How large tables are (PyFlink's `CatalogTableStatistics` and `CatalogColumnStatistics`)."""

from __future__ import annotations

import copy
from collections.abc import Mapping
from typing import Any

__all__ = ["CatalogColumnStatistics", "CatalogTableStatistics"]


class CatalogTableStatistics:
    """Numbers of a table or partition; -1 is unknown.

    Args:
        row_count: Rows.
        field_count: Files, in Flink's meaning.
        total_size: Bytes, as they are stored.
        raw_data_size: Bytes before encoding and compression.
        properties: Whatever else.

    Example:
        >>> from millstream.table.catalog import CatalogTableStatistics
        >>> CatalogTableStatistics(row_count=1_000).get_row_count(), CatalogTableStatistics().get_row_count()
        (1000, -1)
    """

    def __init__(
        self,
        row_count: int | None = None,
        field_count: int | None = None,
        total_size: int | None = None,
        raw_data_size: int | None = None,
        properties: Mapping[str, str] | None = None,
    ) -> None:
        numbers = (row_count, field_count, total_size, raw_data_size)
        self._numbers = tuple(-1 if number is None else number for number in numbers)
        self._properties = dict(properties or {})

    def get_row_count(self) -> int:
        """Return the number of rows."""
        return self._numbers[0]

    def get_field_count(self) -> int:
        """Return the number of files, in Flink's meaning."""
        return self._numbers[1]

    def get_total_size(self) -> int:
        """Return the bytes as they are stored."""
        return self._numbers[2]

    def get_raw_data_size(self) -> int:
        """Return the bytes before encoding and compression."""
        return self._numbers[3]

    def get_properties(self) -> dict[str, str]:
        """Return whatever else is known."""
        return dict(self._properties)

    def copy(self) -> CatalogTableStatistics:
        """Return the same once more."""
        return copy.deepcopy(self)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, CatalogTableStatistics) and self.__dict__ == other.__dict__

    def __hash__(self) -> int:
        return hash(self._numbers)

    def __repr__(self) -> str:
        return f"CatalogTableStatistics{self._numbers}"


class CatalogColumnStatistics:
    """Numbers of columns, by their names; what they are, is the caller's.

    Example:
        >>> from millstream.table.catalog import CatalogColumnStatistics
        >>> CatalogColumnStatistics({"id": {"distinct": 1_000}}).get_column_statistics_data()
        {'id': {'distinct': 1000}}
    """

    def __init__(
        self,
        column_statistics_data: Mapping[str, Any] | None = None,
        properties: Mapping[str, str] | None = None,
    ) -> None:
        self._data = dict(column_statistics_data or {})
        self._properties = dict(properties or {})

    def get_column_statistics_data(self) -> dict[str, Any]:
        """Return the numbers by column."""
        return dict(self._data)

    def get_properties(self) -> dict[str, str]:
        """Return whatever else is known."""
        return dict(self._properties)

    def copy(self) -> CatalogColumnStatistics:
        """Return the same once more."""
        return copy.deepcopy(self)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, CatalogColumnStatistics) and self.__dict__ == other.__dict__

    def __hash__(self) -> int:
        return hash(frozenset(self._data))
