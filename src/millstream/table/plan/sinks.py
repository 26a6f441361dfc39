"""What a sink table needs: columns of its types, and a say when rows of other keys meet in its primary key."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import Any

from millstream.table.errors import ValidationError
from millstream.table.expressions.rex import Literal, RowExpression, RowSchema
from millstream.table.functions.coercion import build_cast
from millstream.table.plan import physical as p
from millstream.table.plan.bind.scope import type_with_nullability
from millstream.table.plan.context import PlanContext
from millstream.table.plan.keys import upsert_keys
from millstream.table.plan.modes import sink_key
from millstream.table.plan.settings import PlanSettings
from millstream.table.sql import ast
from millstream.types.datatypes import (
    ArrayType,
    BinaryType,
    BooleanType,
    CharType,
    DataType,
    DateType,
    LocalZonedTimestampType,
    MapType,
    NumericType,
    RowType,
    TimestampType,
    TimeType,
    VarBinaryType,
    VarCharType,
)

__all__ = ["check_conflicts", "fitted", "without_lengths"]

_FAMILIES: tuple[tuple[type, ...], ...] = (
    (CharType, VarCharType),
    (BinaryType, VarBinaryType),
    (BooleanType,),
    (NumericType,),
    (DateType, TimestampType, LocalZonedTimestampType),
    (TimeType,),
    (ArrayType,),
    (MapType,),
    (RowType,),
)


def fitted(
    expression: RowExpression, data_type: DataType, name: str, table: Any, at: ast.Position | None
) -> RowExpression:
    """Return an expression as a column of a table, cast where that needs no CAST.

    Raises:
        ValidationError: If the types do not fit.
    """
    given = expression.type
    wanted = type_with_nullability(data_type, nullable=given.nullable)
    if given == wanted:
        return expression
    if isinstance(expression, Literal) and expression.value is None:
        return Literal(None, type_with_nullability(data_type, nullable=True))
    same = next((each for each in _FAMILIES if isinstance(given, each)), ())
    if not isinstance(data_type, same or type(given)):
        raise ValidationError(
            f'column "{name}" of table "{table.full_name}" is {data_type}, but the query gives {given}',
            at=at,
            hint=f"Use CAST(... AS {str(data_type).removesuffix(' NOT NULL')}).",
        )
    if _differs_in_length(given, data_type):
        return expression
    return build_cast(expression, wanted)


def _differs_in_length(given: DataType, wanted: DataType) -> bool:
    """Whether both are text or both are bytes: lengths are heeded as `table.exec.sink.type-length-enforcer` says."""
    return any(isinstance(given, each) and isinstance(wanted, each) for each in (VarCharType, VarBinaryType))


def without_lengths(table: Any, given: RowSchema) -> Any:
    """Return a sink's table whose text and bytes have room for what a query gives, where lengths are not heeded."""
    wider: dict[str, DataType] = {}
    for name, wanted, kind in zip(
        table.write_schema.names, table.write_schema.types, given.types, strict=True
    ):
        for each in (VarCharType, VarBinaryType):
            if not (isinstance(wanted, each) and isinstance(kind, each)):
                continue
            fixed = isinstance(wanted, (CharType, BinaryType))
            if str(kind) != str(wanted) and (fixed or kind.length > wanted.length):
                wider[name] = each(nullable=wanted.nullable)
    if not wider:
        return table
    columns = tuple(
        replace(each, type=wider[each.name]) if each.name in wider else each for each in table.columns
    )
    schema = table.schema
    types = tuple(wider.get(name, kind) for name, kind in zip(schema.names, schema.types, strict=True))
    return replace(table, columns=columns, schema=replace(schema, types=types))


def check_conflicts(sink: p.SinkNode, settings: PlanSettings, context: PlanContext) -> p.SinkNode:
    """Return a sink that puts rows of its key together, where changes come by another key.

    Raises:
        ValidationError: If it would have to, and the query does not say how.
    """
    key = sink_key(sink)
    if sink.conflict and not key:
        raise ValidationError(
            f'ON CONFLICT was used, but table "{sink.table.full_name}" declares no PRIMARY KEY'
        )
    if not key or settings.materialize == "NONE":
        return sink
    if settings.materialize == "FORCE":
        return replace(sink, materialize=True)
    matches = frozenset(key) in upsert_keys(sink.input)
    if matches or context.batch:
        return sink
    if sink.conflict in ("ERROR", "NOTHING"):
        _check_watermarks(sink)
    if not sink.conflict and settings.asks_conflict:
        names = sink.table.write_schema.names
        found = [
            ", ".join(sink.schema.names[each] for each in sorted(one)) for one in upsert_keys(sink.input)
        ]
        raise ValidationError(
            f'the query\'s upsert key differs from the primary key of table "{sink.table.full_name}"',
            detail=f"Primary key: [{', '.join(names[each] for each in key)}]; upsert key: "
            f"[{'] or ['.join(found) or 'none'}]. Several rows of the query may have the same primary key.",
            hint="Add ON CONFLICT DO DEDUPLICATE: the last one is kept, which takes much state; DO NOTHING: the first "
            "one is kept; or DO ERROR: the job fails.",
        )
    return replace(sink, materialize=True)


def _check_watermarks(sink: p.SinkNode) -> None:
    """Check that rows can wait for a watermark."""
    wrong = [node for node, timed in _scans(sink.input) if not _has_watermark((node, timed))]
    if wrong:
        table = getattr(wrong[0], "table", None)
        name = table.full_name if table is not None else type(wrong[0]).__name__
        raise ValidationError(
            f"ON CONFLICT DO {sink.conflict} was used, but not all sources have watermarks",
            detail=f'"{name}" has none: rows wait for a watermark before they are told from each other.',
            hint="Declare WATERMARK in their tables, or use ON CONFLICT DO DEDUPLICATE.",
        )


def _scans(node: p.PhysicalNode) -> Iterator[tuple[p.PhysicalNode, bool]]:
    yield from _walk(node, timed=False)


def _walk(node: p.PhysicalNode, *, timed: bool) -> Iterator[tuple[p.PhysicalNode, bool]]:
    timed = timed or isinstance(node, p.WatermarkAssigner)
    if not node.inputs:
        yield node, timed
    for each in node.inputs:
        yield from _walk(each, timed=timed)


def _has_watermark(scan: tuple[p.PhysicalNode, bool]) -> bool:
    node, timed = scan
    if isinstance(node, p.DataStreamScan) and node.stream.schema.rowtime:
        return True  # the column of the time need not be read
    return timed or bool(node.schema.rowtime) or isinstance(node, p.ValuesNode)
