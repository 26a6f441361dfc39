"""Where a table comes from (PyFlink's `pyflink.table.table_descriptor`)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from millstream.base.errors import ConfigurationError
from millstream.config.option_types import ConfigOption
from millstream.table.schema import Schema
from millstream.table.sql.unparse import quote_name, quote_text

__all__ = ["FormatDescriptor", "TableDescriptor"]


def option_key(option: str | ConfigOption) -> str:
    if isinstance(option, str):
        return option
    key = getattr(option, "key", option)
    return str(key() if callable(key) else key)


def option_text(value: object) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)


def with_clause(options: Mapping[str, str]) -> str:
    """Return options as a table's declaration has them."""
    lines = [f"  {quote_text(key)} = {quote_text(value)}" for key, value in options.items()]
    return "WITH (\n" + ",\n".join(lines) + "\n)"


class FormatDescriptor:
    """A format and its options.

    Args:
        format_name: Its name.
        options: By key, without the format's name before it.

    Example:
        >>> from millstream.table import FormatDescriptor
        >>> FormatDescriptor.for_format("json").option("ignore-parse-errors", "true").build().get_options()
        {'ignore-parse-errors': 'true'}
    """

    def __init__(self, format_name: str, options: Mapping[str, str]) -> None:
        self._format = format_name
        self._options = dict(options)

    @staticmethod
    def for_format(format: str) -> FormatDescriptor.Builder:
        """Begin a descriptor."""
        return FormatDescriptor.Builder(format)

    def get_format(self) -> str:
        """Return the format's name."""
        return self._format

    def get_options(self) -> dict[str, str]:
        """Return the options."""
        return dict(self._options)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, FormatDescriptor) and self.__dict__ == other.__dict__

    def __hash__(self) -> int:
        return hash((self._format, tuple(sorted(self._options.items()))))

    def __str__(self) -> str:
        options = ", ".join(f"{key}={value}" for key, value in self._options.items())
        return f"{self._format}[{{{options}}}]"

    __repr__ = __str__

    class Builder:
        """Makes a descriptor; each method returns the builder."""

        def __init__(self, format_name: str) -> None:
            self._format = format_name
            self._options: dict[str, str] = {}

        def option(self, key: str | ConfigOption, value: object) -> FormatDescriptor.Builder:
            """Set an option."""
            self._options[option_key(key)] = option_text(value)
            return self

        def build(self) -> FormatDescriptor:
            """Make the descriptor."""
            return FormatDescriptor(self._format, self._options)


class TableDescriptor:
    """A connector, a schema, options.

    Attributes:
        connector: Name of the connector.
        table_schema: The columns.
        options: By key, without the connector.
        partition_keys: Names of columns.
        table_comment: What the table is for.

    Example:
        >>> from millstream.table import DataTypes, FormatDescriptor, Schema, TableDescriptor
        >>> descriptor = (
        ...     TableDescriptor.for_connector("filesystem")
        ...     .schema(Schema.new_builder().column("id", DataTypes.BIGINT()).build())
        ...     .option("path", "/data/orders")
        ...     .format(FormatDescriptor.for_format("csv").option("field-delimiter", ";").build())
        ...     .build()
        ... )
        >>> descriptor.get_options()
        {'connector': 'filesystem', 'path': '/data/orders', 'format': 'csv', 'csv.field-delimiter': ';'}
    """

    def __init__(
        self,
        connector: str,
        table_schema: Schema,
        options: Mapping[str, str],
        partition_keys: Sequence[str] = (),
        table_comment: str | None = None,
    ) -> None:
        self.connector = connector
        self.table_schema = table_schema
        self.options = dict(options)
        self.partition_keys = tuple(partition_keys)
        self.table_comment = table_comment

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

    def get_partition_keys(self) -> list[str]:
        """Return the columns that the table is partitioned by."""
        return list(self.partition_keys)

    def get_comment(self) -> str | None:
        """Return what the table is for."""
        return self.table_comment

    def __eq__(self, other: object) -> bool:
        return isinstance(other, TableDescriptor) and self.__dict__ == other.__dict__

    def __hash__(self) -> int:
        return hash((self.connector, self.table_schema, tuple(sorted(self.options.items()))))

    def __str__(self) -> str:
        parts = [f"{self.table_schema}"]
        if self.table_comment is not None:
            parts.append(f"COMMENT {quote_text(self.table_comment)}")
        if self.partition_keys:
            parts.append(f"PARTITIONED BY ({', '.join(map(quote_name, self.partition_keys))})")
        return "\n".join([*parts, with_clause(self.get_options())])

    __repr__ = __str__

    class Builder:
        """Makes a descriptor; each method returns the builder."""

        def __init__(self, connector: str) -> None:
            self._connector = connector
            self._schema: Schema | None = None
            self._options: dict[str, str] = {}
            self._partition_keys: tuple[str, ...] = ()
            self._comment: str | None = None

        def schema(self, schema: Schema) -> TableDescriptor.Builder:
            """Set the columns."""
            self._schema = schema
            return self

        def option(self, key: str | ConfigOption, value: object) -> TableDescriptor.Builder:
            """Set an option."""
            self._options[option_key(key)] = option_text(value)
            return self

        def format(
            self, format: str | FormatDescriptor, format_option: str | ConfigOption | None = None
        ) -> TableDescriptor.Builder:
            """Set the format of rows.

            Args:
                format: Its name, or a descriptor with options.
                format_option: The option that names it: `format` by default, `key.format` or `value.format`.
            """
            key = "format" if format_option is None else option_key(format_option)
            if isinstance(format, str):
                self._options[key] = format
                return self
            self._options[key] = format.get_format()
            before = key.removesuffix("format")
            for name, value in format.get_options().items():
                self._options[f"{before}{format.get_format()}.{name}"] = value
            return self

        def partitioned_by(self, *partition_keys: str) -> TableDescriptor.Builder:
            """Set the columns that the table is partitioned by."""
            self._partition_keys = partition_keys
            return self

        def comment(self, comment: str) -> TableDescriptor.Builder:
            """Say what the table is for."""
            self._comment = comment
            return self

        def build(self) -> TableDescriptor:
            """Make the descriptor.

            Raises:
                ConfigurationError: If it has no schema.
            """
            if self._schema is None or not self._schema.definitions:
                raise ConfigurationError(f'a table of connector "{self._connector}" has no columns')
            return TableDescriptor(
                self._connector, self._schema, self._options, self._partition_keys, self._comment
            )
