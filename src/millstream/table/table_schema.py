"""Names and types of columns (PyFlink's `pyflink.table.table_schema`)."""

from __future__ import annotations

from collections.abc import Sequence

from millstream.base.errors import ConfigurationError
from millstream.types.datatypes import DataType, RowField, RowType

__all__ = ["TableSchema"]


class TableSchema:
    """Names and types of columns, in order.

    Raises:
        ConfigurationError: If there are not as many names as types, or a name comes twice.
    """

    def __init__(
        self, field_names: Sequence[str] | None = None, data_types: Sequence[DataType] | None = None
    ) -> None:
        names, types = list(field_names or ()), list(data_types or ())
        if len(names) != len(types):
            raise ConfigurationError(f"a table schema has {len(names)} names and {len(types)} types")
        twice = sorted({name for name in names if names.count(name) > 1})
        if twice:
            raise ConfigurationError(f'a table schema has the column "{twice[0]}" twice')
        self._names, self._types = names, types

    def copy(self) -> TableSchema:
        """Return a schema of the same columns."""
        return TableSchema(self._names, self._types)

    def get_field_data_types(self) -> list[DataType]:
        """Return the types."""
        return list(self._types)

    def get_field_data_type(self, field: int | str) -> DataType | None:
        """Return a column's type by its place or name; None if there is none."""
        place = self._names.index(field) if field in self._names else field
        if isinstance(place, int) and 0 <= place < len(self._types):
            return self._types[place]
        return None

    def get_field_count(self) -> int:
        """Return how many columns there are."""
        return len(self._names)

    def get_field_names(self) -> list[str]:
        """Return the names."""
        return list(self._names)

    def get_field_name(self, field_index: int) -> str | None:
        """Return a column's name by its place; None if there is none."""
        return self._names[field_index] if 0 <= field_index < len(self._names) else None

    def to_row_data_type(self) -> RowType:
        """Return the type of a row of these columns."""
        fields = [RowField(name, kind) for name, kind in zip(self._names, self._types, strict=True)]
        return RowType(fields, nullable=False)

    @classmethod
    def builder(cls) -> TableSchema.Builder:
        """Begin a schema."""
        return cls.Builder()

    def __eq__(self, other: object) -> bool:
        return isinstance(other, TableSchema) and (self._names, self._types) == (other._names, other._types)

    def __ne__(self, other: object) -> bool:
        return not self == other

    def __hash__(self) -> int:
        return hash(tuple(self._names))

    def __repr__(self) -> str:
        columns = [f" |-- {name}: {kind}" for name, kind in zip(self._names, self._types, strict=True)]
        return "\n".join(["root", *columns])

    class Builder:
        """Makes a schema."""

        def __init__(self) -> None:
            self._names: list[str] = []
            self._types: list[DataType] = []

        def field(self, name: str, data_type: DataType) -> TableSchema.Builder:
            """Add a column."""
            self._names.append(name)
            self._types.append(data_type)
            return self

        def build(self) -> TableSchema:
            """Make the schema."""
            return TableSchema(self._names, self._types)
