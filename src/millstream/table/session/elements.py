"""Values of a program as tables: Python objects, pandas DataFrames, Arrow tables."""

from __future__ import annotations

import datetime
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import pyarrow as pa

from millstream.base.errors import TypeMismatchError
from millstream.base.time import Instant
from millstream.common.watermark_strategy import WatermarkStrategy
from millstream.connectors.columns.frames import pandas_table as arrow_of_pandas
from millstream.connectors.columns.table import TableSource
from millstream.table.connectors.conversion import ToSqlSpec, cast_column
from millstream.table.expressions.rex import RowSchema
from millstream.table.functions.types import arrow_type, data_type_of
from millstream.table.plan.logical import StreamScan
from millstream.table.session.bridge import StreamTable
from millstream.types import datatypes as sql
from millstream.types.row import Row

__all__ = ["arrow_table", "column_array", "elements_table", "pandas_table"]

_EPOCH = datetime.datetime(1970, 1, 1, tzinfo=datetime.UTC)


def elements_table(
    environment: Any, elements: Iterable[Any], schema: Any, *, verify_schema: bool
) -> StreamScan:
    """Return Python values as a relation.

    Raises:
        TypeMismatchError: If a value does not fit its type, or types are not told by the values.
    """
    rows = [_as_tuple(each) for each in elements]
    row_type = _row_type(rows, schema)
    types = row_type.field_types()
    columns = []
    for place, (name, kind) in enumerate(zip(row_type.field_names(), types, strict=True)):
        values = [row[place] if place < len(row) else None for row in rows]
        if verify_schema:
            for value in values:
                _check(name, kind, value)
        columns.append(column_array(name, kind, values))
    table = pa.Table.from_arrays(columns, names=[f"f{place}" for place in range(len(types))])
    return _scan(environment, table, RowSchema(tuple(row_type.field_names()), tuple(types)), "elements")


def _as_tuple(element: Any) -> tuple[Any, ...]:
    if isinstance(element, Row):
        return tuple(element)
    if isinstance(element, (tuple, list)):
        return tuple(element)
    if isinstance(element, Mapping):
        return tuple(element.values())
    return (element,)


def _row_type(rows: Sequence[tuple[Any, ...]], schema: Any) -> sql.RowType:
    if isinstance(schema, sql.RowType):
        return schema
    if isinstance(schema, sql.DataType):
        return sql.RowType([sql.RowField("f0", schema)])
    if not rows:
        raise TypeMismatchError(
            "no rows were given, and no types", hint="Give from_elements a schema: DataTypes.ROW([...])."
        )
    width = max(map(len, rows))
    names = list(schema) if schema is not None else [f"_{place + 1}" for place in range(width)]
    if len(names) != width:
        raise TypeMismatchError(f"{len(names)} names were given for rows of {width} values")
    fields = []
    for place, name in enumerate(names):
        values = [row[place] for row in rows if place < len(row)]
        fields.append(sql.RowField(name, _inferred(name, values)))
    return sql.RowType(fields)


def _inferred(name: str, values: Sequence[Any]) -> sql.DataType:
    """Return the type of a column of Python values as PyFlink infers it: int BIGINT, float DOUBLE, str STRING."""
    try:
        plain = [list(value) if isinstance(value, (tuple, Row)) else value for value in values]
        found = pa.array(plain)
    except (pa.ArrowException, TypeError) as error:
        raise TypeMismatchError(
            f'column "{name}" has values that are of no one type: {error}', hint="Give the schema."
        ) from error
    if pa.types.is_null(found.type):
        raise TypeMismatchError(f'column "{name}" has no value to tell its type by', hint="Give the schema.")
    if pa.types.is_decimal(found.type):
        return sql.DecimalType(38, 18)
    return data_type_of(found.type)


def _check(name: str, kind: sql.DataType, value: Any) -> None:
    try:
        kind.check(value)
    except TypeMismatchError as error:
        raise TypeMismatchError(
            f'field "{name}": {error.message}', hint="Give verify_schema=False to have it cast."
        ) from error


def column_array(name: str, kind: sql.DataType, values: Sequence[Any]) -> Any:
    """Return Python values as a column of a SQL type.

    Raises:
        TypeMismatchError: If a value does not fit.
    """
    target = arrow_type(kind)
    plain = [_plain(value, kind) for value in values]
    try:
        return pa.array(plain, target)
    except (pa.ArrowException, TypeError, ValueError, OverflowError):
        try:
            return cast_column(pa.array(plain), target)
        except (pa.ArrowException, TypeError, ValueError, OverflowError) as error:
            raise TypeMismatchError(
                f'column "{name}" has a value that does not fit {kind}: {error}'
            ) from error


def _plain(value: Any, kind: sql.DataType) -> Any:
    """Return a value as pyarrow takes it: rows as dicts by field name, maps as pairs."""
    if value is None:
        return None
    if isinstance(kind, sql.RowType):
        parts = value.values() if isinstance(value, Mapping) else value
        fields = zip(kind.fields, parts, strict=False)
        return {field.name: _plain(part, field.data_type) for field, part in fields}
    if isinstance(kind, sql.ArrayType):
        return [_plain(part, kind.element_type) for part in value]
    if isinstance(kind, sql.MapType):
        return [
            (_plain(key, kind.key_type), _plain(part, kind.value_type)) for key, part in dict(value).items()
        ]
    if isinstance(kind, sql.DecimalType):
        return kind.rounded(value)
    if isinstance(value, bytearray):
        return bytes(value)
    if isinstance(value, Instant):
        return datetime.timedelta(milliseconds=value.to_epoch_milli()) + _EPOCH
    return value


def arrow_table(environment: Any, table: Any) -> StreamScan:
    """Return an Arrow table as a relation."""
    if isinstance(table, pa.RecordBatch):
        table = pa.Table.from_batches([table])
    types = tuple(data_type_of(field.type, field.nullable) for field in table.schema)
    return _scan(environment, table, RowSchema(tuple(table.schema.names), types), "arrow")


def pandas_table(environment: Any, frame: Any, schema: Any) -> StreamScan:
    """Return a pandas DataFrame as a relation.

    Raises:
        TypeMismatchError: If a column does not fit its type, or there are not as many names or types as columns.
    """
    table = arrow_of_pandas(frame)
    names = tuple(map(str, table.schema.names))
    types: tuple[sql.DataType, ...]
    if isinstance(schema, sql.RowType):
        names, types = tuple(schema.field_names()), tuple(schema.field_types())
    elif schema and all(isinstance(each, sql.DataType) for each in schema):
        types = tuple(schema)
    else:
        types = tuple(data_type_of(field.type) for field in table.schema)
        names = tuple(schema) if schema else names
    if not len(names) == len(types) == table.num_columns:
        raise TypeMismatchError(
            f"a DataFrame of {table.num_columns} columns was given a schema of {len(names)}"
        )
    return _scan(environment, table, RowSchema(names, types), "pandas")


def _scan(environment: Any, table: Any, schema: RowSchema, name: str) -> StreamScan:
    kinds = [arrow_type(kind) for kind in schema.types]
    places = [f"f{place}" for place in range(len(kinds))]
    try:
        columns = [
            cast_column(column.combine_chunks(), kind)
            for column, kind in zip(table.columns, kinds, strict=True)
        ]
    except pa.ArrowException as error:
        raise TypeMismatchError(f"a value does not fit its column: {error}") from error
    whole = pa.Table.from_arrays(columns, names=places)
    source = TableSource(whole)
    stream = environment.from_source(source, WatermarkStrategy.no_watermarks(), f"Source: {name}")
    spec = ToSqlSpec(tuple(places), schema.types, f"the {name}", by_place=True)
    columnar = stream._transform(f"{name}[columns]", spec)
    return StreamScan(schema, StreamTable(columnar, schema, name=name, bounded=True))
