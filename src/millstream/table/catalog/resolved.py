"""Tables as catalogs keep them: columns with their types, and where the rows come from or go."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from millstream.table.expressions.rex import RowSchema
from millstream.table.sql.ast import Expression
from millstream.types.datatypes import DataType

__all__ = ["Identifier", "ResolvedTable", "TableColumn", "quoted"]

Identifier = tuple[str, str, str]
"""Catalog, database, name."""


def quoted(identifier: tuple[str, ...]) -> str:
    """Return a name with dots, each part in backquotes, as Flink shows it.

    >>> quoted(("default_catalog", "default_database", "t"))
    '`default_catalog`.`default_database`.`t`'
    """
    return ".".join("`" + part.replace("`", "``") + "`" for part in identifier)


@dataclass(frozen=True)
class TableColumn:
    """A declared column.

    Attributes:
        name: Its name.
        kind: `physical`, `metadata` or `computed`.
        type: None of computed ones: it follows from the expression.
        expression: Of computed ones.
        expression_text: As it was written.
        metadata_key: What the connector calls it; of metadata columns only.
        virtual: Whether it is read only; of metadata columns.
        comment: What it means.
    """

    name: str
    kind: str = "physical"
    type: DataType | None = None
    expression: Expression | None = None
    expression_text: str = ""
    metadata_key: str = ""
    virtual: bool = False
    comment: str = ""

    @property
    def is_written(self) -> bool:
        """Whether INSERT writes it."""
        return self.kind == "physical" or (self.kind == "metadata" and not self.virtual)


@dataclass(frozen=True)
class ResolvedTable:
    """A table.

    Attributes:
        identifier: Its full name.
        schema: Physical and metadata columns, in the order they were declared: what a scan gives.
        columns: All declared columns, in order.
        watermark: Column and expression of the watermark; None without.
        primary_key: Names of its columns; empty without.
        partition_keys: Names of columns.
        options: All options, `connector` among them.
        comment: What it is for.
        watermark_text: The watermark's expression as it was written.
        temporary: Whether only the session knows it.
        distribution: The DISTRIBUTED clause as it was written.
    """

    identifier: Identifier
    schema: RowSchema
    columns: tuple[TableColumn, ...]
    watermark: tuple[str, Expression] | None = None
    primary_key: tuple[str, ...] = ()
    partition_keys: tuple[str, ...] = ()
    options: Mapping[str, str] = field(default_factory=dict)
    comment: str = ""
    watermark_text: str = ""
    temporary: bool = False
    distribution: str = ""

    @property
    def name(self) -> str:
        """Its last name."""
        return self.identifier[-1]

    @property
    def full_name(self) -> str:
        """Its full name, with dots."""
        return ".".join(self.identifier)

    @property
    def connector(self) -> str | None:
        """Name of its connector; None if it has none."""
        return self.options.get("connector")

    @property
    def write_schema(self) -> RowSchema:
        """Columns that INSERT writes: physical ones, then metadata that is not virtual, in declared order."""
        written = [column for column in self.columns if column.is_written]
        types = tuple(column.type for column in written if column.type is not None)
        return RowSchema(tuple(column.name for column in written), types)

    @property
    def physical(self) -> tuple[TableColumn, ...]:
        """The physical columns."""
        return tuple(column for column in self.columns if column.kind == "physical")

    def column(self, name: str) -> TableColumn | None:
        """Return a column by its name; None if there is none."""
        return next((column for column in self.columns if column.name == name), None)
