"""Dialects of SQL (PyFlink's `pyflink.table.sql_dialect`)."""

from __future__ import annotations

from enum import Enum

__all__ = ["SqlDialect"]


class SqlDialect(Enum):
    """Flink's own, and Hive's, which is not in millstream.

    Example:
        >>> from millstream.table import EnvironmentSettings, SqlDialect, TableEnvironment
        >>> t_env = TableEnvironment.create(EnvironmentSettings.in_streaming_mode())
        >>> t_env.get_config().get_sql_dialect() == SqlDialect.DEFAULT
        True
    """

    DEFAULT = 0
    HIVE = 1
