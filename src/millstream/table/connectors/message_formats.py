"""Formats of messages in tables: what reads and writes them, by the options `format`, `key.format`, `value.format`.

Dates, times and decimals travel as text in JSON and CSV, in SQL's form (`2024-01-31 10:00:00.123`): schemas read and
write them as text, and columns are cast from and to it as a whole.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from millstream.base.errors import ConfigurationError
from millstream.spi.serialization import DeserializationSchema, SerializationSchema
from millstream.table.connectors.json_options import check_json_options
from millstream.table.connectors.options import ConnectorOptions
from millstream.table.errors import did_you_mean
from millstream.table.plan.changes import ALL, INSERT_ONLY, ChangelogMode
from millstream.types import datatypes as sql
from millstream.types.sql_types import row_type_info
from millstream.types.typeinfo import RowTypeInfo

__all__ = ["MESSAGE_FORMATS", "format_mode", "message_reader", "message_writer", "wire_type"]

_CHANGELOGS = ("canal-json", "debezium-json", "maxwell-json")
MESSAGE_FORMATS = ("avro", *_CHANGELOGS, "csv", "json", "raw")
_AS_TEXT = (sql.DateType, sql.TimeType, sql.TimestampType)


def check_format(name: str) -> str:
    """Return the name of a format.

    Raises:
        ConfigurationError: If there is none of that name.
    """
    if name not in MESSAGE_FORMATS:
        raise ConfigurationError(
            f'format "{name}" of messages was not found',
            detail=f"There are: {', '.join(MESSAGE_FORMATS)}.",
            hint=did_you_mean(name, MESSAGE_FORMATS),
        )
    return name


def format_mode(name: str) -> ChangelogMode:
    """Return which kinds of change messages of a format have."""
    return ALL if name in _CHANGELOGS else INSERT_ONLY


def wire_type(name: str, kind: sql.DataType) -> sql.DataType:
    """Return the type that a column has between SQL and a format's schema."""
    if name in ("avro", "raw"):
        return kind
    return sql.VarCharType() if isinstance(kind, _AS_TEXT) else kind


def _row_info(row_type: sql.RowType) -> RowTypeInfo:
    found = row_type_info(row_type, RowTypeInfo)
    if found is None:
        raise ConfigurationError(f"a column of {row_type} has a type that messages do not hold")
    return found


def message_reader(
    name: str, row_type: sql.RowType, options: ConnectorOptions, prefix: str = ""
) -> DeserializationSchema:
    """Return what makes rows of messages.

    Args:
        name: Of the format.
        row_type: Of the rows, in types of `wire_type`.
        options: The table's; those of the format begin with `prefix` and its name.
        prefix: `key.`, `value.` or nothing.

    Raises:
        ConfigurationError: If the format is not there or an option does not fit.
    """
    return _READERS[check_format(name)](row_type, options, f"{prefix}{name}.")


def message_writer(
    name: str, row_type: sql.RowType, options: ConnectorOptions, prefix: str = ""
) -> SerializationSchema:
    """Return what makes messages of rows; arguments as of `message_reader`.

    Raises:
        ConfigurationError: If the format is not there or an option does not fit.
    """
    return _WRITERS[check_format(name)](row_type, options, f"{prefix}{name}.")


def _read_json(row_type: sql.RowType, options: ConnectorOptions, before: str) -> DeserializationSchema:
    from millstream.formats.json.messages import JsonRowDeserializationSchema  # only tables of JSON

    check_json_options(options, before)
    builder = JsonRowDeserializationSchema.builder().type_info(_row_info(row_type))
    if options.flag(f"{before}fail-on-missing-field", False):
        builder.fail_on_missing_field()
    if options.flag(f"{before}ignore-parse-errors", False):
        builder.ignore_parse_errors()
    return builder.build()


def _write_json(row_type: sql.RowType, options: ConnectorOptions, before: str) -> SerializationSchema:
    from millstream.formats.json.messages import JsonRowSerializationSchema  # only tables of JSON

    check_json_options(options, before)
    for key in ("fail-on-missing-field", "ignore-parse-errors"):
        options.flag(before + key, False)
    return JsonRowSerializationSchema.builder().with_type_info(_row_info(row_type)).build()


def _read_csv(row_type: sql.RowType, options: ConnectorOptions, before: str) -> DeserializationSchema:
    from millstream.formats.csv.messages import CsvRowDeserializationSchema  # only tables of CSV

    builder: Any = CsvRowDeserializationSchema.Builder(_row_info(row_type))
    builder = _csv_dialect(builder, options, before)
    builder = builder.set_allow_comments(options.flag(f"{before}allow-comments", False))
    return builder.set_ignore_parse_errors(options.flag(f"{before}ignore-parse-errors", False)).build()  # type: ignore[no-any-return]


def _write_csv(row_type: sql.RowType, options: ConnectorOptions, before: str) -> SerializationSchema:
    from millstream.formats.csv.messages import CsvRowSerializationSchema  # only tables of CSV

    builder: Any = CsvRowSerializationSchema.Builder(_row_info(row_type))
    builder = _csv_dialect(builder, options, before).set_line_delimiter("")
    for key in ("allow-comments", "ignore-parse-errors", "write-bigdecimal-in-scientific-notation"):
        options.flag(before + key, False)
    if options.flag(f"{before}disable-quote-character", False):
        builder = builder.disable_quote_character()
    return builder.build()  # type: ignore[no-any-return]


def _csv_dialect(builder: Any, options: ConnectorOptions, before: str) -> Any:
    builder = builder.set_field_delimiter(options.text(f"{before}field-delimiter", ",") or ",")
    builder = builder.set_array_element_delimiter(
        options.text(f"{before}array-element-delimiter", ";") or ";"
    )
    quote, escape = options.text(f"{before}quote-character"), options.text(f"{before}escape-character")
    null = options.text(f"{before}null-literal")
    if quote:
        builder = builder.set_quote_character(quote)
    if escape:
        builder = builder.set_escape_character(escape)
    return builder if null is None else builder.set_null_literal(null)


def _avro(row_type: sql.RowType) -> str:
    from millstream.table.connectors.avro_types import avro_schema

    return avro_schema(row_type)


def _read_avro(row_type: sql.RowType, options: ConnectorOptions, before: str) -> DeserializationSchema:
    from millstream.formats.avro.messages import AvroRowDeserializationSchema  # only tables of Avro

    options.with_prefix(before)
    return AvroRowDeserializationSchema(avro_schema_string=_avro(row_type))


def _write_avro(row_type: sql.RowType, options: ConnectorOptions, before: str) -> SerializationSchema:
    from millstream.formats.avro.messages import AvroRowSerializationSchema  # only tables of Avro

    options.with_prefix(before)
    return AvroRowSerializationSchema(avro_schema_string=_avro(row_type))


def _changelog(name: str, writes: bool) -> Callable[..., Any]:
    def make(row_type: sql.RowType, options: ConnectorOptions, before: str) -> Any:
        from millstream.formats.json import changelog  # only tables of changes

        check_json_options(options, before)
        options.flag(f"{before}ignore-parse-errors", False)
        for key in ("schema-include", "database.include", "table.include"):
            if options.text(before + key) not in (None, "false"):
                raise options.error(
                    before + key, options.text(before + key) or "", "It is not in millstream yet."
                )
        kind = {"canal-json": "Canal", "debezium-json": "Debezium", "maxwell-json": "Maxwell"}[name]
        made = getattr(changelog, f"{kind}Json{'S' if writes else 'Des'}erializationSchema")
        return made(_row_info(row_type))

    return make


class RawReader(DeserializationSchema):
    """A message as the only column: text of a charset, or the bytes themselves.

    Args:
        row_type: One column, STRING or BYTES.
        charset: Of text.
    """

    def __init__(self, row_type: sql.RowType, charset: str) -> None:
        self._type_info = _row_info(row_type)
        self._is_text = isinstance(row_type.fields[0].data_type, sql.VarCharType)
        self._name = row_type.fields[0].name
        self._charset = charset

    def get_produced_type(self) -> RowTypeInfo:
        """Return the type of the rows."""
        return self._type_info

    def deserialize(self, message: bytes) -> Any:
        """Return the row of a message."""
        from millstream.types.row import Row

        value = message.decode(self._charset) if self._is_text else message
        return Row.of((self._name,), [value])


class RawWriter(SerializationSchema):
    """The only column as a message.

    Args:
        charset: Of text.
    """

    def __init__(self, charset: str) -> None:
        self._charset = charset

    def serialize(self, value: Any) -> bytes:
        """Return the bytes of a row."""
        only = value[0]
        return only.encode(self._charset) if isinstance(only, str) else bytes(only)


def _check_raw(row_type: sql.RowType) -> None:
    fits = len(row_type.fields) == 1 and isinstance(
        row_type.fields[0].data_type, (sql.VarCharType, sql.VarBinaryType)
    )
    if not fits:
        raise ConfigurationError("format raw takes a table with one column, of type STRING or BYTES")


def _read_raw(row_type: sql.RowType, options: ConnectorOptions, before: str) -> DeserializationSchema:
    _check_raw(row_type)
    return RawReader(row_type, options.text(f"{before}charset", "UTF-8") or "UTF-8")


def _write_raw(row_type: sql.RowType, options: ConnectorOptions, before: str) -> SerializationSchema:
    _check_raw(row_type)
    return RawWriter(options.text(f"{before}charset", "UTF-8") or "UTF-8")


_READERS: dict[str, Callable[[sql.RowType, ConnectorOptions, str], DeserializationSchema]] = {
    "avro": _read_avro,
    "csv": _read_csv,
    "json": _read_json,
    "raw": _read_raw,
    **{name: _changelog(name, False) for name in _CHANGELOGS},
}
_WRITERS: dict[str, Callable[[sql.RowType, ConnectorOptions, str], SerializationSchema]] = {
    "avro": _write_avro,
    "csv": _write_csv,
    "json": _write_json,
    "raw": _write_raw,
    **{name: _changelog(name, True) for name in _CHANGELOGS},
}
