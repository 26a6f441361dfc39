"""Plans queries: bind, rewrite, build, modes. ::

ast.Query ─ bind/ ─► logical plan ─ rewrite/ ─► logical plan ─ build/ ─► physical plan ─ modes.py ─► what runs
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

from millstream.table.errors import ValidationError
from millstream.table.expressions.rex import InputRef, Literal, RowExpression, RowSchema
from millstream.table.plan import nodes
from millstream.table.plan import physical as p
from millstream.table.plan.bind.queries import bind_query
from millstream.table.plan.build.builder import PhysicalBuilder
from millstream.table.plan.changes import ALL, ChangelogMode
from millstream.table.plan.context import PlanContext
from millstream.table.plan.keys import shortest, upsert_keys
from millstream.table.plan.logical import LogicalNode, Sink
from millstream.table.plan.modes import assign_sink, kinds_of, sink_key
from millstream.table.plan.rewrite.pipeline import rewrite
from millstream.table.plan.settings import PlanSettings
from millstream.table.plan.sinks import check_conflicts, fitted
from millstream.table.sql import ast

__all__ = ["Planned", "bind_query", "plan_query", "plan_sink", "to_logical"]


@dataclass(frozen=True)
class Planned:
    """A planned query with its stages.

    Attributes:
        logical: As it was bound.
        optimized: As it was rewritten.
        physical: What runs: a `SinkNode`; of queries its table is None.
        settings: The session's options.
    """

    logical: LogicalNode
    optimized: LogicalNode
    physical: p.SinkNode
    settings: PlanSettings

    @property
    def schema(self) -> RowSchema:
        """The columns of the result."""
        return self.logical.schema

    @property
    def mode(self) -> ChangelogMode:
        """Which kinds of change the result has."""
        return self.physical.given_mode


def to_logical(query: ast.Query | LogicalNode, context: PlanContext) -> LogicalNode:
    """Return the bound plan of a query; of one that is bound, itself.

    Raises:
        ValidationError: If something in it does not fit.
    """
    return query if isinstance(query, LogicalNode) else bind_query(query, context)


def plan_query(
    query: ast.Query | LogicalNode, context: PlanContext, accepted: ChangelogMode = ALL
) -> Planned:
    """Plan a query whose result is collected, printed, or turned into a stream.

    Args:
        query: Its tree, or the bound node of the Table API.
        context: Its surroundings.
        accepted: Which kinds of change the consumer takes.

    Raises:
        ValidationError: If the query does not fit, or gives changes that the consumer does not take.
    """
    bound = to_logical(query, context)
    optimized = rewrite(bound)
    source = PhysicalBuilder(context).build(optimized)
    sink = p.SinkNode(source.schema, source, None, accepted)
    return Planned(bound, optimized, assign_sink(sink), PlanSettings.of(context))


def plan_sink(
    query: ast.Query | LogicalNode,
    table: Any,
    context: PlanContext,
    *,
    columns: Sequence[str] = (),
    overwrite: bool = False,
    partition: Sequence[tuple[str, Any]] = (),
    conflict: str = "",
    at: ast.Position | None = None,
) -> Planned:
    """Plan INSERT INTO (or OVERWRITE) a table.

    Args:
        query: Its tree, or the bound node of the Table API.
        table: The `catalog.ResolvedTable` that is written.
        context: Its surroundings.
        columns: Names of the columns that the query gives; all by default.
        overwrite: Whether what is there is replaced.
        partition: Names and values of fixed partition columns.
        conflict: Of ON CONFLICT DO ...: ERROR, NOTHING or DEDUPLICATE; empty without.
        at: Place of the INSERT in the text.

    Raises:
        ValidationError: If the query does not fit the table, or gives changes that it does not take.
    """
    from millstream.table.connectors.registry import find_connector

    bound = to_logical(query, context)
    written = _written(bound, table, columns, dict(partition), at)
    optimized = rewrite(written)
    source = PhysicalBuilder(context).build(optimized)
    connector = find_connector(table)
    kinds = kinds_of(source)
    offered = replace(kinds, before=kinds.updates)
    accepted = connector.accepts(offered)
    takes_updates = connector.accepts(ALL).updates
    sink = p.SinkNode(
        source.schema,
        source,
        table,
        accepted,
        overwrite=overwrite,
        conflict=conflict.upper(),
        partition=tuple(partition),
    )
    sink = assign_sink(sink)
    settings = PlanSettings.of(context)
    sink = check_conflicts(sink, settings, context) if takes_updates else sink
    key = shortest(upsert_keys(sink.input))
    wanted = frozenset(sink_key(sink))
    if wanted and wanted in upsert_keys(sink.input):
        key = sink_key(sink)
    return Planned(
        Sink(written.schema, bound, table, overwrite, tuple(partition)),
        Sink(optimized.schema, optimized, table, overwrite, tuple(partition)),
        replace(sink, upsert_key=key),
        settings,
    )


def _written(
    bound: LogicalNode,
    table: Any,
    columns: Sequence[str],
    fixed: dict[str, Any],
    at: ast.Position | None,
) -> LogicalNode:
    """Return a projection to the columns that the table is written with."""
    schema = table.write_schema
    named = list(columns) or [name for name in schema.names if name not in fixed]
    unknown = [name for name in [*named, *fixed] if name not in schema.names]
    if unknown:
        raise ValidationError(
            f'column "{unknown[0]}" is not in table "{table.full_name}"',
            at=at,
            detail=f"It is written with: {', '.join(schema.names)}.",
        )
    if len(named) != len(bound.schema):
        raise ValidationError(
            f'table "{table.full_name}" is written with {len(named)} columns, but the query gives '
            f"{len(bound.schema)}",
            at=at,
            detail=f"Query: {_described(bound.schema)}. Table: {_described(schema)}.",
        )
    expressions: list[RowExpression] = []
    for name, data_type in zip(schema.names, schema.types, strict=True):
        if name in named:
            place = named.index(name)
            given: RowExpression = InputRef(place, bound.schema.types[place])
        elif name in fixed:
            given = (
                Literal(fixed[name].value, fixed[name].type) if hasattr(fixed[name], "type") else fixed[name]
            )
        elif not data_type.nullable:
            raise ValidationError(
                f'column "{name}" of table "{table.full_name}" is NOT NULL and is not written', at=at
            )
        else:
            given = Literal(None, data_type)
        expressions.append(fitted(given, data_type, name, table, at))
    return nodes.project(bound, expressions, schema.names)


def _described(schema: Any) -> str:
    return ", ".join(f"{name} {kind}" for name, kind in zip(schema.names, schema.types, strict=True))
