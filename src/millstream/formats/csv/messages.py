"""Rows as single lines of CSV (PyFlink's `pyflink.datastream.formats.csv`, the schemas for messages).

Arrays and nested rows are one field each, their elements separated by the array element delimiter.
"""

from __future__ import annotations

import csv
import io
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from itertools import repeat
from typing import Any, Final, Self

from millstream.base.errors import (
    ConfigurationError,
    MalformedRecordError,
    NotSupportedError,
    TypeMismatchError,
    shorten,
)
from millstream.formats.csv.text import CsvLines
from millstream.spi.serialization import DeserializationSchema, SerializationSchema
from millstream.types.basic import BasicTypeInfo
from millstream.types.composite import TupleTypeInfo, _SequenceTypeInfo
from millstream.types.row import Row
from millstream.types.row_text import Converter, scalar_reader, scalar_writer
from millstream.types.typeinfo import RowTypeInfo, TypeInformation

__all__ = ["CsvRowDeserializationSchema", "CsvRowSerializationSchema"]


_BARE: Final = frozenset(("BOOLEAN", "BYTE", "SHORT", "INT", "LONG", "FLOAT", "DOUBLE", "BIG_INT", "BIG_DEC"))
"""Types that are never enclosed in quotation marks."""
_INTEGERS: Final = frozenset(("BYTE", "SHORT", "INT", "LONG", "BIG_INT"))


@dataclass(frozen=True)
class _Dialect:
    kind: RowTypeInfo
    field_delimiter: str = ","
    line_delimiter: str = "\n"
    array_delimiter: str = ";"
    quote: str | None = '"'
    escape: str | None = None
    null_literal: str = ""
    has_null_literal: bool = False
    allow_comments: bool = False
    ignore_errors: bool = False


class _Builder:
    """What both builders share; each method returns the builder."""

    def __init__(self, type_info: TypeInformation) -> None:
        """Begin a schema of rows of that type.

        Raises:
            ConfigurationError: If it is no type of rows.
        """
        if not isinstance(type_info, RowTypeInfo):
            raise ConfigurationError(
                f"CSV rows were given the type {type_info!r}", hint="Use Types.ROW_NAMED."
            )
        self._dialect = _Dialect(type_info)

    def _with(self, **changes: Any) -> Self:
        self._dialect = replace(self._dialect, **changes)
        return self

    def set_array_element_delimiter(self, delimiter: str) -> Self:
        """Set what separates elements of arrays; `;` by default."""
        return self._with(array_delimiter=delimiter)

    def set_quote_character(self, c: str) -> Self:
        """Set what encloses fields with special characters; `"` by default."""
        return self._with(quote=_one(c))

    def set_escape_character(self, c: str) -> Self:
        """Set what stands before a character that is to be taken as it is; none by default."""
        return self._with(escape=_one(c))


class CsvRowDeserializationSchema(DeserializationSchema):
    """Lines of CSV into rows.

    >>> from millstream.common import CsvRowDeserializationSchema
    >>> from millstream.types.typeinfo import Types
    >>> kind = Types.ROW_NAMED(["id", "name"], [Types.INT(), Types.STRING()])
    >>> CsvRowDeserializationSchema.Builder(kind).build().deserialize(b'1,"a,b"')
    Row(id=1, name='a,b')
    """

    def __init__(self, dialect: _Dialect) -> None:
        self._dialect = dialect
        self._names = tuple(dialect.kind.get_field_names())
        self._readers = [_reader(kind, dialect) for kind in dialect.kind.get_field_types()]

    def get_produced_type(self) -> TypeInformation:
        """Return the type of the rows."""
        return self._dialect.kind

    def deserialize(self, message: bytes) -> Any:
        """Return the row of a line; None for a comment, or if it does not parse and that is to be ignored.

        Raises:
            MalformedRecordError: If it does not parse or fit.
        """
        dialect = self._dialect
        try:
            text = message.decode()
            if dialect.allow_comments and text.lstrip(" ").startswith("#"):
                return None
            fields = self._split(text)
            if len(fields) != len(self._readers):
                raise ValueError(f"it has {len(fields)} fields, not {len(self._readers)}")
            values = [
                field if read is None else read(field)
                for read, field in zip(self._readers, fields, strict=True)
            ]
            return Row.of(self._names, values)
        except (ValueError, ArithmeticError, csv.Error) as error:
            if dialect.ignore_errors:
                return None
            raise MalformedRecordError(
                f"line {shorten(message)} does not fit {dialect.kind.describe()}: {error}",
                hint="Call set_ignore_parse_errors(True) to drop such lines.",
            ) from error

    def _split(self, text: str) -> Sequence[str]:
        dialect = self._dialect
        line = text.rstrip("\r\n")
        has_break = "\n" in line
        if (
            line
            and not has_break
            and "\r" not in line
            and (dialect.quote is None or dialect.quote not in line)
            and (dialect.escape is None or dialect.escape not in line)
            and len(line) <= csv.field_size_limit()
        ):
            return line.split(dialect.field_delimiter)  # what the csv module does, without making a reader
        lines = csv.reader(
            io.StringIO(text, newline="") if has_break else [line],
            delimiter=dialect.field_delimiter,
            quotechar=dialect.quote,
            escapechar=dialect.escape,
            strict=True,
        )
        return next(lines, [])

    def __reduce__(self) -> tuple[Any, ...]:
        return CsvRowDeserializationSchema, (self._dialect,)

    class Builder(_Builder):
        """Makes a schema; each method returns the builder."""

        def set_field_delimiter(self, delimiter: str) -> Self:
            """Set what separates fields; a comma by default."""
            return self._with(field_delimiter=_one(delimiter))

        def set_allow_comments(self, allow_comments: bool) -> Self:
            """Set whether lines that begin with `#` are left out."""
            return self._with(allow_comments=allow_comments)

        def set_null_literal(self, null_literal: str) -> Self:
            """Set the text that stands for None; by default no text does for strings, an empty one for others."""
            return self._with(null_literal=null_literal, has_null_literal=True)

        def set_ignore_parse_errors(self, ignore_parse_errors: bool) -> Self:
            """Set whether lines that do not parse or fit are dropped; by default they fail the job."""
            return self._with(ignore_errors=ignore_parse_errors)

        def build(self) -> CsvRowDeserializationSchema:
            """Make the schema.

            Raises:
                NotSupportedError: If a field's type has no CSV form.
            """
            return CsvRowDeserializationSchema(self._dialect)


class CsvRowSerializationSchema(SerializationSchema):
    r"""Rows into lines of CSV.

    >>> from millstream.common import CsvRowSerializationSchema, Row
    >>> from millstream.types.typeinfo import Types
    >>> kind = Types.ROW_NAMED(["id", "name"], [Types.INT(), Types.STRING()])
    >>> CsvRowSerializationSchema.Builder(kind).build().serialize(Row(1, "a,b"))
    b'1,"a,b"\n'
    """

    def __init__(self, dialect: _Dialect) -> None:
        self._dialect = dialect
        self._lines = CsvLines(
            dialect.field_delimiter,
            quote=dialect.quote,
            escape=dialect.escape or (None if dialect.quote else "\\"),
            end=dialect.line_delimiter,
        )
        self._writers = [_field_writer(kind, dialect, self._lines) for kind in dialect.kind.get_field_types()]

    def serialize(self, value: Any) -> bytes:
        """Return a row's line.

        Raises:
            TypeMismatchError: If it does not fit.
        """
        if self._dialect.kind.find_mismatch([value]) is not None:
            raise TypeMismatchError(f"value {shorten(value)} does not fit {self._dialect.kind.describe()}")
        fields = zip(self._writers, self._dialect.kind._in_order(value), strict=True)
        try:
            return self._lines.join([write(field) for write, field in fields]).encode()
        except ValueError as error:
            raise TypeMismatchError(f"row {shorten(value)} cannot be written as CSV: {error}") from error

    def __reduce__(self) -> tuple[Any, ...]:
        return CsvRowSerializationSchema, (self._dialect,)

    class Builder(_Builder):
        """Makes a schema; each method returns the builder."""

        def set_field_delimiter(self, c: str) -> Self:
            """Set what separates fields; a comma by default."""
            return self._with(field_delimiter=_one(c))

        def set_line_delimiter(self, delimiter: str) -> Self:
            r"""Set what ends a line: `\n` (the default), `\r`, `\r\n`, or nothing.

            Raises:
                ConfigurationError: If it is something else.
            """
            if delimiter not in ("\n", "\r", "\r\n", ""):
                raise ConfigurationError(f"lines cannot end with {delimiter!r}")
            return self._with(line_delimiter=delimiter)

        def disable_quote_character(self) -> Self:
            """Enclose no fields."""
            return self._with(quote=None)

        def set_null_literal(self, s: str) -> Self:
            """Set the text that stands for None; none by default."""
            return self._with(null_literal=s, has_null_literal=True)

        def build(self) -> CsvRowSerializationSchema:
            """Make the schema.

            Raises:
                NotSupportedError: If a field's type has no CSV form.
            """
            return CsvRowSerializationSchema(self._dialect)


def _one(character: str) -> str:
    if len(character) != 1:
        raise ConfigurationError(f"{character!r} was given", detail="It must be one character.")
    return character


def _reader(kind: TypeInformation, dialect: _Dialect) -> Converter | None:
    """Return what makes a value of a field's text; None if that is the value itself."""
    if kind.describe() == "STRING" and not dialect.has_null_literal:
        return None
    return _field_reader(kind, dialect)


def _field_reader(kind: TypeInformation, dialect: _Dialect) -> Converter:
    is_text = kind.describe() == "STRING"
    scalar = int if isinstance(kind, BasicTypeInfo) and kind.name in _INTEGERS else scalar_reader(kind)
    if scalar is not None:
        read: Converter = scalar
    elif isinstance(kind, _SequenceTypeInfo):
        element = _field_reader(kind._element_type, dialect)
        read = _split_reader(dialect, lambda parts: [element(part) for part in parts])
    elif isinstance(kind, RowTypeInfo):
        readers = [_field_reader(part, dialect) for part in kind.get_field_types()]
        names = tuple(kind.get_field_names())
        read = _split_reader(
            dialect, lambda parts: Row.of(names, [r(part) for r, part in zip(readers, parts, strict=True)])
        )
    else:
        raise NotSupportedError(f"type {kind.describe()} has no CSV form")

    def read_field(text: str) -> Any:
        if dialect.has_null_literal and text == dialect.null_literal:
            return None
        return None if text == "" and not is_text else read(text)

    return read_field


def _split_reader(dialect: _Dialect, combine: Converter) -> Converter:
    return lambda text: combine(text.split(dialect.array_delimiter))


def _field_writer(kind: TypeInformation, dialect: _Dialect, lines: CsvLines) -> Converter:
    """Return what writes a field: numbers and truth values as they are, all else enclosed where it has to be."""
    write = _text_writer(kind, dialect)
    null = dialect.null_literal
    if isinstance(kind, BasicTypeInfo) and kind.name in _BARE:
        return lambda value: null if value is None else write(value)
    return lambda value: null if value is None else lines.text(write(value))


def _text_writer(kind: TypeInformation, dialect: _Dialect) -> Converter:
    if isinstance(kind, BasicTypeInfo):
        iso = kind.name == "INSTANT" or kind.name.startswith("LOCAL_")
        return scalar_writer(kind) or kind.to_text if iso else kind.to_text
    if isinstance(kind, (RowTypeInfo, TupleTypeInfo)):
        parts = [_text_writer(part, dialect) for part in kind.get_field_types()]
        return lambda value: _joined(parts, value, dialect)
    if isinstance(kind, _SequenceTypeInfo):
        element = _text_writer(kind._element_type, dialect)
        return lambda value: _joined(repeat(element, len(value)), value, dialect)
    raise NotSupportedError(f"type {kind.describe()} has no CSV form")


def _joined(writers: Iterable[Converter], values: Iterable[Any], dialect: _Dialect) -> str:
    pairs = zip(writers, values, strict=True)
    return dialect.array_delimiter.join(
        dialect.null_literal if value is None else write(value) for write, value in pairs
    )
