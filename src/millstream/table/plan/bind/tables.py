"""Tables of catalogs as relations: a scan, computed columns, the watermark."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

from millstream.table.errors import ValidationError
from millstream.table.expressions.rex import Call, InputRef, RowExpression, RowSchema
from millstream.table.plan import nodes
from millstream.table.plan.bind.expressions import ExpressionBinder, Extension
from millstream.table.plan.bind.scope import Scope
from millstream.table.plan.context import PlanContext
from millstream.table.plan.logical import LogicalNode, Scan, Watermarks

__all__ = ["declared_columns", "scan_of", "table_options"]


def scan_of(
    context: PlanContext, table: Any, hints: tuple[tuple[str, tuple[Any, ...]], ...] = ()
) -> LogicalNode:
    """Return a table's rows with all its declared columns, in order; time attributes are marked.

    Args:
        context: The query's surroundings.
        table: The `catalog.ResolvedTable`.
        hints: `OPTIONS('k'='v')` of the query replaces options of the table.

    Raises:
        ValidationError: If an expression of the table does not fit.
    """
    options = table_options(hints)
    if options:
        table = replace(table, options={**table.options, **options})
    read: RowSchema = table.schema
    node: LogicalNode = Scan(read, table)
    if any(column.kind == "computed" for column in table.columns):
        node = _computed(context, node, table)
    elif tuple(each.name for each in table.columns) != read.names:
        order = [read.names.index(each.name) for each in table.columns]
        node = nodes.project(node, nodes.refs(read, order), [each.name for each in table.columns])
    return _watermarked(context, node, table)


def declared_columns(
    context: PlanContext,
    node: LogicalNode,
    columns: tuple[Any, ...],
    watermark: tuple[str, Any] | None,
) -> LogicalNode:
    """Return a stream's rows with all declared columns, in order; as `scan_of` does for tables.

    Args:
        context: The query's surroundings.
        node: Reads the stream; its schema has all columns that are not computed.
        columns: Of `catalog.TableColumn`.
        watermark: Column and expression; None without.
    """
    declared = _Declared(columns, watermark)
    if any(column.kind == "computed" for column in columns):
        node = _computed(context, node, declared)
    return _watermarked(context, node, declared)


@dataclass(frozen=True)
class _Declared:
    """What `_computed` and `_watermarked` read of a table."""

    columns: tuple[Any, ...]
    watermark: tuple[str, Any] | None


def _computed(context: PlanContext, node: LogicalNode, table: Any) -> LogicalNode:
    read = node.schema
    binder = ExpressionBinder(context, Scope.of(read), Extension("a computed column"))
    expressions: list[RowExpression] = []
    for column in table.columns:
        if column.kind == "computed":
            expressions.append(binder.bind(column.expression))
        else:
            place = read.names.index(column.name)
            expressions.append(InputRef(place, read.types[place]))
    return nodes.project(node, expressions, [each.name for each in table.columns])


def _watermarked(context: PlanContext, node: LogicalNode, table: Any) -> LogicalNode:
    if table.watermark is None:
        return node
    name, expression = table.watermark
    schema = node.schema
    if name not in schema.names:
        raise ValidationError(
            f'WATERMARK is for the column "{name}", which the table does not have',
            detail=f"It has: {', '.join(schema.names)}.",
        )
    place = schema.names.index(name)
    binder = ExpressionBinder(context, Scope.of(schema), Extension("WATERMARK"))
    bound = binder.bind(expression)
    timed = replace(schema, rowtime=frozenset({place}))
    return Watermarks(timed, node, place, bound)


def table_options(hints: tuple[tuple[str, tuple[Any, ...]], ...]) -> dict[str, str]:
    """Return the options of OPTIONS hints."""
    options: dict[str, str] = {}
    for name, pairs in hints:
        if name.upper() == "OPTIONS":
            options.update({str(key): str(value) for key, value in pairs})
        else:
            raise ValidationError(
                f"hint {name} stands behind a table",
                detail="A table has OPTIONS.",
                hint="Hints about joins and state stand behind SELECT.",
            )
    return options


def is_proctime(expression: RowExpression) -> bool:
    """Whether an expression is the processing time."""
    return isinstance(expression, Call) and expression.function == "PROCTIME"
