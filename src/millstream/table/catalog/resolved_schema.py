"""Columns, watermarks and the primary key of a table or result (PyFlink's `ResolvedSchema`)."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from enum import Enum
from typing import Any

from millstream.base.errors import ConfigurationError
from millstream.table.catalog.columns import Column, PhysicalColumn
from millstream.table.errors import did_you_mean
from millstream.table.resolved_expression import ResolvedExpression
from millstream.table.sql.unparse import quote_name
from millstream.types.datatypes import DataType, RowField, RowType

__all__ = ["Constraint", "ResolvedSchema", "UniqueConstraint", "WatermarkSpec"]


@dataclass(frozen=True, eq=False)
class WatermarkSpec:
    """Which column is the event time, and what the watermark is; made by `of`.

    Example:
        >>> from millstream.table import DataTypes
        >>> from millstream.table.catalog import WatermarkSpec
        >>> from millstream.table.resolved_expression import ResolvedExpression
        >>> late = ResolvedExpression.of("ts - INTERVAL '5' SECOND", DataTypes.TIMESTAMP(3))
        >>> WatermarkSpec.of("ts", late).get_rowtime_attribute()
        'ts'
    """

    _rowtime: str
    _expression: ResolvedExpression[Any]

    @staticmethod
    def of(rowtime_attribute: str, watermark_expression: ResolvedExpression[Any]) -> WatermarkSpec:
        """Make a watermark; `ResolvedExpression.of` makes the expression."""
        return WatermarkSpec(rowtime_attribute, watermark_expression)

    def get_rowtime_attribute(self) -> str:
        """Return the column's name."""
        return self._rowtime

    def get_watermark_expression(self) -> ResolvedExpression[Any]:
        """Return what the watermark is."""
        return self._expression

    def as_summary_string(self) -> str:
        """Return it as people read it."""
        kind = self._expression.get_output_data_type()
        expression = self._expression.as_summary_string()
        return f"WATERMARK FOR {quote_name(self._rowtime)}: {kind} AS {expression}"

    def __eq__(self, other: object) -> bool:
        # By text: `==` of the expressions within makes an expression.
        return isinstance(other, WatermarkSpec) and str(self) == str(other)

    def __hash__(self) -> int:
        return hash(str(self))

    def __str__(self) -> str:
        return self.as_summary_string()


@dataclass(frozen=True)
class Constraint(ABC):
    """What rows of a table fulfil; nothing checks that they do.

    Example:
        >>> from millstream.table.catalog import UniqueConstraint
        >>> key = UniqueConstraint.primary_key("pk", ["id"])
        >>> key.get_name(), key.is_enforced(), key.get_type().name
        ('pk', False, 'PRIMARY_KEY')
    """

    class ConstraintType(Enum):
        """Of which kind a constraint is."""

        PRIMARY_KEY = 0
        UNIQUE_KEY = 1

    _name: str

    def get_name(self) -> str:
        """Return its name."""
        return self._name

    def is_enforced(self) -> bool:
        """Return False: rows are not checked."""
        return False

    @abstractmethod
    def get_type(self) -> Constraint.ConstraintType:
        """Return of which kind it is."""

    @abstractmethod
    def as_summary_string(self) -> str:
        """Return it as in a table's declaration."""

    def __str__(self) -> str:
        return self.as_summary_string()


@dataclass(frozen=True)
class UniqueConstraint(Constraint):
    """Columns that tell rows apart; made by `primary_key`.

    Example:
        >>> from millstream.table.catalog import UniqueConstraint
        >>> UniqueConstraint.primary_key("pk", ["shop", "id"]).get_columns()
        ['shop', 'id']
    """

    _columns: tuple[str, ...]

    __str__ = Constraint.__str__

    @staticmethod
    def primary_key(name: str, columns: Sequence[str]) -> UniqueConstraint:
        """Make a primary key."""
        return UniqueConstraint(name, tuple(columns))

    def get_columns(self) -> list[str]:
        """Return the names of the columns."""
        return list(self._columns)

    def get_type(self) -> Constraint.ConstraintType:
        """Return of which kind it is."""
        return Constraint.ConstraintType.PRIMARY_KEY

    def get_type_string(self) -> str:
        """Return its kind as SQL says it."""
        return "PRIMARY KEY"

    def as_summary_string(self) -> str:
        """Return it as in a table's declaration."""
        columns = ", ".join(map(quote_name, self._columns))
        return f"CONSTRAINT {quote_name(self._name)} {self.get_type_string()} ({columns}) NOT ENFORCED"


class ResolvedSchema:
    """Columns with names and types, in order.

    Args:
        columns: The columns.
        watermark_specs: Watermarks.
        primary_key: The primary key; None without.

    Raises:
        ConfigurationError: If a name comes twice, or the key or a watermark names a column that is not there.

    Example:
        >>> from millstream.table import DataTypes
        >>> from millstream.table.catalog import ResolvedSchema
        >>> schema = ResolvedSchema.physical(["id", "name"], [DataTypes.BIGINT(), DataTypes.STRING()])
        >>> schema.get_column_names(), schema.get_column("id").get_data_type()
        (['id', 'name'], BIGINT)
    """

    def __init__(
        self,
        columns: Sequence[Column] | None = None,
        watermark_specs: Sequence[WatermarkSpec] | None = None,
        primary_key: UniqueConstraint | None = None,
    ) -> None:
        self._columns = list(columns or ())
        self._watermarks = list(watermark_specs or ())
        self._key = primary_key
        names = self.get_column_names()
        twice = sorted({name for name in names if names.count(name) > 1})
        if twice:
            raise ConfigurationError(f'a schema has the column "{twice[0]}" twice')
        for spec in self._watermarks:
            self._check_named("a watermark", spec.get_rowtime_attribute())
        for name in primary_key.get_columns() if primary_key is not None else ():
            self._check_named("the primary key", name)

    def _check_named(self, what: str, name: str) -> None:
        names = self.get_column_names()
        if name not in names:
            raise ConfigurationError(
                f'{what} of a schema names the column "{name}", which the schema does not have',
                detail=f"It has: {', '.join(names)}.",
                hint=did_you_mean(name, names),
            )

    @staticmethod
    def of(columns: Sequence[Column]) -> ResolvedSchema:
        """Make a schema of columns."""
        return ResolvedSchema(columns)

    @staticmethod
    def physical(column_names: Sequence[str], column_data_types: Sequence[DataType]) -> ResolvedSchema:
        """Make a schema of names and types."""
        pairs = zip(column_names, column_data_types, strict=True)
        return ResolvedSchema([PhysicalColumn(name, kind) for name, kind in pairs])

    def get_column_count(self) -> int:
        """Return how many columns there are."""
        return len(self._columns)

    def get_columns(self) -> list[Column]:
        """Return the columns."""
        return list(self._columns)

    def get_column_names(self) -> list[str]:
        """Return the names."""
        return [each.get_name() for each in self._columns]

    def get_column_data_types(self) -> list[DataType]:
        """Return the types."""
        return [each.get_data_type() for each in self._columns]

    def get_column(self, column_index_or_name: int | str) -> Column | None:
        """Return a column by its place or name; None if there is none."""
        if isinstance(column_index_or_name, str):
            found = [each for each in self._columns if each.get_name() == column_index_or_name]
            return found[0] if found else None
        inside = 0 <= column_index_or_name < len(self._columns)
        return self._columns[column_index_or_name] if inside else None

    def get_watermark_specs(self) -> list[WatermarkSpec]:
        """Return the watermarks."""
        return list(self._watermarks)

    def get_primary_key(self) -> UniqueConstraint | None:
        """Return the primary key; None without."""
        return self._key

    def get_primary_key_indexes(self) -> list[int]:
        """Return the places of the primary key's columns; none without a key."""
        names = self.get_column_names()
        return [names.index(name) for name in self._key.get_columns()] if self._key is not None else []

    def to_source_row_data_type(self) -> RowType:
        """Return the type of a row of all columns, as queries see it."""
        return self._row_of(lambda column: True)

    def to_physical_row_data_type(self) -> RowType:
        """Return the type of a row of the columns whose values are stored."""
        return self._row_of(lambda column: column.is_physical())

    def to_sink_row_data_type(self) -> RowType:
        """Return the type of a row of the columns that INSERT writes."""
        return self._row_of(lambda column: column.is_persisted())

    def _row_of(self, chosen: Callable[[Column], bool]) -> RowType:
        columns = [each for each in self._columns if chosen(each)]
        return RowType([RowField(each.get_name(), each.get_data_type()) for each in columns], nullable=False)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, ResolvedSchema) and self.__dict__ == other.__dict__

    def __hash__(self) -> int:
        return hash(tuple(self._columns))

    def __str__(self) -> str:
        key = [self._key] if self._key is not None else []
        parts: list[object] = [*self._columns, *self._watermarks, *key]
        return "(\n" + ",\n".join(f"  {each}" for each in parts) + "\n)"
