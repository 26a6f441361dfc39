"""What a CREATE TABLE says becomes a table, checked."""

from __future__ import annotations

import copy
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace

from millstream.table.catalog.resolved import Identifier, ResolvedTable, TableColumn
from millstream.table.errors import ValidationError, did_you_mean
from millstream.table.expressions.rex import RowSchema
from millstream.table.sql import ast
from millstream.table.sql.statements_ast import ColumnDefinition, WatermarkDefinition
from millstream.table.sql.unparse import unparse
from millstream.types.datatypes import DataType, TimestampType

__all__ = ["as_column", "build_table", "columns_in"]


def as_column(definition: ColumnDefinition) -> TableColumn:
    """Return a column as catalogs keep it."""
    if definition.expression is not None:
        return TableColumn(
            definition.name,
            "computed",
            None,
            definition.expression,
            _canonical(definition.expression, definition.expression_text),
            comment=definition.comment,
        )
    if definition.metadata:
        return TableColumn(
            definition.name,
            "metadata",
            definition.type,
            metadata_key=definition.metadata_key or definition.name,
            virtual=definition.virtual,
            comment=definition.comment,
        )
    return TableColumn(definition.name, "physical", definition.type, comment=definition.comment)


def _canonical(expression: ast.Expression, written: str) -> str:
    try:
        return unparse(expression)
    except TypeError:  # a query in it
        return written


def build_table(
    identifier: Identifier,
    columns: Sequence[TableColumn],
    *,
    watermark: tuple[str, ast.Expression] | None = None,
    watermark_text: str = "",
    primary_key: Sequence[str] = (),
    partition_keys: Sequence[str] = (),
    options: Mapping[str, str] | None = None,
    comment: str = "",
    temporary: bool = False,
    distribution: str = "",
) -> ResolvedTable:
    """Return a table whose parts fit each other.

    Raises:
        ValidationError: If a key, the watermark or a partition names a column that is not there, or cannot be one.
    """
    names = [column.name for column in columns]
    for name in names:
        if names.count(name) > 1:
            raise ValidationError(f'column "{name}" is defined twice')
    physical = [column.name for column in columns if column.kind == "physical"]
    kept = _with_key(columns, primary_key, physical)
    for key in partition_keys:
        if key not in physical:
            raise ValidationError(
                f'PARTITIONED BY names the column "{key}", which is not a physical column of the table',
                detail=f"It has: {', '.join(physical)}.",
                hint=did_you_mean(key, physical),
            )
    if watermark is not None:
        _check_watermark(watermark[0], kept)
    stored = [column for column in kept if column.kind != "computed" and column.type is not None]
    schema = RowSchema(
        tuple(column.name for column in stored),
        tuple(column.type for column in stored if column.type is not None),
    )
    return ResolvedTable(
        identifier,
        schema,
        tuple(kept),
        watermark,
        tuple(primary_key),
        tuple(partition_keys),
        dict(options or {}),
        comment,
        watermark_text,
        temporary,
        distribution,
    )


def _with_key(
    columns: Sequence[TableColumn], primary_key: Sequence[str], physical: Sequence[str]
) -> list[TableColumn]:
    """Return the columns; those of the primary key are NOT NULL."""
    for key in primary_key:
        if key not in physical:
            known = any(column.name == key for column in columns)
            raise ValidationError(
                f'PRIMARY KEY names the column "{key}", '
                + ("which is not a physical column" if known else "which the table does not have"),
                detail=f"It has: {', '.join(physical)}.",
                hint=did_you_mean(key, physical),
            )
    return [
        replace(column, type=_not_null(column.type)) if column.name in primary_key else column
        for column in columns
    ]


def _not_null(kind: DataType | None) -> DataType | None:
    if kind is None or not kind.nullable:
        return kind
    made = copy.copy(kind)
    made.nullable = False
    return made


def _check_watermark(name: str, columns: Iterable[TableColumn]) -> None:
    found = {column.name: column for column in columns}
    column = found.get(name)
    if column is None:
        raise ValidationError(
            f'WATERMARK is for the column "{name}", which the table does not have',
            detail=f"It has: {', '.join(found)}.",
            hint=did_you_mean(name, found),
        )
    kind = column.type
    if column.kind != "computed" and not (isinstance(kind, TimestampType) and kind.precision <= 3):
        raise ValidationError(
            f'WATERMARK is for the column "{name}" of type {kind}',
            detail="Event time is a TIMESTAMP(p) or TIMESTAMP_LTZ(p) with p from 0 to 3.",
            hint="Declare the column as TIMESTAMP(3), or compute one: t AS TO_TIMESTAMP_LTZ(millis, 3).",
        )


def columns_in(expression: object) -> Iterable[ast.Column]:
    """Yield the columns that an expression names, those in calls too."""
    if isinstance(expression, ast.Column):
        yield expression
    elif isinstance(expression, (tuple, list)):
        for part in expression:
            yield from columns_in(part)
    elif isinstance(expression, ast.Expression):
        for value in vars(expression).values():
            yield from columns_in(value)


def watermark_of(definition: WatermarkDefinition | None) -> tuple[tuple[str, ast.Expression] | None, str]:
    """Return a watermark as tables keep it, and its text."""
    if definition is None:
        return None, ""
    text = _canonical(definition.expression, definition.expression_text)
    return (".".join(definition.column), definition.expression), text
