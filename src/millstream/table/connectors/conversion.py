"""Between connectors, which have rows or columns by name, and SQL, which has columns by place."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from millstream.base.errors import SourceError, TypeMismatchError
from millstream.operators.base import Operator, OperatorReport, OperatorSpec
from millstream.spi.batch import Batch, Columns, Rows
from millstream.table.expressions.compiling import ExpressionProgram
from millstream.table.expressions.rex import InputRef, RowSchema
from millstream.table.functions.coercion import build_cast
from millstream.table.functions.types import arrow_type
from millstream.types.datatypes import DataType, LocalZonedTimestampType, VarCharType

__all__ = ["DiscardSpec", "FromSqlSpec", "ToSqlSpec", "cast_column"]


def cast_column(column: Any, kind: Any, zone: str | None = None) -> Any:
    """Return an Arrow array in another type; moments without zone are of `zone` (UTC by default).

    Raises:
        pyarrow.ArrowException: If a value does not fit.
    """
    if column.type == kind:
        return column
    if pa.types.is_timestamp(kind) and kind.tz is not None and pa.types.is_string(column.type):
        naive = pc.replace_substring_regex(column, "Z$", "")
        return cast_column(naive.cast(pa.timestamp(kind.unit)), kind, zone)
    if pa.types.is_time(kind) and pa.types.is_string(column.type):
        day = pc.binary_join_element_wise("1970-01-01", column, " ")
        return cast_column(day.cast(pa.timestamp("us")), kind)
    if pa.types.is_timestamp(kind) and pa.types.is_timestamp(column.type):
        if kind.tz is not None and column.type.tz is None:
            column = pc.assume_timezone(column, zone or "UTC", ambiguous="earliest", nonexistent="earliest")
        elif kind.tz is None and column.type.tz is not None:
            column = pc.local_timestamp(column)
    if pa.types.is_dictionary(column.type):
        column = column.dictionary_decode()
    return column.cast(options=pc.CastOptions(kind, allow_time_truncate=True))


@dataclass(frozen=True)
class ToSqlSpec(OperatorSpec):
    """Declares that records of a source become columns of SQL: exactly these, named f0, f1, ...

    Attributes:
        names: Names of the fields in the records, in the order of the columns.
        types: Of the columns.
        where: The table, for messages.
        by_place: Whether fields are found by place, not by name.
    """

    names: tuple[str, ...]
    types: tuple[DataType, ...]
    where: str
    by_place: bool = False
    takes_columns = True

    def build(self) -> Operator:
        """Make the running half."""
        return _ToSql(self)


class _ToSql(Operator):
    def __init__(self, spec: ToSqlSpec) -> None:
        self._spec = spec
        self._kinds = [arrow_type(kind) for kind in spec.types]
        self._schema = pa.schema([(f"f{place}", kind) for place, kind in enumerate(self._kinds)])
        self._not_null = [place for place, kind in enumerate(spec.types) if not kind.nullable]

    def process(self, batch: Batch) -> None:
        """Convert a batch."""
        spec = self._spec
        columns = batch if isinstance(batch, Columns) else self._from_rows(batch)
        try:
            arrays = [
                cast_column(self._found(columns, place), kind) for place, kind in enumerate(self._kinds)
            ]
        except pa.ArrowException as error:
            raise TypeMismatchError(f"a row of {spec.where} does not fit its columns: {error}") from error
        for place in self._not_null:
            if arrays[place].null_count:
                raise SourceError(
                    f'column "{spec.names[place]}" of {spec.where} is NOT NULL and a row has NULL there',
                    hint="Declare the column without NOT NULL, or filter such rows before.",
                )
        data = pa.record_batch(arrays, schema=self._schema) if arrays else _without_columns(len(columns))
        self.output.emit(Columns(data, None, columns.kinds))

    def _found(self, columns: Columns, place: int) -> Any:
        data = columns.data
        index = place if self._spec.by_place else data.schema.get_field_index(self._spec.names[place])
        if index < 0:
            raise TypeMismatchError(
                f'a row of {self._spec.where} has no field "{self._spec.names[place]}"',
                detail=f"It has: {', '.join(data.schema.names)}.",
            )
        return data.column(index)

    def _from_rows(self, batch: Rows) -> Columns:
        if not batch.values:
            return Columns(
                pa.record_batch([pa.array([], kind) for kind in self._kinds], names=list(self._names()))
            )
        first = batch.values[0]
        if self._spec.by_place or not hasattr(first, "_fields"):
            return Columns.from_rows(Rows(batch.values))
        return Columns.from_rows(Rows(batch.values))

    def _names(self) -> Sequence[str]:
        return self._spec.names


def _without_columns(count: int) -> Any:
    return pa.RecordBatch.from_struct_array(pa.array([{}] * count, pa.struct([])))


@dataclass(frozen=True)
class FromSqlSpec(OperatorSpec):
    """Declares that columns of SQL get the names of a table's columns, and types that a sink writes.

    Attributes:
        names: Of the columns.
        types: Of the columns: what the sink's format says.
        places: Which columns of the stream; all, in order, by default.
        keeps_kinds: Whether rows keep their kinds; otherwise all count as inserted.
        given: SQL types of the stream's columns: those that differ from `types` are cast; () if none do.
    """

    names: tuple[str, ...]
    types: tuple[DataType, ...]
    places: tuple[int, ...] | None = None
    keeps_kinds: bool = False
    given: tuple[DataType, ...] = ()
    takes_columns = True

    def build(self) -> Operator:
        """Make the running half."""
        return _FromSql(self)


class _FromSql(Operator):
    def __init__(self, spec: FromSqlSpec) -> None:
        self._spec = spec
        self._program: ExpressionProgram | None = None

    def open(self) -> None:
        """Compile the casts, if there are any."""
        spec = self._spec
        if not spec.given or spec.given == spec.types:
            return
        casts = [
            ref if kind == wanted else build_cast(ref, wanted)
            for ref, kind, wanted in zip(
                [InputRef(place, kind) for place, kind in enumerate(spec.given)],
                spec.given,
                spec.types,
                strict=True,
            )
        ]
        self._program = ExpressionProgram(casts, RowSchema(spec.names, spec.given))
        self._program.open()

    def process(self, batch: Batch) -> None:
        """Convert a batch."""
        assert isinstance(batch, Columns), "streams of SQL are columns"
        spec = self._spec
        places = range(len(spec.names)) if spec.places is None else spec.places
        if self._program is not None:
            arrays = self._with_zones(self._program.evaluate(batch.data))
        else:
            arrays = [batch.data.column(place) for place in places]
        data = pa.record_batch(arrays, names=list(spec.names))
        self.output.emit(Columns(data, None, batch.kinds if spec.keeps_kinds else None))

    def _with_zones(self, arrays: list[Any]) -> list[Any]:
        """Return texts of moments with the Z of UTC, which they are in."""
        kinds = zip(self._spec.given, self._spec.types, strict=True)
        return [
            pc.binary_join_element_wise(array, "Z", "")
            if isinstance(given, LocalZonedTimestampType) and isinstance(wanted, VarCharType)
            else array
            for array, (given, wanted) in zip(arrays, kinds, strict=True)
        ]


@dataclass(frozen=True)
class DiscardSpec(OperatorSpec):
    """Declares that records are dropped (the connector `blackhole`)."""

    takes_columns = True

    def build(self) -> Operator:
        """Make the running half."""
        return _Discard()


class _Discard(Operator):
    def process(self, batch: Batch) -> None:
        """Drop a batch."""

    def process_watermark(self, timestamp_ms: int) -> None:
        """Take note of it; there is nobody behind."""
        self.watermark_ms = timestamp_ms

    def end_epoch(self, report: OperatorReport, *, checkpoint: bool) -> None:
        """Report nothing."""
