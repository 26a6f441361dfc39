"""Columns of a query's result (PyFlink's `ResolvedSchema`, and its columns)."""

from __future__ import annotations

from collections.abc import Sequence

from millstream.base.errors import ConfigurationError
from millstream.types.datatypes import DataType, RowField, RowType

__all__ = ["Column", "PhysicalColumn", "ResolvedSchema"]


class Column:
    """A column with its type; made by `Column.physical`."""

    def __init__(self, name: str, data_type: DataType, comment: str | None = None) -> None:
        self._name, self._data_type, self._comment = name, data_type, comment

    @staticmethod
    def physical(name: str, data_type: DataType) -> PhysicalColumn:
        """Make a column whose values are stored."""
        return PhysicalColumn(name, data_type)

    def is_physical(self) -> bool:
        """Whether its values are stored."""
        return True

    def is_persisted(self) -> bool:
        """Whether INSERT writes it."""
        return True

    def get_data_type(self) -> DataType:
        """Return its type."""
        return self._data_type

    def get_name(self) -> str:
        """Return its name."""
        return self._name

    def get_comment(self) -> str | None:
        """Return what it means, if that was said."""
        return self._comment

    def with_comment(self, comment: str | None) -> Column:
        """Return the column with a comment."""
        return type(self)(self._name, self._data_type, comment)

    def copy(self, new_type: DataType) -> Column:
        """Return the column with another type."""
        return type(self)(self._name, new_type, self._comment)

    def rename(self, new_name: str) -> Column:
        """Return the column with another name."""
        return type(self)(new_name, self._data_type, self._comment)

    def as_summary_string(self) -> str:
        """Return name and type, as in a table's declaration."""
        return f"`{self._name}` {self._data_type}"

    def explain_extras(self) -> str | None:
        """Return what else is to say: nothing of a column whose values are stored."""
        return None

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Column) and self.__dict__ == other.__dict__

    def __hash__(self) -> int:
        return hash(self._name)

    def __str__(self) -> str:
        return self.as_summary_string()


class PhysicalColumn(Column):
    """A column whose values are stored."""


class ResolvedSchema:
    """Columns with names and types, in order.

    Raises:
        ConfigurationError: If a name comes twice.
    """

    def __init__(self, columns: Sequence[Column] = ()) -> None:
        names = [each.get_name() for each in columns]
        twice = sorted({name for name in names if names.count(name) > 1})
        if twice:
            raise ConfigurationError(f'a schema has the column "{twice[0]}" twice')
        self._columns = list(columns)

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

    def to_physical_row_data_type(self) -> RowType:
        """Return the type of a row of these columns."""
        fields = [RowField(each.get_name(), each.get_data_type()) for each in self._columns]
        return RowType(fields, nullable=False)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, ResolvedSchema) and self._columns == other._columns

    def __hash__(self) -> int:
        return hash(tuple(self._columns))

    def __str__(self) -> str:
        return "(\n" + ",\n".join(f"  {each}" for each in self._columns) + "\n)"
