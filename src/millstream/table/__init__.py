"""The Table API (PyFlink's `pyflink.table`); so far types, and generated tables as sources of streams."""

import sys
from typing import Any

from millstream.base.errors import NotSupportedError
from millstream.base.not_yet import NotYetAttributeError
from millstream.table.environment_settings import EnvironmentSettings
from millstream.table.schema import Schema
from millstream.table.stream_table_environment import StreamTableEnvironment, Table
from millstream.table.table_descriptor import TableDescriptor
from millstream.table.types import DataTypes, Row, RowKind

__all__ = [
    "DataTypes",
    "EnvironmentSettings",
    "Row",
    "RowKind",
    "Schema",
    "StreamTableEnvironment",
    "Table",
    "TableDescriptor",
]


def __getattr__(name: str) -> Any:
    if not name[:1].isupper():
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    # What looks like an AttributeError becomes an ImportError without a word of ours in `from ... import Name`.
    imports = "importlib" in sys._getframe(1).f_code.co_filename
    raise (NotSupportedError if imports else NotYetAttributeError)(
        f'"{name}" of the Table API is not in millstream yet',
        detail="The Table API and SQL come with a later release.",
        hint="Use the DataStream API.",
    )
