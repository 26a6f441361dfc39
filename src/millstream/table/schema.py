"""Columns of a table (PyFlink's `pyflink.table.schema`), as far as generated tables need them."""

from __future__ import annotations

from collections.abc import Sequence

from millstream.base.errors import ConfigurationError, NotSupportedError, TypeMismatchError
from millstream.types.datatypes import DataType

__all__ = ["Schema"]


class Schema:
    """Names and types of columns.

    Attributes:
        columns: In order.
    """

    def __init__(self, columns: Sequence[tuple[str, DataType]]) -> None:
        self.columns = tuple(columns)

    @staticmethod
    def new_builder() -> Schema.Builder:
        """Begin a schema."""
        return Schema.Builder()

    class Builder:
        """Makes a schema; each method returns the builder."""

        def __init__(self) -> None:
            self._columns: list[tuple[str, DataType]] = []

        def column(self, column_name: str, data_type: DataType) -> Schema.Builder:
            """Add a column.

            Raises:
                ConfigurationError: If there is one of that name.
                TypeMismatchError: If the type is none of `DataTypes`.
                NotSupportedError: If the type is written as a string.
            """
            if isinstance(data_type, str):
                raise NotSupportedError(
                    f'column "{column_name}" has its type as a string: "{data_type}"',
                    hint="Use DataTypes, such as DataTypes.INT().",
                )
            if not isinstance(data_type, DataType):
                raise TypeMismatchError(f'column "{column_name}" was given {data_type!r} as its type')
            if any(column_name == name for name, _ in self._columns):
                raise ConfigurationError(f'a schema has column "{column_name}" twice')
            self._columns.append((column_name, data_type))
            return self

        def build(self) -> Schema:
            """Make the schema."""
            return Schema(self._columns)
