"""Parquet files as rows, both ways; needs pyarrow (the extra `parquet`), loaded when it is used."""

from __future__ import annotations

import datetime
from collections.abc import Callable, Sequence
from itertools import accumulate
from typing import Any, BinaryIO

from millstream.common import datatypes as types
from millstream.common.errors import ConfigurationError, SourceError, TypeMismatchError, shorten
from millstream.common.serialization import BulkWriter, BulkWriterFactory
from millstream.common.time import Instant
from millstream.common.types import rows_of
from millstream.formats.arrow_values import values_of
from millstream.formats.rows import Tabulator
from millstream.spi.formats import BulkFormat, FileRecords

__all__ = ["ParquetBulkWriters", "ParquetColumnarRowInputFormat"]

_ROW_GROUP_ROWS = 100_000
_READ_ROWS = 16_384
_READ_BYTES = 4 << 20


class ParquetColumnarRowInputFormat(BulkFormat):
    """Rows of Parquet files, the columns of `row_type` by name; a position is the number of rows before it.

    Timestamps come as naive datetimes. Those that the file marks as UTC (and the old INT96 ones) are given in
    UTC if `is_utc_timestamp`, else in the machine's local zone. Only the columns of `row_type` are read, and no
    row group that ends before the position. Some thousand rows are decoded at a time: `batch_size` if that is more,
    fewer if they are large.
    """

    def __init__(
        self,
        row_type: types.RowType,
        hadoop_config: object | None = None,
        batch_size: int = 2048,
        is_utc_timestamp: bool = False,
        is_case_sensitive: bool = True,
    ) -> None:
        if batch_size < 1:
            raise ConfigurationError(f"batch_size is {batch_size}, must be at least 1")
        _arrow()
        self._row_type = row_type
        self._batch_size = batch_size
        self._utc = is_utc_timestamp
        self._case_sensitive = is_case_sensitive

    def open(self, file: BinaryIO, path: str, position: Any) -> FileRecords:
        """Read rows from a position on.

        Raises:
            SourceError: If it is no Parquet file, or a column is missing.
        """
        pa, pq = _arrow()
        try:
            parquet = pq.ParquetFile(file)
        except (pa.ArrowInvalid, OSError) as error:
            raise SourceError(f"file {path!r} is no Parquet file", detail=str(error)) from error
        names = self._file_columns(parquet, path)
        return _ParquetRows(
            parquet, file, path, names, self._row_type, self._batch_size, self._utc, position or 0
        )

    def _file_columns(self, parquet: Any, path: str) -> list[str]:
        present = list(parquet.schema_arrow.names)
        by_name = {name if self._case_sensitive else name.lower(): name for name in present}
        wanted = self._row_type.field_names()
        keys = wanted if self._case_sensitive else [name.lower() for name in wanted]
        missing = [name for name, key in zip(wanted, keys, strict=True) if key not in by_name]
        if missing:
            raise SourceError(
                f"file {path!r} has no column {missing[0]!r}",
                detail=f"Its columns: {shorten(present, 1000)}.",
                hint="Name the file's columns in the row type.",
            )
        return [by_name[key] for key in keys]


class _ParquetRows(FileRecords):
    def __init__(
        self,
        parquet: Any,
        file: BinaryIO,
        path: str,
        names: list[str],
        row_type: types.RowType,
        batch_size: int,
        utc: bool,
        position: int,
    ) -> None:
        self._parquet = parquet
        self._file = file
        self._path = path
        self._names = names
        self._fields = tuple(row_type.field_names())
        self._arrow_types = [_arrow_type(field.data_type) for field in row_type]
        self._utc = utc
        self._position = position
        self._total = parquet.metadata.num_rows
        self._int96 = _int96_columns(parquet)
        groups = [parquet.metadata.row_group(index).num_rows for index in range(parquet.num_row_groups)]
        ends = list(accumulate(groups))
        first = next((index for index, end in enumerate(ends) if end > position), len(groups))
        self._skip = position - (ends[first - 1] if first else 0)
        self._batches = parquet.iter_batches(
            batch_size=_fitting_rows(parquet, batch_size),
            row_groups=list(range(first, len(groups))),
            columns=names,
        )
        self._columns: list[list[Any]] = []  # decoded; the first rows of them were given
        self._given = self._decoded = 0

    def read(self, max_records: int) -> list[Any]:
        rows: list[Any] = []
        while len(rows) < max_records and (self._given < self._decoded or self._decode()):
            first, last = self._given, min(self._given + max_records - len(rows), self._decoded)
            columns = self._columns
            if last - first < self._decoded:
                columns = [column[first:last] for column in columns]
            rows += rows_of(self._fields, zip(*columns, strict=True))
            self._given = last
        self._position += len(rows)
        return rows

    @property
    def position(self) -> int:
        return self._position

    @property
    def exhausted(self) -> bool:
        return bool(self._position >= self._total)

    def close(self) -> None:
        self._parquet.close()
        self._file.close()

    def _decode(self) -> bool:
        """Decode the next batch; return whether there is one."""
        pa, _ = _arrow()
        try:
            batch = next(self._batches, None)
        except (pa.ArrowInvalid, OSError) as error:
            raise SourceError(f"file {self._path!r} does not read as Parquet", detail=str(error)) from error
        if batch is None:
            return False
        if self._skip:
            skipped = min(self._skip, batch.num_rows)
            batch = batch.slice(skipped)
            self._skip -= skipped
        self._columns = [
            self._values(batch.column(batch.schema.get_field_index(name)), name, arrow_type)
            for name, arrow_type in zip(self._names, self._arrow_types, strict=True)
        ]
        self._given, self._decoded = 0, batch.num_rows
        return True

    def _values(self, column: Any, name: str, arrow_type: Any) -> list[Any]:
        pa, _ = _arrow()
        zoned = pa.types.is_timestamp(column.type) and (column.type.tz is not None or name in self._int96)
        try:
            if zoned:
                in_utc = values_of(
                    column.cast(pa.timestamp("us", column.type.tz), safe=False).view(pa.timestamp("us"))
                )
                return in_utc if self._utc else [value and _local(value) for value in in_utc]
            safe = not pa.types.is_timestamp(column.type)  # nanoseconds are cut
            values = values_of(column.cast(arrow_type, safe=safe))
            if pa.types.is_map(arrow_type):
                return [None if value is None else dict(value) for value in values]
            return values
        except (pa.ArrowInvalid, pa.ArrowNotImplementedError) as error:
            raise SourceError(
                f"file {self._path!r}, column {name!r}: type {column.type} does not fit {arrow_type}",
                detail=str(error),
                hint="Declare the file's type in the row type.",
            ) from error


def _local(in_utc: datetime.datetime) -> datetime.datetime:
    """Return a moment in the machine's zone; both without zone."""
    return in_utc.replace(tzinfo=datetime.UTC).astimezone().replace(tzinfo=None)


def _fitting_rows(parquet: Any, batch_size: int) -> int:
    """Return how many rows of a file are decoded at a time."""
    metadata = parquet.metadata
    groups = [metadata.row_group(index) for index in range(metadata.num_row_groups)]
    row_bytes = max((group.total_byte_size // max(group.num_rows, 1) for group in groups), default=0)
    return max(1, min(max(batch_size, _READ_ROWS), _READ_BYTES // max(row_bytes, 1)))


class ParquetBulkWriters:
    """Makes writers of Parquet files for `FileSink.for_bulk_format`."""

    @staticmethod
    def for_row_type(
        row_type: types.RowType, hadoop_config: object | None = None, utc_timestamp: bool = False
    ) -> BulkWriterFactory:
        """Write rows, tuples, lists or dicts of the row type.

        Timestamps are written as they are, without zone; `hadoop_config` has no meaning here.

        Raises:
            ConfigurationError: If pyarrow is not installed, or a type cannot be written.
        """
        _RowColumns(row_type)
        return _ParquetWriterFactory(row_type)


class _ParquetWriterFactory(BulkWriterFactory):
    def __init__(self, row_type: types.RowType) -> None:
        self._row_type = row_type
        self._columns: _RowColumns | None = None

    def __getstate__(self) -> dict[str, Any]:
        return {"_row_type": self._row_type, "_columns": None}

    def create(self, file: BinaryIO) -> BulkWriter:
        if self._columns is None:
            self._columns = _RowColumns(self._row_type)
        return _ParquetWriter(file, self._columns)


class _RowColumns:
    """Makes Arrow columns of rows, as many at a time as there are; one for all files of a sink.

    Raises:
        ConfigurationError: From the constructor, if pyarrow is not installed, or a type cannot be written.
    """

    def __init__(self, row_type: types.RowType) -> None:
        self._tabulator = Tabulator(tuple(row_type.field_names()))
        self._columns = [
            (field, _arrow_type(field.data_type), _encoder(field.data_type)) for field in row_type
        ]
        pa, _ = _arrow()
        self.schema = pa.schema(
            [
                pa.field(field.name, arrow_type, field.data_type.nullable)
                for field, arrow_type, _ in self._columns
            ]
        )

    def batch(self, elements: Sequence[Any]) -> Any:
        """Return a record batch.

        Raises:
            TypeMismatchError: If a record does not fit the row type.
        """
        pa, _ = _arrow()
        columns = self._tabulator.columns(elements)
        arrays = [
            self._array(pa, field, arrow_type, encode, values)
            for (field, arrow_type, encode), values in zip(self._columns, columns, strict=True)
        ]
        return pa.record_batch(arrays, schema=self.schema)

    def _array(
        self,
        pa: Any,
        field: types.RowField,
        arrow_type: Any,
        encode: Callable[[Any], Any] | None,
        values: Sequence[Any],
    ) -> Any:
        try:
            encoded = values if encode is None else [None if v is None else encode(v) for v in values]
            array = pa.array(encoded, arrow_type)
        except (pa.ArrowException, OverflowError, TypeError, ValueError) as error:
            for value in values:
                _check_value(field, value)
            raise TypeMismatchError(
                f"column {field.name!r}: values do not fit type {field.data_type}", detail=str(error)
            ) from error
        if array.null_count and not field.data_type.nullable:
            raise TypeMismatchError(f"column {field.name!r}: value None does not fit type {field.data_type}")
        return array


class _ParquetWriter(BulkWriter):
    """Collects rows and writes them as row groups; a file of one group is made in memory and written at once."""

    def __init__(self, file: BinaryIO, columns: _RowColumns) -> None:
        self._file = file
        self._columns = columns
        self._writer: Any = None
        self._batches: list[Any] = []
        self._count = 0

    def add_elements(self, elements: Sequence[Any]) -> None:
        # Converted at once: a record that does not fit fails in the epoch it came in.
        self._batches.append(self._columns.batch(elements))
        self._count += len(elements)
        if self._count >= _ROW_GROUP_ROWS:
            if self._writer is None:
                self._writer = self._begin(self._file)
            self._write_group(self._writer)

    def finish(self) -> None:
        if self._writer is not None:
            self._write_group(self._writer)
            self._writer.close()
            return
        # Arrow writes a file in many small pieces, and asks for the position before each.
        pa, _ = _arrow()
        buffer = pa.BufferOutputStream()
        with self._begin(buffer) as writer:
            self._write_group(writer)
        self._file.write(buffer.getvalue())

    def _begin(self, file: Any) -> Any:
        _, pq = _arrow()
        return pq.ParquetWriter(file, self._columns.schema)

    def _write_group(self, writer: Any) -> None:
        pa, _ = _arrow()
        if self._count:
            table = pa.Table.from_batches(self._batches, self._columns.schema)
            writer.write_table(table if len(self._batches) == 1 else table.combine_chunks())
        self._batches, self._count = [], 0


def _encoder(data_type: types.DataType) -> Callable[[Any], Any] | None:
    """Return what makes pyarrow's value of one of a type; None if that is the value itself."""
    if isinstance(data_type, types.DecimalType):
        return data_type.rounded
    if isinstance(data_type, types.LocalZonedTimestampType):
        return _moment
    if isinstance(data_type, types.MapType):
        key, item = _encoder(data_type.key_type), _encoder(data_type.value_type)
        return lambda value: [(_encoded(key, k), _encoded(item, v)) for k, v in value.items()]
    if isinstance(data_type, types.ArrayType):
        element = _encoder(data_type.element_type)
        return None if element is None else lambda value: [_encoded(element, each) for each in value]
    return None


def _encoded(encode: Callable[[Any], Any] | None, value: Any) -> Any:
    return value if encode is None or value is None else encode(value)


def _moment(value: datetime.datetime | Instant) -> datetime.datetime:
    """Return a moment in UTC; a datetime without zone is in the machine's."""
    if isinstance(value, Instant):
        seconds = datetime.datetime.fromtimestamp(value.seconds, datetime.UTC)
        return seconds.replace(microsecond=value.nanos // 1000)
    return value.astimezone(datetime.UTC)


def _check_value(field: types.RowField, value: Any) -> None:
    try:
        field.data_type.check(value)
    except TypeMismatchError as error:
        raise TypeMismatchError(f"column {field.name!r}: {error.message}") from error


def _arrow() -> tuple[Any, Any]:
    """Return pyarrow and pyarrow.parquet."""
    try:
        import pyarrow  # optional: the extra `parquet`
        import pyarrow.parquet
    except ImportError as error:
        raise ConfigurationError(
            "Parquet files need the package pyarrow, which is not installed",
            hint='Install the extra: pip install "millstream[parquet]".',
        ) from error
    return pyarrow, pyarrow.parquet


def _int96_columns(parquet: Any) -> set[str]:
    schema = parquet.schema
    return {
        schema.column(index).name
        for index in range(len(schema))
        if schema.column(index).physical_type == "INT96"
    }


def _arrow_type(data_type: types.DataType) -> Any:
    """Return the Arrow type of a SQL type.

    Raises:
        ConfigurationError: If there is none.
    """
    pa, _ = _arrow()
    if isinstance(data_type, types.ArrayType):
        return pa.list_(_arrow_type(data_type.element_type))
    if isinstance(data_type, types.RowType):
        return pa.struct([pa.field(field.name, _arrow_type(field.data_type)) for field in data_type])
    if isinstance(data_type, types.MapType):
        return pa.map_(_arrow_type(data_type.key_type), _arrow_type(data_type.value_type))
    if isinstance(data_type, types.DecimalType):
        return pa.decimal128(data_type.precision, data_type.scale)
    make = _ARROW_TYPES.get(type(data_type))
    if make is None:
        raise ConfigurationError(f"type {data_type} cannot be stored in Parquet files")
    return getattr(pa, make[0])(*make[1:])


_ARROW_TYPES: dict[type[types.DataType], tuple[str, ...]] = {
    types.VarCharType: ("string",),
    types.CharType: ("string",),
    types.VarBinaryType: ("binary",),
    types.BinaryType: ("binary",),
    types.BooleanType: ("bool_",),
    types.TinyIntType: ("int8",),
    types.SmallIntType: ("int16",),
    types.IntType: ("int32",),
    types.BigIntType: ("int64",),
    types.FloatType: ("float32",),
    types.DoubleType: ("float64",),
    types.DateType: ("date32",),
    types.TimeType: ("time64", "us"),
    types.TimestampType: ("timestamp", "us"),
    types.LocalZonedTimestampType: ("timestamp", "us", "UTC"),
}
