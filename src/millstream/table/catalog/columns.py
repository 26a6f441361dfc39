"""Columns with their types (PyFlink's `Column` and its kinds)."""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass, replace
from typing import Any, Self

from millstream.table.resolved_expression import ResolvedExpression
from millstream.table.sql.statements_ast import ColumnDefinition
from millstream.table.sql.unparse import quote_name, quote_text
from millstream.types.datatypes import DataType

__all__ = ["Column", "ComputedColumn", "MetadataColumn", "PhysicalColumn"]


@dataclass(frozen=True, eq=False)
class Column(ABC):
    """A column with its type; made by `physical`, `computed` and `metadata`.

    Example:
        >>> from millstream.table import DataTypes
        >>> from millstream.table.catalog import Column
        >>> Column.physical("id", DataTypes.BIGINT()).with_comment("of the order").as_summary_string()
        "`id` BIGINT COMMENT 'of the order'"
    """

    _name: str
    _data_type: DataType
    _comment: str | None = None

    @staticmethod
    def physical(name: str, data_type: DataType) -> PhysicalColumn:
        """Make a column whose values are stored."""
        return PhysicalColumn(name, data_type)

    @staticmethod
    def computed(name: str, resolved_expression: ResolvedExpression[Any]) -> ComputedColumn:
        """Make a column whose values are computed of others; `ResolvedExpression.of` makes the expression."""
        kind = resolved_expression.get_output_data_type()
        return ComputedColumn(name, kind, None, resolved_expression)

    @staticmethod
    def metadata(
        name: str, data_type: DataType, metadata_key: str | None, is_virtual: bool
    ) -> MetadataColumn:
        """Make a column that the connector reads or writes beside the row.

        Args:
            name: Its name.
            data_type: Its type.
            metadata_key: The connector's name for it; None if it is the column's.
            is_virtual: Whether it is not written.
        """
        return MetadataColumn(name, data_type, None, metadata_key, is_virtual)

    @abstractmethod
    def is_physical(self) -> bool:
        """Whether its values are stored."""

    @abstractmethod
    def is_persisted(self) -> bool:
        """Whether INSERT writes it."""

    @abstractmethod
    def explain_extras(self) -> str | None:
        """Return what else is to say; None of a column whose values are stored."""

    @abstractmethod
    def definition(self) -> ColumnDefinition:
        """Return the column as CREATE TABLE declares it (millstream's own)."""

    def get_data_type(self) -> DataType:
        """Return its type."""
        return self._data_type

    def get_name(self) -> str:
        """Return its name."""
        return self._name

    def get_comment(self) -> str | None:
        """Return what it means, if that was said."""
        return self._comment

    def with_comment(self, comment: str | None) -> Self:
        """Return the column with a comment."""
        return replace(self, _comment=comment)

    def copy(self, new_data_type: DataType) -> Self:
        """Return the column with another type."""
        return replace(self, _data_type=new_data_type)

    def rename(self, new_name: str) -> Self:
        """Return the column with another name."""
        return replace(self, _name=new_name)

    def as_summary_string(self) -> str:
        """Return name, type and the rest, as in a table's declaration."""
        extras, comment = self.explain_extras(), self._comment
        return (
            f"{quote_name(self._name)} {self._data_type}"
            + (f" {extras}" if extras else "")
            + (f" COMMENT {quote_text(comment)}" if comment else "")
        )

    def __eq__(self, other: object) -> bool:
        # By text: `==` of the expressions within makes an expression.
        if not isinstance(other, Column) or type(self) is not type(other):
            return False
        return (self._data_type, str(self)) == (other._data_type, str(other))

    def __hash__(self) -> int:
        return hash(str(self))

    def __str__(self) -> str:
        return self.as_summary_string()


@dataclass(frozen=True, eq=False)
class PhysicalColumn(Column):
    """A column whose values are stored.

    Example:
        >>> from millstream.table import DataTypes
        >>> from millstream.table.catalog import Column
        >>> column = Column.physical("id", DataTypes.BIGINT())
        >>> column.is_physical(), column.rename("order_id").get_name()
        (True, 'order_id')
    """

    def is_physical(self) -> bool:
        """Return True."""
        return True

    def is_persisted(self) -> bool:
        """Return True."""
        return True

    def explain_extras(self) -> str | None:
        """Return None: there is nothing else to say."""
        return None

    def definition(self) -> ColumnDefinition:
        """Return the column as CREATE TABLE declares it."""
        return ColumnDefinition(self._name, self._data_type, comment=self._comment or "")


@dataclass(frozen=True, eq=False)
class ComputedColumn(Column):
    """A column whose values are computed of others.

    Example:
        >>> from millstream.table import DataTypes
        >>> from millstream.table.catalog import Column
        >>> from millstream.table.resolved_expression import ResolvedExpression
        >>> total = Column.computed("total", ResolvedExpression.of("price * amount", DataTypes.BIGINT()))
        >>> total.is_persisted(), total.as_summary_string()
        (False, '`total` BIGINT AS `price` * `amount`')
    """

    _expression: ResolvedExpression[Any] | None = None

    def is_physical(self) -> bool:
        """Return False."""
        return False

    def is_persisted(self) -> bool:
        """Return False."""
        return False

    def get_expression(self) -> ResolvedExpression[Any]:
        """Return what it is computed by."""
        assert self._expression is not None
        return self._expression

    def explain_extras(self) -> str | None:
        """Return what it is computed by."""
        return f"AS {self.get_expression().as_summary_string()}"

    def definition(self) -> ColumnDefinition:
        """Return the column as CREATE TABLE declares it."""
        expression = self.get_expression()
        return ColumnDefinition(
            self._name,
            expression=expression.node,
            expression_text=expression.as_serializable_string(),
            comment=self._comment or "",
        )


@dataclass(frozen=True, eq=False)
class MetadataColumn(Column):
    """A column that the connector reads or writes beside the row.

    Example:
        >>> from millstream.table import DataTypes
        >>> from millstream.table.catalog import Column
        >>> offset = Column.metadata("at", DataTypes.BIGINT(), "offset", True)
        >>> offset.is_persisted(), offset.as_summary_string()
        (False, "`at` BIGINT METADATA FROM 'offset' VIRTUAL")
    """

    _metadata_key: str | None = None
    _virtual: bool = False

    def is_virtual(self) -> bool:
        """Whether it is not written."""
        return self._virtual

    def get_metadata_key(self) -> str | None:
        """Return the connector's name for it; None if it is the column's."""
        return self._metadata_key

    def is_physical(self) -> bool:
        """Return False."""
        return False

    def is_persisted(self) -> bool:
        """Whether INSERT writes it: unless it is virtual."""
        return not self._virtual

    def explain_extras(self) -> str | None:
        """Return the connector's name for it, and whether it is virtual."""
        key = f" FROM {quote_text(self._metadata_key)}" if self._metadata_key is not None else ""
        return f"METADATA{key}{' VIRTUAL' if self._virtual else ''}"

    def definition(self) -> ColumnDefinition:
        """Return the column as CREATE TABLE declares it."""
        return ColumnDefinition(
            self._name,
            self._data_type,
            metadata=True,
            metadata_key=self._metadata_key,
            virtual=self._virtual,
            comment=self._comment or "",
        )
