"""The rows of a Delta table in its data files: Parquet, without the columns that the table is partitioned by."""

from __future__ import annotations

import zlib
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, BinaryIO

from millstream.base.errors import SourceError
from millstream.connectors.lake.open_file import open_below
from millstream.connectors.lake.reader import DataFiles
from millstream.connectors.lake.records import CHANGE_COLUMN, FileShape
from millstream.connectors.lake.table_file import TableFile
from millstream.types.arrow_types import arrow_type, cast_plain, load_arrow
from millstream.types.datatypes import DataType, RowType

__all__ = ["DeltaFiles", "DeltaSchema", "FileExtra", "KeptRows", "partition_values"]


@dataclass(frozen=True)
class DeltaSchema:
    """What is read of a table.

    Attributes:
        row_type: The columns that are given, and behind them those that are only looked at.
        given: How many are given.
        partition_columns: What the table is partitioned by.
    """

    row_type: RowType
    given: int
    partition_columns: tuple[str, ...]

    def given_type(self) -> RowType:
        """Return what is given."""
        return RowType(list(self.row_type)[: self.given])


@dataclass(frozen=True, slots=True)
class KeptRows:
    """The rows of a file that a deletion vector leaves, as bits.

    Attributes:
        bits: Compressed.
        count: How many bits; rows behind them are kept.
    """

    bits: bytes
    count: int

    @staticmethod
    def of(mask: Any) -> KeptRows:
        """Keep an Arrow array of booleans, without null."""
        pa = load_arrow("Delta tables")
        whole = pa.concat_arrays([mask.slice(0, 0), mask])  # begins with its first bit
        return KeptRows(zlib.compress(whole.buffers()[1]), len(mask))

    def places(self, first_row: int, count: int) -> Any:
        """Return the places of the rows that are kept, of `count` rows from `first_row` on."""
        pa = load_arrow("Delta tables")
        bits = pa.Array.from_buffers(
            pa.bool_(), self.count, [None, pa.py_buffer(zlib.decompress(self.bits))]
        ).slice(first_row, count)
        behind = pa.array([True] * (count - len(bits)), pa.bool_())
        return pa.array(range(count)).filter(pa.concat_arrays([bits, behind]))


@dataclass(frozen=True, slots=True)
class FileExtra:
    """What is known of a file besides.

    Attributes:
        partition: Values of the partition's columns that are read, by name.
        kept: Which rows are left; None for all.
    """

    partition: Mapping[str, Any]
    kept: KeptRows | None = None


def partition_values(schema: DeltaSchema, texts: Mapping[str, str | None]) -> dict[str, Any]:
    """Return the values of a partition's columns, of those that are read.

    Args:
        schema: What is read.
        texts: As the log has them.

    Raises:
        SourceError: If one is no value of its column.
    """
    values = {}
    for field in schema.row_type:
        if field.name in schema.partition_columns:
            text = texts.get(field.name)
            values[field.name] = (
                None if text in (None, "") else _parse(field.name, field.data_type, str(text))
            )
    return values


def _parse(name: str, data_type: DataType, text: str) -> Any:
    pa = load_arrow("Delta tables")
    kind = arrow_type(data_type)
    try:
        if pa.types.is_binary(kind):
            return text.encode()
        if pa.types.is_timestamp(kind) and kind.tz is not None and text[-1] != "Z" and "T" not in text:
            text += "Z"  # the protocol has them in UTC
        return pa.array([text]).cast(kind)[0].as_py()
    except pa.ArrowException as error:
        raise SourceError(
            f"the log of a Delta table has the value {text!r} for the partition column {name!r} of type {data_type}",
            detail=str(error).partition("\n")[0],
        ) from error


class DeltaFiles(DataFiles):
    """Opens data files.

    Args:
        address: Of the table, with what it says of how to reach it.
    """

    def __init__(self, address: str) -> None:
        self._address = address

    def row_type(self, schema: DeltaSchema) -> RowType:
        """Return what is given of each file."""
        return schema.given_type()

    def shape(self, file: TableFile) -> FileShape:
        """Return how the rows of the table are in a file."""
        return _DeltaShape(file)

    def open(self, file: TableFile) -> BinaryIO:
        """Open a file."""
        return open_below(file.path, [self._address])


class _DeltaShape(FileShape):
    """Columns by name; those that a file lacks are null: they were added to the table later."""

    def __init__(self, file: TableFile) -> None:
        self._pa = load_arrow("Delta tables")
        self._schema: DeltaSchema = file.schema
        self._extra: FileExtra = file.extra
        self._tells_changes = file.kind is None

    def names(self, schema: Any) -> list[str]:
        inside = [
            field.name
            for field in self._schema.row_type
            if field.name not in self._extra.partition and field.name in schema.names
        ]
        if self._tells_changes:
            inside.append(CHANGE_COLUMN)
        return inside or [schema.names[0]]

    def convert(self, batch: Any, first_row: int) -> tuple[Any, Any]:
        pa = self._pa
        columns, names = [], []
        for field in self._schema.row_type:
            kind = arrow_type(field.data_type)
            place = batch.schema.get_field_index(field.name)
            if field.name in self._extra.partition:
                column = pa.repeat(pa.scalar(self._extra.partition[field.name], kind), batch.num_rows)
            elif place < 0:
                column = pa.nulls(batch.num_rows, kind)
            else:
                column = cast_plain(batch.column(place), kind)
            columns.append(column)
            names.append(field.name)
        if self._tells_changes:
            names.append(CHANGE_COLUMN)
            columns.append(batch.column(batch.schema.get_field_index(CHANGE_COLUMN)))
        rows = pa.record_batch(columns, names=names)
        if self._extra.kept is None:
            return rows, None
        places = self._extra.kept.places(first_row, batch.num_rows)
        return rows.take(places), places
