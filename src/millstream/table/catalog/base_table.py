"""Tables and views as catalogs take and give them (PyFlink's `CatalogBaseTable`)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

from millstream.base.errors import TypeMismatchError
from millstream.table.catalog.catalog import CatalogView, Entry
from millstream.table.catalog.definition import as_column, build_table, watermark_of
from millstream.table.catalog.resolved import Identifier, TableColumn
from millstream.table.schema import Schema
from millstream.table.sql.parser import parse_query
from millstream.table.sql.statements_ast import ColumnDefinition, WatermarkDefinition
from millstream.table.table_schema import TableSchema

__all__ = ["CatalogBaseTable"]


@dataclass(frozen=True)
class CatalogBaseTable:
    """A table or a view without its name; made by `create_table` and `create_view`.

    Attributes:
        entry: What a catalog has of it; None of one that was made here.

    Example:
        >>> from millstream.table.catalog import CatalogBaseTable
        >>> from millstream.table import DataTypes, Schema
        >>> schema = Schema.new_builder().column("id", DataTypes.BIGINT()).build()
        >>> table = CatalogBaseTable.create_table(schema, properties={"connector": "datagen"}, comment="numbers")
        >>> table.get_options(), table.get_comment()
        ({'connector': 'datagen'}, 'numbers')
        >>> # catalog.create_table(ObjectPath("shop", "numbers"), table, False)
    """

    _schema: Schema
    _partition_keys: tuple[str, ...] = ()
    _options: Mapping[str, str] = field(default_factory=dict)
    _comment: str = ""
    _query: str | None = None
    entry: Entry | None = field(default=None, compare=False)

    @staticmethod
    def create_table(
        schema: TableSchema | Schema,
        partition_keys: Sequence[str] = (),
        properties: Mapping[str, str] | None = None,
        comment: str | None = None,
    ) -> CatalogBaseTable:
        """Make a table.

        Args:
            schema: Its columns; a `Schema` may have a watermark, a primary key, computed columns too.
            partition_keys: The columns that it is partitioned by.
            properties: Its options, `connector` among them.
            comment: What it is for.

        Raises:
            TypeMismatchError: If the schema is none.
        """
        columns = _schema_of(schema)
        return CatalogBaseTable(columns, tuple(partition_keys), dict(properties or {}), comment or "")

    @staticmethod
    def create_view(
        original_query: str,
        expanded_query: str,
        schema: TableSchema | Schema,
        properties: Mapping[str, str],
        comment: str | None = None,
    ) -> CatalogBaseTable:
        """Make a view.

        Args:
            original_query: The query as it was written.
            expanded_query: The same with full names of tables: this one counts.
            schema: Names and types of its columns.
            properties: Whatever is to be kept with it.
            comment: What it is for.

        Raises:
            TypeMismatchError: If the schema is none.
            SqlError: If it is no query.
        """
        parse_query(expanded_query)
        return CatalogBaseTable(_schema_of(schema), (), dict(properties), comment or "", expanded_query)

    @staticmethod
    def of_entry(entry: Entry, view_schema: Schema) -> CatalogBaseTable:
        """Return what a catalog has (millstream's own).

        Args:
            entry: The table or view.
            view_schema: Columns of a view; of tables it is not looked at.
        """
        if isinstance(entry, CatalogView):
            return CatalogBaseTable(view_schema, (), dict(entry.options), entry.comment, entry.text, entry)
        watermark = None
        if entry.watermark is not None:
            column, expression = entry.watermark
            watermark = WatermarkDefinition(tuple(column.split(".")), expression, entry.watermark_text)
        schema = Schema((), [_definition(each) for each in entry.columns], watermark, entry.primary_key)
        return CatalogBaseTable(schema, entry.partition_keys, dict(entry.options), entry.comment, None, entry)

    @property
    def is_view(self) -> bool:
        """Whether it is a view."""
        return self._query is not None

    def entry_at(self, identifier: Identifier) -> Entry:
        """Return what a catalog keeps under a name (millstream's own).

        Raises:
            ValidationError: If the parts of the table do not fit each other.
        """
        if self.entry is not None:
            return replace(self.entry, identifier=identifier, temporary=False)
        if self._query is not None:
            names = tuple(each.name for each in self._schema.definitions)
            query = parse_query(self._query)
            return CatalogView(
                identifier, self._query, query, names, self._comment, options=dict(self._options)
            )
        watermark, watermark_text = watermark_of(self._schema.watermark)
        return build_table(
            identifier,
            [as_column(each) for each in self._schema.definitions],
            watermark=watermark,
            watermark_text=watermark_text,
            primary_key=self._schema.key,
            partition_keys=self._partition_keys,
            options=self._options,
            comment=self._comment,
        )

    def get_options(self) -> dict[str, str]:
        """Return the options, `connector` among them; of a view its properties."""
        return dict(self._options)

    def get_unresolved_schema(self) -> Schema:
        """Return the columns, with watermark and primary key."""
        return self._schema

    def get_comment(self) -> str:
        """Return what it is for."""
        return self._comment

    def get_description(self) -> str | None:
        """Return the comment; None without."""
        return self._comment or None

    def get_detailed_description(self) -> str | None:
        """Return None: there is no longer one than the comment."""
        return None

    def copy(self) -> CatalogBaseTable:
        """Return the same once more."""
        return replace(self, _options=dict(self._options))


def _schema_of(schema: object) -> Schema:
    if isinstance(schema, Schema):
        return schema
    if not isinstance(schema, TableSchema):
        raise TypeMismatchError(
            f"the columns of a table were given as a {type(schema).__name__}",
            hint="Give a TableSchema or a Schema: Schema.new_builder().column(...).build().",
        )
    return Schema(list(zip(schema.get_field_names(), schema.get_field_data_types(), strict=True)))


def _definition(column: TableColumn) -> ColumnDefinition:
    metadata = column.kind == "metadata"
    return ColumnDefinition(
        column.name,
        column.type,
        column.expression,
        metadata,
        column.metadata_key if metadata and column.metadata_key != column.name else None,
        column.virtual,
        column.comment,
        expression_text=column.expression_text,
    )
