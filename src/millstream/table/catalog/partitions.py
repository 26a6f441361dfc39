"""Partitions of tables (PyFlink's `CatalogPartition` and `CatalogPartitionSpec`)."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace

__all__ = ["CatalogPartition", "CatalogPartitionSpec"]


class CatalogPartitionSpec:
    """Values of partition keys: all of them for one partition, fewer for several.

    >>> from millstream.table.catalog import CatalogPartitionSpec
    >>> str(CatalogPartitionSpec({"day": "2024-01-01", "shop": "7"}))
    'CatalogPartitionSpec{{day=2024-01-01, shop=7}}'
    """

    def __init__(self, partition_spec: Mapping[str, str]) -> None:
        self._spec = dict(partition_spec)

    def get_partition_spec(self) -> dict[str, str]:
        """Return the values by key."""
        return dict(self._spec)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, CatalogPartitionSpec) and self._spec == other._spec

    def __hash__(self) -> int:
        return hash(frozenset(self._spec.items()))

    def __str__(self) -> str:
        return f"CatalogPartitionSpec{{{{{self.values_text()}}}}}"

    __repr__ = __str__

    def values_text(self) -> str:
        """Return keys and values, for messages (millstream's own)."""
        return ", ".join(f"{key}={value}" for key, value in self._spec.items())


@dataclass(frozen=True)
class CatalogPartition:
    """A partition: properties and a comment.

    Example:
        >>> from millstream.table.catalog import CatalogPartition
        >>> partition = CatalogPartition.create_instance({"format": "parquet"}, "written at night")
        >>> partition.get_properties(), partition.get_comment()
        ({'format': 'parquet'}, 'written at night')
    """

    _properties: Mapping[str, str] = field(default_factory=dict)
    _comment: str = ""

    @staticmethod
    def create_instance(properties: Mapping[str, str], comment: str | None = None) -> CatalogPartition:
        """Make a partition of its properties."""
        return CatalogPartition(dict(properties), comment or "")

    def get_properties(self) -> dict[str, str]:
        """Return the properties."""
        return dict(self._properties)

    def get_comment(self) -> str:
        """Return what it is."""
        return self._comment

    def get_description(self) -> str | None:
        """Return None, as Flink does; `get_comment` has what was said."""
        return None

    def get_detailed_description(self) -> str | None:
        """Return None, as Flink does."""
        return None

    def copy(self) -> CatalogPartition:
        """Return the same once more."""
        return replace(self, _properties=dict(self._properties))
