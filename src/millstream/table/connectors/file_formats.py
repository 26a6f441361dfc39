"""Formats of files in tables: what reads and writes them, by the option `format`."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from millstream.base.errors import ConfigurationError, NotSupportedError
from millstream.table.connectors.json_options import check_json_options
from millstream.table.connectors.options import ConnectorOptions
from millstream.table.errors import did_you_mean
from millstream.types import datatypes as sql

__all__ = ["FILE_FORMATS", "file_reader", "file_writer"]

FILE_FORMATS = ("avro", "csv", "json", "orc", "parquet", "raw")


def file_reader(name: str, row_type: sql.RowType, options: ConnectorOptions) -> tuple[Any, bool]:
    """Return what reads files of a format, and whether it is a stream format (record by record).

    Raises:
        ConfigurationError: If the format is not there or an option does not fit.
    """
    return _READERS[_known(name)](row_type, options)


def file_writer(name: str, row_type: sql.RowType, options: ConnectorOptions) -> Any:
    """Return what writes files of a format, a `BulkWriterFactory`.

    Raises:
        ConfigurationError: If the format is not there or an option does not fit.
        NotSupportedError: If it only reads.
    """
    return _WRITERS[_known(name)](row_type, options)


def _known(name: str) -> str:
    if name not in _READERS:
        raise ConfigurationError(
            f'format "{name}" of files was not found',
            detail=f"There are: {', '.join(FILE_FORMATS)}.",
            hint=did_you_mean(name, FILE_FORMATS),
        )
    return name


def csv_schema(row_type: sql.RowType, options: ConnectorOptions) -> Any:
    """Return columns and punctuation of CSV."""
    from millstream.formats.csv.schema import CsvSchema  # only tables of CSV

    builder = CsvSchema.builder()
    array_separator = options.text("csv.array-element-delimiter", ";") or ";"
    for field in row_type.fields:
        if isinstance(field.data_type, sql.ArrayType):
            builder.add_array_column(field.name, array_separator, field.data_type.element_type)
        else:
            builder.add_column(field.name, field.data_type)
    builder.set_column_separator(_character(options, "csv.field-delimiter", ","))
    if options.flag("csv.disable-quote-character", False):
        builder.disable_quote_char()
    else:
        builder.set_quote_char(_character(options, "csv.quote-character", '"'))
    escape = options.text("csv.escape-character")
    if escape:
        builder.set_escape_char(escape)
    null = options.text("csv.null-literal")
    if null is not None:
        builder.set_null_value(null)
    builder.set_allow_comments(options.flag("csv.allow-comments", False))
    if options.flag("csv.ignore-parse-errors", False):
        raise NotSupportedError(
            "'csv.ignore-parse-errors' = 'true' of files is not in millstream yet",
            hint="Read the columns as STRING and use TRY_CAST.",
        )
    options.flag("csv.write-bigdecimal-in-scientific-notation", False)
    return builder.build()


def _character(options: ConnectorOptions, key: str, default: str) -> str:
    value = options.text(key, default) or default
    value = {"\\t": "\t", "\\u0001": "\u0001"}.get(value, value)
    if len(value) != 1:
        raise options.error(key, value, "It takes one character.")
    return value


def _read_csv(row_type: sql.RowType, options: ConnectorOptions) -> tuple[Any, bool]:
    from millstream.formats.csv.reader import CsvReaderFormat  # only tables of CSV

    return CsvReaderFormat.for_schema(csv_schema(row_type, options)), True


def _write_csv(row_type: sql.RowType, options: ConnectorOptions) -> Any:
    from millstream.formats.csv.writer import CsvBulkWriters  # only tables of CSV

    return CsvBulkWriters.for_schema(csv_schema(row_type, options))


def _json_options(options: ConnectorOptions) -> None:
    for key in ("json.fail-on-missing-field", "json.ignore-parse-errors"):
        if options.flag(key, False):
            raise NotSupportedError(f"'{key}' = 'true' of files is not in millstream yet")
    check_json_options(options, "json.")


def _read_json(row_type: sql.RowType, options: ConnectorOptions) -> tuple[Any, bool]:
    from millstream.formats.json.reader import JsonLinesFormat  # only tables of JSON

    _json_options(options)
    return JsonLinesFormat.for_schema(row_type), True


def _write_json(row_type: sql.RowType, options: ConnectorOptions) -> Any:
    from millstream.formats.json.writer import JsonLinesBulkWriters  # only tables of JSON

    _json_options(options)
    return JsonLinesBulkWriters.for_schema(row_type)


def _read_parquet(row_type: sql.RowType, options: ConnectorOptions) -> tuple[Any, bool]:
    from millstream.formats.parquet.reader import ParquetColumnarRowInputFormat  # only tables of Parquet

    options.with_prefix("parquet.")
    return ParquetColumnarRowInputFormat(row_type, is_utc_timestamp=True), False


def _write_parquet(row_type: sql.RowType, options: ConnectorOptions) -> Any:
    from millstream.formats.parquet.writer import ParquetBulkWriters  # only tables of Parquet

    options.with_prefix("parquet.")
    return ParquetBulkWriters.for_row_type(row_type)


def _read_orc(row_type: sql.RowType, options: ConnectorOptions) -> tuple[Any, bool]:
    from millstream.formats.orc.reader import OrcColumnarRowInputFormat  # only tables of ORC

    options.with_prefix("orc.")
    return OrcColumnarRowInputFormat(row_type), False


def _write_orc(row_type: sql.RowType, options: ConnectorOptions) -> Any:
    from millstream.formats.orc.writer import OrcBulkWriters  # only tables of ORC

    options.with_prefix("orc.")
    return OrcBulkWriters.for_row_type(row_type)


def _read_avro(row_type: sql.RowType, options: ConnectorOptions) -> tuple[Any, bool]:
    from millstream.formats.avro.files import AvroFormat  # only tables of Avro
    from millstream.formats.avro.schema import AvroSchema
    from millstream.table.connectors.avro_types import avro_schema

    options.text("avro.codec")
    return AvroFormat.for_rows(AvroSchema.parse_string(avro_schema(row_type))), False


def _write_avro(row_type: sql.RowType, options: ConnectorOptions) -> Any:
    from millstream.formats.avro.files import AvroBulkWriters  # only tables of Avro
    from millstream.formats.avro.schema import AvroSchema
    from millstream.table.connectors.avro_types import avro_schema

    codec = options.text("avro.codec", "snappy") or "snappy"
    return AvroBulkWriters.for_generic_record(AvroSchema.parse_string(avro_schema(row_type)), codec)


def _read_raw(row_type: sql.RowType, options: ConnectorOptions) -> tuple[Any, bool]:
    from millstream.formats.text.lines import TextLineFormat  # only tables of lines

    if len(row_type.fields) != 1 or not isinstance(row_type.fields[0].data_type, sql.VarCharType):
        raise ConfigurationError("format raw of files takes a table with one column of type STRING")
    charset = options.text("raw.charset", "UTF-8") or "UTF-8"
    return TextLineFormat(charset), True


def _write_raw(row_type: sql.RowType, options: ConnectorOptions) -> Any:
    raise NotSupportedError("format raw of files is read only", hint="Use csv with one column.")


_READERS: dict[str, Callable[[sql.RowType, ConnectorOptions], tuple[Any, bool]]] = {
    "avro": _read_avro,
    "csv": _read_csv,
    "json": _read_json,
    "orc": _read_orc,
    "parquet": _read_parquet,
    "raw": _read_raw,
}
_WRITERS: dict[str, Callable[[sql.RowType, ConnectorOptions], Any]] = {
    "avro": _write_avro,
    "csv": _write_csv,
    "json": _write_json,
    "orc": _write_orc,
    "parquet": _write_parquet,
    "raw": _write_raw,
}
