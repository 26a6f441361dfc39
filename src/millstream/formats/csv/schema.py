"""What a CSV file looks like: its columns and its punctuation."""

from __future__ import annotations

import csv
from dataclasses import dataclass, replace
from typing import Any, NoReturn

from millstream.base.errors import ConfigurationError, NotSupportedError
from millstream.types.datatypes import ArrayType, DataType, DataTypes, NumericType, RowField, RowType

__all__ = ["CsvColumn", "CsvSchema", "CsvSchemaBuilder"]


@dataclass(frozen=True)
class CsvColumn:
    """A column.

    Attributes:
        name: Its name, also the field's.
        data_type: Type of its values.
        array_separator: What separates the elements of an array column.
    """

    name: str
    data_type: DataType
    array_separator: str = ";"

    def parse(self, text: str) -> Any:
        """Read one value; an empty text is None (an empty list for arrays), except for strings.

        Raises:
            ValueError: If it does not parse.
        """
        if isinstance(self.data_type, ArrayType):
            return self._parse_array(self.data_type.element_type, text)
        return self.data_type.parse_column([text])[0]

    def parse_column(self, texts: list[str] | tuple[str, ...]) -> list[Any]:
        """Read many values.

        Raises:
            ValueError: If one does not parse.
        """
        if isinstance(self.data_type, ArrayType):
            element_type = self.data_type.element_type
            return [self._parse_array(element_type, text) for text in texts]
        return self.data_type.parse_column(texts)

    def _parse_array(self, element_type: DataType, text: str) -> list[Any]:
        if not text:
            return []
        return element_type.parse_column(text.split(self.array_separator) if self.array_separator else [text])


@dataclass(frozen=True)
class CsvSchema:
    """Columns and punctuation of a CSV file; made by `CsvSchema.builder()`.

    Attributes:
        columns: In the order of the file, unless `reorder_columns`.
        use_header: Whether the first line names the columns; it is written too.
        strict_headers: Whether those names must be the schema's, in its order.
        reorder_columns: Whether the file's columns are found by the names in its header.
        skip_first_data_row: Whether the first row (behind the header) is left out.
        column_separator: One character.
        quote_char: One character, or None for no quoting.
        escape_char: One character, or None for no escaping.
        null_value: Text that means None in any column; None if there is none.
        line_separator: What ends a line when writing.
        allow_comments: Whether lines that begin with `#` are left out when reading.

    Example:
        >>> from millstream.datastream.formats.csv import CsvSchema
        >>> schema = CsvSchema.builder().add_string_column("city").add_number_column("people").build()
        >>> schema.size(), schema.row_type.names
        (2, ['city', 'people'])
    """

    columns: tuple[CsvColumn, ...] = ()
    use_header: bool = False
    strict_headers: bool = False
    reorder_columns: bool = False
    skip_first_data_row: bool = False
    column_separator: str = ","
    quote_char: str | None = '"'
    escape_char: str | None = None
    null_value: str | None = None
    line_separator: str = "\n"
    allow_comments: bool = False

    @staticmethod
    def builder() -> CsvSchemaBuilder:
        """Begin a schema without columns."""
        return CsvSchemaBuilder()

    @property
    def row_type(self) -> RowType:
        """Type of the rows."""
        return RowType([RowField(column.name, column.data_type) for column in self.columns])

    def dialect(self) -> dict[str, Any]:
        """Return the punctuation as arguments of Python's csv module."""
        return {
            "delimiter": self.column_separator,
            "quotechar": self.quote_char,
            "escapechar": self.escape_char,
            "quoting": csv.QUOTE_NONE if self.quote_char is None else csv.QUOTE_MINIMAL,
            "lineterminator": self.line_separator,
            "strict": True,
        }

    def size(self) -> int:
        """Return the number of columns."""
        return len(self.columns)

    def __str__(self) -> str:
        """Return the columns with their types, and whether there is a header.

        >>> str(CsvSchema.builder().add_string_column("name").add_number_column("age").set_use_header(True).build())
        'CsvSchema(name STRING, age BIGINT; with header)'
        """
        columns = ", ".join(f"{column.name} {column.data_type}" for column in self.columns)
        return f"CsvSchema({columns}{'; with header' if self.use_header else ''})"

    def __len__(self) -> int:
        return len(self.columns)


class CsvSchemaBuilder:
    """Builds a `CsvSchema`; each method returns the builder.

    Example:
        >>> from millstream.datastream.formats.csv import CsvSchema
        >>> builder = CsvSchema.builder().add_string_column("city").add_array_column("streets", "|")
        >>> schema = builder.set_column_separator(";").set_use_header().set_null_value("n/a").build()
        >>> schema.column_separator, schema.use_header
        (';', True)
    """

    def __init__(self) -> None:
        self._columns: list[CsvColumn] = []
        self._settings = CsvSchema()

    def build(self) -> CsvSchema:
        """Return the schema.

        Raises:
            ConfigurationError: If two columns share a name, or two kinds of punctuation a character.
        """
        schema = replace(self._settings, columns=tuple(self._columns))
        _ = schema.row_type  # checks the names
        marks = [
            mark
            for mark in (schema.column_separator, schema.quote_char, schema.escape_char)
            if mark is not None
        ]
        if len(set(marks)) < len(marks):
            raise ConfigurationError(
                f"separator, quote and escape characters of a CSV schema are the same: {marks}"
            )
        return schema

    def add_string_column(self, name: str) -> CsvSchemaBuilder:
        """Add a column of text."""
        return self._add(CsvColumn(name, DataTypes.STRING()))

    def add_number_column(self, name: str, number_type: NumericType | None = None) -> CsvSchemaBuilder:
        """Add a column of numbers, BIGINT unless told otherwise."""
        if number_type is not None and not isinstance(number_type, NumericType):
            raise ConfigurationError(
                f"column {name!r} is a number column, its type {number_type} is none",
                hint="Use add_column for types that are no numbers.",
            )
        return self._add(CsvColumn(name, number_type or DataTypes.BIGINT()))

    def add_boolean_column(self, name: str) -> CsvSchemaBuilder:
        """Add a column of `true` and `false`."""
        return self._add(CsvColumn(name, DataTypes.BOOLEAN()))

    def add_array_column(
        self, name: str, separator: str = ";", element_type: DataType | None = None
    ) -> CsvSchemaBuilder:
        """Add a column of lists, text unless told otherwise."""
        return self._add(CsvColumn(name, DataTypes.ARRAY(element_type or DataTypes.STRING()), separator))

    def add_column(self, name: str, data_type: DataType) -> CsvSchemaBuilder:
        """Add a column of any type with a text form, such as DATE (millstream's own)."""
        return self._add(CsvColumn(name, data_type))

    def add_columns_from(self, schema: CsvSchema) -> CsvSchemaBuilder:
        """Add all columns of another schema."""
        self._columns.extend(schema.columns)
        return self

    def clear_columns(self) -> CsvSchemaBuilder:
        """Drop all columns."""
        self._columns.clear()
        return self

    def set_use_header(self, use: bool = True) -> CsvSchemaBuilder:
        """Tell whether the first line names the columns."""
        return self._set(use_header=use)

    def set_strict_headers(self, strict: bool = True) -> CsvSchemaBuilder:
        """Tell whether a header's names must be the schema's, in its order."""
        return self._set(strict_headers=strict)

    def set_reorder_columns(self, reorder: bool = True) -> CsvSchemaBuilder:
        """Tell whether columns are found by the names in the header."""
        return self._set(reorder_columns=reorder)

    def set_skip_first_data_row(self, skip: bool = True) -> CsvSchemaBuilder:
        """Tell whether the first row is left out."""
        return self._set(skip_first_data_row=skip)

    def set_column_separator(self, char: str) -> CsvSchemaBuilder:
        """Set the character between columns."""
        return self._set(column_separator=_one_char("column separator", char))

    def set_quote_char(self, char: str) -> CsvSchemaBuilder:
        """Set the character around values that hold separators or newlines."""
        return self._set(quote_char=_one_char("quote char", char))

    def disable_quote_char(self) -> CsvSchemaBuilder:
        """Do without quoting."""
        return self._set(quote_char=None)

    def set_escape_char(self, char: str) -> CsvSchemaBuilder:
        """Set the character that takes the next one's meaning away."""
        return self._set(escape_char=_one_char("escape char", char))

    def disable_escape_char(self) -> CsvSchemaBuilder:
        """Do without escaping."""
        return self._set(escape_char=None)

    def set_null_value(self, null_value: str) -> CsvSchemaBuilder:
        """Set the text that means None in any column."""
        return self._set(null_value=null_value)

    def set_line_separator(self, separator: str) -> CsvSchemaBuilder:
        r"""Set what ends a line when writing; reading knows `\n` and `\r\n`."""
        return self._set(line_separator=separator)

    def set_array_element_separator(self, separator: str) -> CsvSchemaBuilder:
        """Set what separates the elements of all array columns added so far."""
        self._columns = [replace(column, array_separator=separator) for column in self._columns]
        return self

    def remove_array_element_separator(self, index: int) -> CsvSchemaBuilder:
        """Take the values of one array column as a single element."""
        self._columns[index] = replace(self._columns[index], array_separator="")
        return self

    def disable_array_element_separator(self) -> CsvSchemaBuilder:
        """Take the values of all array columns added so far as a single element."""
        return self.set_array_element_separator("")

    def set_allow_comments(self, allow: bool = True) -> CsvSchemaBuilder:
        """Tell whether lines that begin with `#`, or blanks and `#`, are left out."""
        return self._set(allow_comments=allow)

    def set_any_property_name(self, name: str) -> CsvSchemaBuilder:
        """Name the property that takes surplus columns; not built yet.

        Raises:
            NotSupportedError: Always.
        """
        return _not_built("set_any_property_name")

    def size(self) -> int:
        """Return the number of columns so far."""
        return len(self._columns)

    def __len__(self) -> int:
        return len(self._columns)

    def _add(self, column: CsvColumn) -> CsvSchemaBuilder:
        self._columns.append(column)
        return self

    def _set(self, **settings: Any) -> CsvSchemaBuilder:
        self._settings = replace(self._settings, **settings)
        return self


def _one_char(what: str, char: str) -> str:
    if len(char) != 1 or not char.isascii() or char in "\r\n":
        raise ConfigurationError(f"{what} of a CSV schema must be a single ASCII character, not {char!r}")
    return char


def _not_built(method: str) -> NoReturn:
    raise NotSupportedError(f"CsvSchemaBuilder.{method} is not supported")
