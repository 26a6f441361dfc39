"""Columns of a table as a program declares them (PyFlink's `pyflink.table.schema`)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from millstream.base.errors import ConfigurationError, TypeMismatchError
from millstream.table.sql.statements_ast import ColumnDefinition, WatermarkDefinition
from millstream.table.sql.unparse import quote_name, quote_text
from millstream.types.datatypes import DataType, RowType

__all__ = ["Schema"]


class Schema:
    """Columns, a watermark, a primary key.

    Attributes:
        definitions: All columns, in order.
        watermark: The watermark; None without.
        key: Names of the primary key's columns.

    Example:
        >>> from millstream.table import DataTypes, Schema
        >>> schema = (
        ...     Schema.new_builder()
        ...     .column("id", DataTypes.BIGINT().not_null())
        ...     .column("at", DataTypes.TIMESTAMP(3))
        ...     .column_by_expression("day", "CAST(`at` AS DATE)")
        ...     .watermark("at", "`at` - INTERVAL '5' SECOND")
        ...     .primary_key("id")
        ...     .build()
        ... )
        >>> print(schema)
        (
          `id` BIGINT NOT NULL,
          `at` TIMESTAMP(3),
          `day` AS [CAST(`at` AS DATE)],
          WATERMARK FOR `at` AS [`at` - INTERVAL '5' SECOND],
          CONSTRAINT `PK_id` PRIMARY KEY (`id`) NOT ENFORCED
        )
    """

    def __init__(
        self,
        columns: Sequence[tuple[str, DataType]] = (),
        definitions: Sequence[ColumnDefinition] | None = None,
        watermark: WatermarkDefinition | None = None,
        key: Sequence[str] = (),
    ) -> None:
        if definitions is None:
            definitions = [ColumnDefinition(name, kind) for name, kind in columns]
        self.definitions = tuple(definitions)
        self.watermark = watermark
        self.key = tuple(key)

    @property
    def columns(self) -> tuple[tuple[str, DataType], ...]:
        """Names and types of the physical columns, in order."""
        return tuple(
            (each.name, each.type) for each in self.definitions if each.type is not None and not each.metadata
        )

    @staticmethod
    def new_builder() -> Schema.Builder:
        """Begin a schema."""
        return Schema.Builder()

    def __str__(self) -> str:
        lines = [f"{quote_name(each.name)} {_summary(each)}" for each in self.definitions]
        if self.watermark is not None:
            column = ".".join(map(quote_name, self.watermark.column))
            lines.append(f"WATERMARK FOR {column} AS [{self.watermark.expression_text}]")
        if self.key:
            columns = ", ".join(map(quote_name, self.key))
            name = quote_name("PK_" + "_".join(self.key))
            lines.append(f"CONSTRAINT {name} PRIMARY KEY ({columns}) NOT ENFORCED")
        return "(\n" + ",\n".join(f"  {line}" for line in lines) + "\n)"

    def __repr__(self) -> str:
        parts = [f"{each.name} {each.type or 'AS ' + each.expression_text}" for each in self.definitions]
        if self.watermark is not None:
            column = ".".join(self.watermark.column)
            parts.append(f"WATERMARK FOR {column} AS {self.watermark.expression_text}")
        if self.key:
            parts.append(f"PRIMARY KEY ({', '.join(self.key)}) NOT ENFORCED")
        return f"({', '.join(parts)})"

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Schema):
            return False
        mine = (self.definitions, self.watermark, self.key)
        return mine == (other.definitions, other.watermark, other.key)

    def __hash__(self) -> int:
        return hash(repr(self))

    class Builder:
        """Makes a schema; each method returns the builder."""

        def __init__(self) -> None:
            self._definitions: list[ColumnDefinition] = []
            self._watermark: WatermarkDefinition | None = None
            self._key: tuple[str, ...] = ()

        def from_schema(self, unresolved_schema: Schema) -> Schema.Builder:
            """Add all of another schema."""
            for definition in unresolved_schema.definitions:
                self._add(definition)
            self._watermark = unresolved_schema.watermark or self._watermark
            self._key = unresolved_schema.key or self._key
            return self

        def from_resolved_schema(self, resolved_schema: Any) -> Schema.Builder:
            """Add the columns of a result's or table's schema, with its watermark and primary key.

            Raises:
                TypeMismatchError: If it is no `ResolvedSchema`.
            """
            from millstream.table.catalog.resolved_schema import ResolvedSchema

            if not isinstance(resolved_schema, ResolvedSchema):
                raise TypeMismatchError(
                    f"from_resolved_schema was given a {type(resolved_schema).__name__}, not a ResolvedSchema"
                )
            for column in resolved_schema.get_columns():
                self._add(column.definition())
            for spec in resolved_schema.get_watermark_specs():
                self.watermark(spec.get_rowtime_attribute(), spec.get_watermark_expression())
            key = resolved_schema.get_primary_key()
            return self if key is None else self.primary_key(*key.get_columns())

        def from_row_data_type(self, data_type: DataType) -> Schema.Builder:
            """Add the fields of a row type as columns.

            Raises:
                TypeMismatchError: If it is no row type.
            """
            if not isinstance(data_type, RowType):
                raise TypeMismatchError(f"from_row_data_type was given {data_type!r}, not a row type")
            return self.from_fields(data_type.field_names(), data_type.field_types())

        def from_fields(
            self, field_names: Sequence[str], field_data_types: Sequence[DataType | str]
        ) -> Schema.Builder:
            """Add columns.

            Raises:
                ConfigurationError: If there are not as many names as types.
            """
            if len(field_names) != len(field_data_types):
                raise ConfigurationError(
                    f"a schema was given {len(field_names)} names and {len(field_data_types)} types"
                )
            for name, kind in zip(field_names, field_data_types, strict=True):
                self.column(name, kind)
            return self

        def column(self, column_name: str, data_type: DataType | str) -> Schema.Builder:
            """Add a physical column.

            Raises:
                ConfigurationError: If there is one of that name.
                TypeMismatchError: If the type is none of `DataTypes`, and no text of one.
            """
            return self._add(ColumnDefinition(column_name, _type_of(column_name, data_type)))

        def column_by_expression(self, column_name: str, expr: Any) -> Schema.Builder:
            """Add a computed column.

            Args:
                column_name: Its name.
                expr: SQL text, or an expression.
            """
            tree, text = _expression_of(expr)
            return self._add(ColumnDefinition(column_name, expression=tree, expression_text=text))

        def column_by_metadata(
            self,
            column_name: str,
            data_type: DataType | str,
            metadata_key: str | None = None,
            is_virtual: bool = False,
        ) -> Schema.Builder:
            """Add a column that the connector reads or writes beside the row.

            Args:
                column_name: Its name.
                data_type: Its type.
                metadata_key: The connector's name for it; the column's by default.
                is_virtual: Whether it is not written.
            """
            kind = _type_of(column_name, data_type)
            return self._add(
                ColumnDefinition(
                    column_name, kind, metadata=True, metadata_key=metadata_key, virtual=is_virtual
                )
            )

        def watermark(self, column_name: str, watermark_expr: Any) -> Schema.Builder:
            """Make a column the event time.

            Args:
                column_name: Its name.
                watermark_expr: SQL text or an expression of the watermark; `SOURCE_WATERMARK()` keeps a stream's.
            """
            tree, text = _expression_of(watermark_expr)
            self._watermark = WatermarkDefinition((column_name,), tree, text)
            return self

        def primary_key(self, *column_names: str) -> Schema.Builder:
            """Set the columns that tell rows apart; nothing checks that they do.

            Raises:
                ConfigurationError: If there is a key already, or none is named.
            """
            if self._key or not column_names:
                raise ConfigurationError("a schema has one primary key, of one column at least")
            self._key = tuple(column_names)
            return self

        def primary_key_named(self, constraint_name: str, *column_names: str) -> Schema.Builder:
            """Set the primary key, with a name for it."""
            return self.primary_key(*column_names)

        def build(self) -> Schema:
            """Make the schema."""
            return Schema((), self._definitions, self._watermark, self._key)

        def _add(self, definition: ColumnDefinition) -> Schema.Builder:
            if any(definition.name == each.name for each in self._definitions):
                raise ConfigurationError(f'a schema has column "{definition.name}" twice')
            self._definitions.append(definition)
            return self


def _summary(column: ColumnDefinition) -> str:
    """Return all but the name, in Flink's form."""
    if column.expression is not None:
        text = f"AS [{column.expression_text}]"
    else:
        text = f"{column.type}"
        if column.metadata:
            key = f" FROM {quote_text(column.metadata_key)}" if column.metadata_key is not None else ""
            text += f" METADATA{key}{' VIRTUAL' if column.virtual else ''}"
    return text + (f" COMMENT {quote_text(column.comment)}" if column.comment else "")


def _type_of(name: str, data_type: DataType | str) -> DataType:
    if isinstance(data_type, str):
        from millstream.table.sql.parser import parse_type  # the parser, only for types as text

        return parse_type(data_type)
    if not isinstance(data_type, DataType):
        raise TypeMismatchError(f'column "{name}" was given {data_type!r} as its type')
    return data_type


def _expression_of(given: Any) -> tuple[Any, str]:
    from millstream.table.sql import ast
    from millstream.table.sql.unparse import unparse

    if isinstance(given, str):
        from millstream.table.sql.parser import parse_expression

        return parse_expression(given), given
    tree = given if isinstance(given, ast.Expression) else getattr(given, "node", None)
    if not isinstance(tree, ast.Expression):
        raise TypeMismatchError(f"{given!r} is no expression", hint="Give SQL text, or col(...).")
    try:
        return tree, unparse(tree)
    except TypeError:
        return tree, repr(given)
