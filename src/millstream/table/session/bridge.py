"""Streams as tables, and tables as streams."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from millstream.table.connectors.conversion import FromSqlSpec
from millstream.table.expressions.rex import RowSchema
from millstream.table.plan.changes import INSERT_ONLY, ChangelogMode

__all__ = ["StreamTable"]


@dataclass(frozen=True, eq=False)
class StreamTable:
    """What the environment knows of a stream that is a table.

    Attributes:
        stream: A DataStream of `Columns` with exactly the schema's columns, f0, f1, ...
        schema: Names and types.
        mode: Which kinds of change its rows have.
        primary_key: Names of columns.
        name: For plans and messages.
        bounded: Whether it ends.
    """

    stream: Any
    schema: RowSchema
    mode: ChangelogMode = INSERT_ONLY
    primary_key: tuple[str, ...] = ()
    name: str = "stream"
    bounded: bool = False

    def scan(self, environment: Any, columns: Sequence[int]) -> Any:
        """Return a stream of some of the columns, in the order given."""
        if tuple(columns) == tuple(range(len(self.schema))):
            return self.stream
        names = tuple(f"f{place}" for place in range(len(columns)))
        types = tuple(self.schema.types[place] for place in columns)
        spec = FromSqlSpec(names, types, tuple(columns), keeps_kinds=True)
        return self.stream._transform(f"{self.name}[columns]", spec)
