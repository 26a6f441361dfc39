"""Catalogs: databases, tables, views and functions by name, and the connectors of tables.

PyFlink's names of `pyflink.table.catalog` are imported from their modules when they are first used: the planner's
own names (`catalog/catalog.py`, `resolved.py`) do not bring them in.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from millstream.table.catalog.api import Catalog, HiveCatalog, JdbcCatalog
    from millstream.table.catalog.base_table import CatalogBaseTable
    from millstream.table.catalog.catalog import CatalogDatabase, CatalogFunction
    from millstream.table.catalog.columns import Column, ComputedColumn, MetadataColumn, PhysicalColumn
    from millstream.table.catalog.descriptor import CatalogDescriptor
    from millstream.table.catalog.model import CatalogModel, Procedure
    from millstream.table.catalog.object_identifier import ObjectIdentifier, ObjectPath
    from millstream.table.catalog.partitions import CatalogPartition, CatalogPartitionSpec
    from millstream.table.catalog.resolved_schema import (
        Constraint,
        ResolvedSchema,
        UniqueConstraint,
        WatermarkSpec,
    )
    from millstream.table.catalog.statistics import CatalogColumnStatistics, CatalogTableStatistics

__all__ = [
    "Catalog",
    "CatalogBaseTable",
    "CatalogColumnStatistics",
    "CatalogDatabase",
    "CatalogDescriptor",
    "CatalogFunction",
    "CatalogModel",
    "CatalogPartition",
    "CatalogPartitionSpec",
    "CatalogTableStatistics",
    "Column",
    "ComputedColumn",
    "Constraint",
    "HiveCatalog",
    "JdbcCatalog",
    "MetadataColumn",
    "ObjectIdentifier",
    "ObjectPath",
    "PhysicalColumn",
    "Procedure",
    "ResolvedSchema",
    "UniqueConstraint",
    "WatermarkSpec",
]

_HOMES = {
    "Catalog": "api",
    "CatalogBaseTable": "base_table",
    "CatalogColumnStatistics": "statistics",
    "CatalogDatabase": "catalog",
    "CatalogDescriptor": "descriptor",
    "CatalogFunction": "catalog",
    "CatalogModel": "model",
    "CatalogPartition": "partitions",
    "CatalogPartitionSpec": "partitions",
    "CatalogTableStatistics": "statistics",
    "Column": "columns",
    "ComputedColumn": "columns",
    "Constraint": "resolved_schema",
    "HiveCatalog": "api",
    "JdbcCatalog": "api",
    "MetadataColumn": "columns",
    "ObjectIdentifier": "object_identifier",
    "ObjectPath": "object_identifier",
    "PhysicalColumn": "columns",
    "Procedure": "model",
    "ResolvedSchema": "resolved_schema",
    "UniqueConstraint": "resolved_schema",
    "WatermarkSpec": "resolved_schema",
}


def __getattr__(name: str) -> Any:
    home = _HOMES.get(name)
    if home is None:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(f"{__name__}.{home}"), name)
