"""DataStreams as tables and tables as DataStreams."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.compute as pc

from millstream.base.errors import SourceError, TypeMismatchError
from millstream.operators.base import Operator, OperatorSpec
from millstream.spi.batch import Batch, Columns
from millstream.table.catalog.definition import as_column, watermark_of
from millstream.table.catalog.resolved import TableColumn
from millstream.table.connectors.conversion import cast_column
from millstream.table.errors import ValidationError, did_you_mean
from millstream.table.expressions.building import Built
from millstream.table.expressions.rex import RowSchema
from millstream.table.functions.types import arrow_type
from millstream.table.plan.bind.tables import declared_columns
from millstream.table.plan.changes import ALL, INSERT_ONLY, ChangelogMode
from millstream.table.plan.logical import LogicalNode, StreamScan
from millstream.table.schema import Schema
from millstream.table.session.bridge import StreamTable
from millstream.table.session.elements import column_array
from millstream.table.session.stream_types import columns_of
from millstream.table.sql import ast
from millstream.types.arrow_records import kinds_of
from millstream.types.datatypes import (
    DataType,
    RowField,
    RowType,
    TimestampType,
)
from millstream.types.row import Row
from millstream.types.sql_types import row_type_info
from millstream.types.typeinfo import RowTypeInfo, TypeInformation, Types

if TYPE_CHECKING:
    from millstream.table.environment import TableEnvironment

__all__ = ["append_stream", "retract_stream", "stream_of_changes", "stream_of_inserts", "table_of_changes"]

_ROWTIME = "rowtime"


# --- streams become tables


@dataclass(frozen=True)
class StreamToSqlSpec(OperatorSpec):
    """Declares that records of a stream become columns of SQL.

    Attributes:
        names: Field of each column; `rowtime` of metadata is the record's timestamp, said by `stamp`.
        places: Where the fields are in records that are tuples.
        types: Of the columns.
        stamp: Place of the column that is the timestamp; None without.
        bare: Whether a record is the value of the only column.
        keeps_kinds: Whether rows' kinds count.
    """

    names: tuple[str, ...]
    places: tuple[int, ...]
    types: tuple[DataType, ...]
    stamp: int | None = None
    bare: bool = False
    keeps_kinds: bool = False
    takes_columns = True

    def build(self) -> Operator:
        """Make the running half."""
        return _StreamToSql(self)


class _StreamToSql(Operator):
    def __init__(self, spec: StreamToSqlSpec) -> None:
        self._spec = spec
        self._kinds = [arrow_type(kind) for kind in spec.types]
        self._schema = pa.schema([(f"f{place}", kind) for place, kind in enumerate(self._kinds)])

    def process(self, batch: Batch) -> None:
        """Convert a batch."""
        if not len(batch):
            return
        arrays = self._of_columns(batch) if isinstance(batch, Columns) else self._of_rows(batch)
        if isinstance(batch, Columns):
            kinds, stamps = batch.kinds, batch.timestamps
        else:
            kinds = kinds_of(batch.values)
            stamps = None if batch.timestamps is None else pa.array(batch.timestamps, pa.int64())
        if self._spec.stamp is not None:
            arrays[self._spec.stamp] = self._stamps(stamps)
        data = pa.record_batch(arrays, schema=self._schema)
        self.output.emit(Columns(data, None, kinds if self._spec.keeps_kinds else None))

    def _stamps(self, stamps: Any) -> Any:
        if stamps is None:
            raise SourceError(
                "the stream's records have no timestamps, which the table's rowtime is to be",
                hint="Assign timestamps before: stream.assign_timestamps_and_watermarks(...).",
            )
        kind = self._kinds[self._spec.stamp or 0]
        moment = stamps.cast(pa.timestamp("ms", "UTC"))
        return cast_column(moment, kind)

    def _of_columns(self, batch: Columns) -> list[Any]:
        spec = self._spec
        arrays: list[Any] = []
        for number, kind in enumerate(self._kinds):
            if number == spec.stamp:
                arrays.append(None)
                continue
            place = batch.data.schema.get_field_index(spec.names[number])
            place = spec.places[number] if place < 0 else place
            arrays.append(cast_column(batch.data.column(place), kind))
        return arrays

    def _of_rows(self, batch: Any) -> list[Any]:
        spec = self._spec
        values = batch.values
        arrays: list[Any] = []
        for number, kind in enumerate(spec.types):
            if number == spec.stamp:
                arrays.append(None)
                continue
            name = spec.names[number]
            if spec.bare:
                found = values
            elif isinstance(values[0], Row) and values[0]._fields is not None:
                found = [row[name] for row in values]
            else:
                place = spec.places[number]
                found = [row[place] for row in values]
            arrays.append(column_array(name, kind, found))
        return arrays


def table_of_stream(
    environment: TableEnvironment, stream: Any, fields_or_schema: Sequence[Any]
) -> LogicalNode:
    """Return a stream of inserted rows as a relation."""
    if len(fields_or_schema) == 1 and isinstance(fields_or_schema[0], Schema):
        return _table(environment, stream, fields_or_schema[0], INSERT_ONLY)
    if not fields_or_schema:
        return _table(environment, stream, None, INSERT_ONLY)
    return _table_by_expressions(environment, stream, fields_or_schema)


def table_of_changes(
    environment: TableEnvironment, stream: Any, schema: Schema | None, mode: Any
) -> LogicalNode:
    """Return a stream of rows with kinds as a relation."""
    made = ALL if mode is None else _mode_of(mode)
    return _table(environment, stream, schema, made, keeps_kinds=True)


def _mode_of(mode: Any) -> ChangelogMode:
    if isinstance(mode, ChangelogMode):
        return mode
    found = getattr(mode, "mode", None)
    if not isinstance(found, ChangelogMode):
        raise TypeMismatchError(
            f"changelog_mode is a {type(mode).__name__}",
            hint="Use ChangelogMode.all(), upsert() or insert_only().",
        )
    return found


def _check_stream(stream: Any) -> None:
    from millstream.datastream.streams.data_stream import DataStream

    if not isinstance(stream, DataStream):
        raise TypeMismatchError(f"a table was to be made of a {type(stream).__name__}, not a DataStream")


def _known(stream: Any) -> tuple[list[str], list[DataType], bool]:
    _check_stream(stream)
    kind = stream.get_type()
    if kind == Types.PICKLED_BYTE_ARRAY():
        raise TypeMismatchError(
            "the type of the stream's records is not declared, so the table's columns are not known",
            hint="Declare it: map(f, output_type=Types.ROW_NAMED([...], [...])), from_collection(..., type_info=...).",
        )
    names, types = columns_of(kind)
    bare = not hasattr(kind, "get_field_types")
    return names, types, bare


def _table(
    environment: TableEnvironment,
    stream: Any,
    schema: Schema | None,
    mode: ChangelogMode,
    *,
    keeps_kinds: bool = False,
) -> LogicalNode:
    names, types, bare = _known(stream)
    columns = [] if schema is None else [as_column(each) for each in schema.definitions]
    if not any(column.kind == "physical" for column in columns):
        # Only computed columns, metadata or a watermark were declared: the stream's columns come first.
        columns = [
            TableColumn(name, "physical", kind) for name, kind in zip(names, types, strict=True)
        ] + columns
    key = () if schema is None else schema.key
    stored = [column for column in columns if column.kind != "computed"]
    if len(stored) < len(columns):
        # Computed columns may be of fields that are no columns themselves.
        declared = {column.name for column in columns}
        stored += [
            TableColumn(name, "physical", kind)
            for name, kind in zip(names, types, strict=True)
            if name not in declared
        ]
    kinds = tuple(_column_type(column, key) for column in stored)
    places, stamp = [], None
    for number, column in enumerate(stored):
        if column.kind == "metadata":
            if (column.metadata_key or column.name) != _ROWTIME:
                raise ValidationError(
                    f'column "{column.name}" is the metadata "{column.metadata_key}" of a stream',
                    detail="A stream has the metadata rowtime only: the timestamp of each record.",
                )
            stamp = number
            places.append(-1)
            continue
        if column.name not in names:
            raise ValidationError(
                f'the stream has no field "{column.name}"',
                detail=f"It has: {', '.join(names)}.",
                hint=did_you_mean(column.name, names),
            )
        places.append(names.index(column.name))
    read = RowSchema(tuple(column.name for column in stored), kinds)
    watermark, _ = watermark_of(None if schema is None else schema.watermark)
    from_source = watermark is not None and _is_source_watermark(watermark[1])
    if from_source and watermark is not None and watermark[0] in read.names:
        read = replace(read, rowtime=frozenset({read.names.index(watermark[0])}))
        watermark = None
    spec = StreamToSqlSpec(read.names, tuple(places), kinds, stamp, bare, keeps_kinds)
    columnar = stream._transform("DataStreamToTable", spec)
    name = f"Unregistered_DataStream_Source_{stream._transformation.id}"
    bounded = bool(getattr(stream._transformation, "bounded", False))
    node = StreamScan(read, StreamTable(columnar, read, mode, key, name, bounded))
    return declared_columns(environment.plan_context(), node, tuple(columns), watermark)


def _column_type(column: TableColumn, key: Sequence[str]) -> DataType:
    assert column.type is not None
    if column.name not in key or not column.type.nullable:
        return column.type
    import copy

    made = copy.copy(column.type)
    made.nullable = False
    return made


def _is_source_watermark(expression: ast.Expression) -> bool:
    return isinstance(expression, ast.Function) and expression.name.upper() == "SOURCE_WATERMARK"


def _table_by_expressions(
    environment: TableEnvironment, stream: Any, expressions: Sequence[Any]
) -> LogicalNode:
    """Name the columns by expressions: `col("a")`, `col("b").alias("c")`, `col("t").rowtime`, `col("p").proctime`."""
    names, types, bare = _known(stream)
    read_names: list[str] = []
    read_types: list[DataType] = []
    places: list[int] = []
    stamp: int | None = None
    proctime: list[str] = []
    by_name = all(_plain_name(each)[0] in names for each in expressions if _plain_name(each)[1] == "")
    position = 0
    for each in expressions:
        field, role, alias = (*_plain_name(each), _alias_of(each))
        if role == "rowtime":
            stamp = len(read_names)
            read_names.append(alias or field)
            read_types.append(TimestampType(3))
            places.append(-1)
            continue
        if role == "proctime":
            proctime.append(alias or field)
            continue
        place = names.index(field) if by_name else position
        position += 1
        if place >= len(types):
            raise ValidationError(f"the stream has {len(types)} fields, more columns were named")
        read_names.append(alias or field)
        read_types.append(types[place])
        places.append(place)
    rowtime = frozenset() if stamp is None else frozenset({stamp})
    read = RowSchema(tuple(read_names), tuple(read_types), rowtime)
    fields = tuple(names[place] if place >= 0 else _ROWTIME for place in places)
    spec = StreamToSqlSpec(fields, tuple(places), read.types, stamp, bare)
    columnar = stream._transform("DataStreamToTable", spec)
    name = f"Unregistered_DataStream_Source_{stream._transformation.id}"
    node: LogicalNode = StreamScan(read, StreamTable(columnar, read, INSERT_ONLY, (), name))
    if not proctime:
        return node
    columns = [TableColumn(each, "physical", kind) for each, kind in zip(read.names, read.types, strict=True)]
    columns += [TableColumn(each, "computed", None, ast.Function("PROCTIME")) for each in proctime]
    return declared_columns(environment.plan_context(), node, tuple(columns), None)


def _plain_name(expression: Any) -> tuple[str, str]:
    """Return the field that an expression names, and whether it is to be `rowtime` or `proctime`."""
    tree = expression if isinstance(expression, (str, ast.Expression)) else getattr(expression, "node", None)
    if isinstance(tree, str):
        return tree, ""
    if isinstance(tree, ast.Function) and tree.name.upper() in ("AS", "ALIAS"):
        return _plain_name(tree.arguments[0])
    if isinstance(tree, ast.Function) and tree.name.upper() in ("ROWTIME", "PROCTIME") and tree.arguments:
        return _plain_name(tree.arguments[0])[0], tree.name.lower()
    if isinstance(tree, ast.Column):
        return tree.parts[-1], ""
    raise ValidationError(
        f"{expression!r} names no field of the stream",
        hint="Use col('name'), or a Schema with column_by_expression.",
    )


def _alias_of(expression: Any) -> str:
    return expression.names[0] if isinstance(expression, Built) and expression.names else ""


# --- tables become streams


@dataclass(frozen=True)
class SqlToStreamSpec(OperatorSpec):
    """Declares that columns of SQL become records with names.

    Attributes:
        names: Of the fields.
        stamp: Place of the column that is the records' timestamp; None without.
        keeps_kinds: Whether rows keep their kinds.
    """

    names: tuple[str, ...]
    stamp: int | None = None
    keeps_kinds: bool = False
    takes_columns = True

    def build(self) -> Operator:
        """Make the running half."""
        return _SqlToStream(self)


class _SqlToStream(Operator):
    def __init__(self, spec: SqlToStreamSpec) -> None:
        self._spec = spec

    def process(self, batch: Batch) -> None:
        """Convert a batch."""
        assert isinstance(batch, Columns), "streams of SQL are columns"
        spec = self._spec
        stamps = None
        if spec.stamp is not None:
            column = batch.data.column(spec.stamp)
            stamps = pc.fill_null(
                column.cast(pa.timestamp("ms", column.type.tz), safe=False).cast(pa.int64()), 0
            )
        arrays = [
            pc.local_timestamp(column) if pa.types.is_timestamp(column.type) and column.type.tz else column
            for column in batch.data.columns
        ]
        data = pa.record_batch(arrays, names=list(spec.names))
        self.output.emit(Columns(data, stamps, batch.kinds if spec.keeps_kinds else None))


def _streamed(environment: TableEnvironment, node: Any, mode: ChangelogMode, *, keeps_kinds: bool) -> Any:
    executor = environment._executor
    planned = executor.plan_query(node, mode)
    schema: RowSchema = planned.logical.schema
    stream = executor.jobs.stream_of(planned)
    stamp = min(schema.rowtime) if schema.rowtime else None
    names = _unique(schema.names)
    fields = [RowField(name, kind) for name, kind in zip(names, schema.types, strict=True)]
    type_info = row_type_info(RowType(fields), RowTypeInfo)
    spec = SqlToStreamSpec(tuple(names), stamp, keeps_kinds)
    return stream._transform("TableToDataStream", spec, type_info)


def _unique(names: Sequence[str]) -> list[str]:
    found: list[str] = []
    for name in names:
        made, number = name, 0
        while made in found:
            made, number = f"{name}{number}", number + 1
        found.append(made)
    return found


def stream_of_inserts(environment: TableEnvironment, table: Any) -> Any:
    """Return a table whose rows are only inserted as a stream of Rows."""
    return _streamed(environment, _node_of(table), INSERT_ONLY, keeps_kinds=False)


def stream_of_changes(environment: TableEnvironment, table: Any, schema: Schema | None, mode: Any) -> Any:
    """Return a table as a stream of Rows with kinds."""
    node = _node_of(table)
    if schema is not None and schema.columns:
        node = _cast_to(environment, node, schema)
    return _streamed(environment, node, ALL if mode is None else _mode_of(mode), keeps_kinds=True)


def _cast_to(environment: TableEnvironment, node: Any, schema: Schema) -> Any:
    from millstream.table.expressions.rex import InputRef, RowExpression
    from millstream.table.functions.coercion import build_cast
    from millstream.table.plan import nodes

    expressions: list[RowExpression] = []
    for name, kind in schema.columns:
        if name not in node.schema.names:
            raise ValidationError(
                f'the table has no column "{name}"',
                detail=f"It has: {', '.join(node.schema.names)}.",
                hint=did_you_mean(name, node.schema.names),
            )
        place = node.schema.names.index(name)
        given = InputRef(place, node.schema.types[place])
        expressions.append(given if given.type == kind else build_cast(given, kind))
    return nodes.project(node, expressions, [name for name, _ in schema.columns])


def append_stream(environment: TableEnvironment, table: Any, type_info: TypeInformation) -> Any:
    """Return a table whose rows are only inserted as a stream of records of a type."""
    stream = stream_of_inserts(environment, table)
    return stream.map(_as_record(type_info), output_type=type_info)


def retract_stream(environment: TableEnvironment, table: Any, type_info: TypeInformation) -> Any:
    """Return a table as a stream of (True, row) and (False, row)."""
    stream = stream_of_changes(environment, table, None, None)
    return stream.map(_Flagged(_as_record(type_info)), output_type=Types.TUPLE([Types.BOOLEAN(), type_info]))


def _as_record(type_info: TypeInformation) -> Any:
    if hasattr(type_info, "get_field_names"):
        return _AsRow(tuple(type_info.get_field_names()))
    return _AsTuple() if hasattr(type_info, "get_field_types") else _First()


class _AsRow:
    def __init__(self, names: tuple[str, ...]) -> None:
        self._names = names

    def __call__(self, row: Row) -> Row:
        return Row.of(self._names, list(row))


class _AsTuple:
    def __call__(self, row: Row) -> tuple[Any, ...]:
        return tuple(row)


class _First:
    def __call__(self, row: Row) -> Any:
        return row[0]


class _Flagged:
    def __init__(self, convert: Any) -> None:
        self._convert = convert

    def __call__(self, row: Row) -> tuple[bool, Any]:
        return row.get_row_kind().value in (0, 2), self._convert(row)


def _node_of(table: Any) -> Any:
    node = getattr(table, "node", None)
    if node is None:
        raise TypeMismatchError(f"a stream was to be made of a {type(table).__name__}, not a Table")
    return node
