"""Dialects of SQL (PyFlink's `pyflink.table.sql_dialect`)."""

from __future__ import annotations

from enum import Enum

__all__ = ["SqlDialect"]


class SqlDialect(Enum):
    """Flink's own, and Hive's, which is not in millstream."""

    DEFAULT = 0
    HIVE = 1
