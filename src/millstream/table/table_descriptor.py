"""Where a table comes from (PyFlink's `pyflink.table.table_descriptor`)."""

from __future__ import annotations

from collections.abc import Mapping

from millstream.base.errors import ConfigurationError
from millstream.config.option_types import ConfigOption
from millstream.table.schema import Schema

__all__ = ["TableDescriptor"]


class TableDescriptor:
    """A connector, a schema, options.

    Attributes:
        connector: Name of the connector.
        table_schema: The columns.
        options: By key, without the connector.
    """

    def __init__(self, connector: str, table_schema: Schema, options: Mapping[str, str]) -> None:
        self.connector = connector
        self.table_schema = table_schema
        self.options = dict(options)

    @staticmethod
    def for_connector(connector: str) -> TableDescriptor.Builder:
        """Begin a descriptor."""
        return TableDescriptor.Builder(connector)

    def get_schema(self) -> Schema:
        """Return the columns."""
        return self.table_schema

    def get_options(self) -> dict[str, str]:
        """Return all options, the connector among them."""
        return {"connector": self.connector, **self.options}

    class Builder:
        """Makes a descriptor; each method returns the builder."""

        def __init__(self, connector: str) -> None:
            self._connector = connector
            self._schema: Schema | None = None
            self._options: dict[str, str] = {}

        def schema(self, schema: Schema) -> TableDescriptor.Builder:
            """Set the columns."""
            self._schema = schema
            return self

        def option(self, key: str | ConfigOption, value: object) -> TableDescriptor.Builder:
            """Set an option."""
            self._options[key.key if isinstance(key, ConfigOption) else key] = str(value)
            return self

        def build(self) -> TableDescriptor:
            """Make the descriptor.

            Raises:
                ConfigurationError: If it has no schema.
            """
            if self._schema is None or not self._schema.columns:
                raise ConfigurationError(f'a table of connector "{self._connector}" has no columns')
            return TableDescriptor(self._connector, self._schema, self._options)
