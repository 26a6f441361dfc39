"""The Table API (PyFlink's `pyflink.table`); so far its types only."""

from millstream.table.types import DataTypes, Row, RowKind

__all__ = ["DataTypes", "Row", "RowKind"]
