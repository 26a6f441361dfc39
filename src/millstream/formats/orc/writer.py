"""ORC files written from rows (PyFlink's `pyflink.datastream.formats.orc`); needs pyarrow (the extra `parquet`)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, BinaryIO

from millstream.base.errors import ConfigurationError, shorten
from millstream.config.configuration import Configuration
from millstream.formats.orc.reader import load_orc
from millstream.formats.row_columns import RowColumns
from millstream.spi.serialization import BulkWriter, BulkWriterFactory
from millstream.types import datatypes as types
from millstream.types.arrow_types import load_arrow

__all__ = ["OrcBulkWriters"]

_GATHERED_ROWS = 16_384
_CODECS = {"NONE": "uncompressed", "ZLIB": "zlib", "SNAPPY": "snappy", "LZ4": "lz4", "ZSTD": "zstd"}
_SIZES = {"orc.stripe.size": "stripe_size", "orc.row.index.stride": "row_index_stride"}


class OrcBulkWriters:
    """Makes writers of ORC files for `FileSink.for_bulk_format`.

    Example:
        >>> from millstream.table import DataTypes
        >>> from millstream.datastream.connectors.file_system import FileSink
        >>> from millstream.datastream.formats.orc import OrcBulkWriters
        >>> city = DataTypes.ROW([DataTypes.FIELD("city", DataTypes.STRING())])
        >>> writers = OrcBulkWriters.for_row_type(city, {"orc.compress": "ZSTD"})
        >>> sink = FileSink.for_bulk_format("out/cities", writers).build()
    """

    @staticmethod
    def for_row_type(
        row_type: types.RowType,
        writer_properties: Configuration | Mapping[str, str] | None = None,
        hadoop_config: object | None = None,
    ) -> BulkWriterFactory:
        """Write rows, tuples, lists or dicts of the row type.

        Args:
            row_type: Names and types; ORC has no times of day.
            writer_properties: `orc.compress` (NONE, ZLIB, SNAPPY, LZ4 or ZSTD; ZLIB by default), `orc.stripe.size`
                (bytes) and `orc.row.index.stride` (rows).
            hadoop_config: Has no meaning here.

        Raises:
            ConfigurationError: If pyarrow is not installed, a type cannot be written, or a property is not known.
        """
        load_orc()
        RowColumns(row_type)
        _check_types(row_type)
        return _OrcWriterFactory(row_type, _options(writer_properties))


def _check_types(kind: types.DataType) -> None:
    if isinstance(kind, types.TimeType):
        raise ConfigurationError(
            f"type {kind} cannot be written to ORC files", hint="Make it an INT or a STRING."
        )
    parts: Sequence[types.DataType] = ()
    if isinstance(kind, types.RowType):
        parts = kind.field_types()
    elif isinstance(kind, types.ArrayType):
        parts = (kind.element_type,)
    elif isinstance(kind, types.MapType):
        parts = (kind.key_type, kind.value_type)
    for part in parts:
        _check_types(part)


def _options(properties: Configuration | Mapping[str, str] | None) -> dict[str, Any]:
    given = properties.to_dict() if isinstance(properties, Configuration) else dict(properties or {})
    options: dict[str, Any] = {"compression": "zlib"}
    for key, value in given.items():
        if key == "orc.compress" and str(value).upper() in _CODECS:
            options["compression"] = _CODECS[str(value).upper()]
        elif key in _SIZES and str(value).isdecimal() and int(value) > 0:
            options[_SIZES[key]] = int(value)
        else:
            raise ConfigurationError(
                f"property {key!r} of ORC writers was given {shorten(value)}",
                detail=f"Known: orc.compress ({', '.join(_CODECS)}), {', '.join(_SIZES)} (positive numbers).",
            )
    return options


class _OrcWriterFactory(BulkWriterFactory):
    def __init__(self, row_type: types.RowType, options: dict[str, Any]) -> None:
        self._row_type = row_type
        self._options = options

    def create(self, file: BinaryIO) -> BulkWriter:
        return _OrcWriter(file, RowColumns(self._row_type), self._options)


class _Kept:
    """A file as pyarrow writes to it, which stays open."""

    closed = False

    def __init__(self, file: BinaryIO) -> None:
        self._file = file
        self._written = 0

    def write(self, data: Any) -> int:
        self._file.write(data)
        self._written += len(data)
        return len(data)

    def tell(self) -> int:
        return self._written

    def flush(self) -> None:
        """The file is flushed by who has it."""

    def close(self) -> None:
        """The file is closed by who has it."""


class _OrcWriter(BulkWriter):
    """Hands some thousand rows at a time to ORC's writer, which makes stripes of them."""

    def __init__(self, file: BinaryIO, columns: RowColumns, options: dict[str, Any]) -> None:
        self._columns = columns
        self._writer = load_orc().ORCWriter(_Kept(file), **options)
        self._has_rows = any(map(_holds_struct, columns.schema.types))
        self._batches: list[Any] = []
        self._count = 0

    def add_elements(self, elements: Sequence[Any]) -> None:
        # Converted at once: a record that does not fit fails in the epoch it came in.
        self._add(self._columns.batch(elements))

    def add_columns(self, batch: Any) -> None:
        self._add(self._columns.stored(batch))

    def _add(self, batch: Any) -> None:
        self._batches.append(batch)
        self._count += batch.num_rows
        if self._count >= _GATHERED_ROWS:
            self._write()

    def finish(self) -> None:
        self._write()
        self._writer.close()

    def _write(self) -> None:
        pa = load_arrow("ORC files")
        table = pa.Table.from_batches(self._batches, self._columns.schema).combine_chunks()
        if self._has_rows:
            # pyarrow 26 takes the wrong rows of a slice's structs for None: nothing here may be a slice.
            table = table.take(pa.array(range(table.num_rows)))
        self._writer.write(table)
        self._batches, self._count = [], 0


def _holds_struct(kind: Any) -> bool:
    pa = load_arrow("ORC files")
    if pa.types.is_map(kind):
        return _holds_struct(kind.key_type) or _holds_struct(kind.item_type)
    return bool(pa.types.is_struct(kind)) or (bool(pa.types.is_list(kind)) and _holds_struct(kind.value_type))
