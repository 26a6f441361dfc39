"""Catalogs: databases, tables, views and functions by name, and the connectors of tables.

PyFlink's names of `pyflink.table.catalog` are imported from their modules when they are first used: the planner's
own names (`catalog/catalog.py`, `resolved.py`) do not bring them in.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from millstream.table.catalog.columns import Column, ComputedColumn, MetadataColumn, PhysicalColumn
    from millstream.table.catalog.object_identifier import ObjectIdentifier, ObjectPath
    from millstream.table.catalog.resolved_schema import (
        Constraint,
        ResolvedSchema,
        UniqueConstraint,
        WatermarkSpec,
    )

__all__ = [
    "Column",
    "ComputedColumn",
    "Constraint",
    "MetadataColumn",
    "ObjectIdentifier",
    "ObjectPath",
    "PhysicalColumn",
    "ResolvedSchema",
    "UniqueConstraint",
    "WatermarkSpec",
]

_HOMES = {
    "Column": "columns",
    "ComputedColumn": "columns",
    "Constraint": "resolved_schema",
    "MetadataColumn": "columns",
    "ObjectIdentifier": "object_identifier",
    "ObjectPath": "object_identifier",
    "PhysicalColumn": "columns",
    "ResolvedSchema": "resolved_schema",
    "UniqueConstraint": "resolved_schema",
    "WatermarkSpec": "resolved_schema",
}


def __getattr__(name: str) -> Any:
    home = _HOMES.get(name)
    if home is None:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(f"{__name__}.{home}"), name)
