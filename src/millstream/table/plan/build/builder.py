"""From a logical plan to a physical one."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any, ClassVar

from millstream.table.errors import ValidationError
from millstream.table.expressions.rex import InputRef, inputs_of
from millstream.table.plan import logical
from millstream.table.plan import physical as p
from millstream.table.plan.build.calcs import calc, filtered, kept_columns
from millstream.table.plan.build.joins import join_of, temporal_join
from millstream.table.plan.build.lookups import can_look_up, lookup_join
from millstream.table.plan.build.ranks import is_rank, rank_of, unbounded_rank
from millstream.table.plan.build.scans import scan_of, stream_scan_of
from millstream.table.plan.build.windows import (
    attached_aggregate,
    bounds_of,
    grouped_aggregate,
    pulled_up,
    window_aggregate,
    window_of,
)
from millstream.table.plan.context import PlanContext
from millstream.table.plan.function_modes import from_mode, function_mode
from millstream.table.plan.modes import kinds_of
from millstream.table.plan.processing import TableInput
from millstream.table.plan.settings import PlanSettings

__all__ = ["PhysicalBuilder"]


@dataclass
class PhysicalBuilder:
    """Builds physical plans.

    Attributes:
        context: The query's surroundings.
    """

    context: PlanContext

    def __post_init__(self) -> None:
        self._settings = PlanSettings.of(self.context)

    def build(self, node: logical.LogicalNode, needed: frozenset[int] | None = None) -> p.PhysicalNode:
        """Return the operators of a relation.

        Args:
            node: The relation.
            needed: Which of its columns are read; all by default.

        Raises:
            ValidationError: If there is no operator for it.
        """
        method = self._METHODS.get(type(node))
        if method is None:
            raise ValidationError(f"{type(node).__name__} has no operator")
        made = method(self, node, frozenset(range(len(node.schema))) if needed is None else needed)
        return made.finalized() if self.context.batch else made

    # --- leaves

    def _scan(self, node: logical.Scan, _: frozenset[int]) -> p.PhysicalNode:
        return scan_of(node, self._settings)

    def _stream(self, node: logical.StreamScan, _: frozenset[int]) -> p.PhysicalNode:
        return stream_scan_of(node)

    def _values(self, node: logical.Values, _: frozenset[int]) -> p.PhysicalNode:
        return p.ValuesNode(node.schema, node.rows)

    def _watermarks(self, node: logical.Watermarks, _: frozenset[int]) -> p.PhysicalNode:
        source = self.build(node.input)
        if isinstance(source, p.ChangelogNormalize):  # rows are late or not before they are normalized
            below = source.input
            timed = p.WatermarkAssigner(node.schema, below, node.column, node.expression)
            return replace(source, schema=node.schema, input=timed)
        return p.WatermarkAssigner(node.schema, source, node.column, node.expression)

    # --- rows

    def _project(self, node: logical.Project, _: frozenset[int]) -> p.PhysicalNode:
        used = frozenset().union(*map(inputs_of, node.expressions))
        source = self.build(node.input, used)
        return calc(source, node.expressions, None, node.schema.names)

    def _filter(self, node: logical.Filter, needed: frozenset[int]) -> p.PhysicalNode:
        if is_rank(node.input):
            assert isinstance(node.input, logical.Over)
            ranked = rank_of(node, self.build(node.input.input), needed)
            if ranked is not None:
                return ranked
        return filtered(self.build(node.input, needed | inputs_of(node.condition)), node.condition)

    def _correlate(self, node: logical.Correlate, _: frozenset[int]) -> p.PhysicalNode:
        source = self.build(node.input)
        schema = replace(node.schema, rowtime=source.schema.rowtime, proctime=source.schema.proctime)
        return p.CorrelateNode(schema, source, node.call, node.kind, node.condition)

    def _expand(self, node: logical.Expand, _: frozenset[int]) -> p.PhysicalNode:
        return p.ExpandNode(node.schema, self.build(node.input), node.keys, node.sets)

    def _window(self, node: logical.WindowFunction, _: frozenset[int]) -> p.PhysicalNode:
        source = self.build(node.input)
        self._check_time(node, source)
        return p.WindowTable(node.schema, source, window_of(node))

    def _check_time(self, node: logical.WindowFunction, source: p.PhysicalNode) -> None:
        schema = source.schema
        if node.time in schema.rowtime | schema.proctime:
            return
        raise ValidationError(
            f'the window {node.kind.value} is by "{schema.names[node.time]}", which is no time attribute any more',
            detail="Behind an operator that updates rows or joins without a time bound, a column does not follow the "
            "watermark.",
            hint="Put the window before it.",
        )

    # --- aggregations

    def _aggregate(self, node: logical.Aggregate, _: frozenset[int]) -> p.PhysicalNode:
        if node.window is not None:
            source = self.build(node.input)
            self._check_time(replace(node.window, input=node.input), source)
            return grouped_aggregate(node, source)
        found = pulled_up(node.input)
        if found is not None:
            built = self._by_window(node, *found)
            if built is not None:
                return built
        source = self.build(node.input)
        bounds = bounds_of(source)
        attached = bounds is not None and bounds.pair is not None and set(bounds.pair) <= set(node.keys)
        if attached and bounds is not None and bounds.window.rowtime and kinds_of(source).insert_only:
            return attached_aggregate(node, source, bounds)
        schema = replace(node.schema, rowtime=frozenset(), proctime=frozenset())
        return p.GroupAggregate(schema, source, node.keys, node.calls, self._ttl(node.ttl_ms))

    def _ttl(self, said_ms: int | None) -> int | None:
        """Return how long state is kept by a hint (0 for ever), or as the session says; None for ever."""
        return self._settings.ttl_ms if said_ms is None else said_ms or None

    def _table_aggregate(self, node: logical.TableAggregate, _: frozenset[int]) -> p.PhysicalNode:
        source = self.build(node.input)
        return p.GroupTableAggregate(node.schema, source, node.keys, node.call, self._settings.ttl_ms)

    def _by_window(
        self,
        node: logical.Aggregate,
        below: logical.LogicalNode,
        window: logical.WindowFunction,
        marks: dict[int, int],
    ) -> p.PhysicalNode | None:
        """Return an aggregation that makes its windows itself; None if the keys do not have both bounds."""
        kinds = {marks[key] for key in node.keys if key in marks}
        read = {place for call in node.calls for place in (*call.arguments, *(k.index for k in call.order))}
        read |= {call.filter for call in node.calls if call.filter is not None}
        if not {0, 1} <= kinds or read & set(marks):
            return None
        if window.kind is logical.WindowKind.SESSION and not self._sessions_fit(node, window, marks, below):
            return None
        source = self.build(below)
        self._check_time(replace(window, input=below), source)
        return window_aggregate(node, source, window_of(window), marks)

    def _sessions_fit(
        self,
        node: logical.Aggregate,
        window: logical.WindowFunction,
        marks: dict[int, int],
        below: logical.LogicalNode,
    ) -> bool:
        """Whether sessions are by the keys that rows are grouped by."""
        if not isinstance(below, logical.Project):
            return set(window.partition) == {key for key in node.keys if key not in marks}
        grouped = {below.expressions[key] for key in node.keys if key not in marks}
        return {below.expressions[each] for each in window.partition} == grouped

    def _over(self, node: logical.Over, _: frozenset[int]) -> p.PhysicalNode:
        source = self.build(node.input)
        if is_rank(node) and not self._by_time(node.groups[0], source):
            return unbounded_rank(node, source)
        width = len(source.schema)
        result = source
        results = 0
        for group in node.groups:
            result = self._over_group(node, group, result, width + results)
            results += len(group.calls)
        return result

    def _by_time(self, group: logical.OverGroup, source: p.PhysicalNode) -> bool:
        times = source.schema.rowtime | source.schema.proctime
        return bool(group.order) and group.order[0].index in times and not group.order[0].descending

    def _over_group(
        self, node: logical.Over, group: logical.OverGroup, source: p.PhysicalNode, start: int
    ) -> p.PhysicalNode:
        if self.context.batch:
            by_values = not kinds_of(source).insert_only
        else:
            by_values = self._is_by_values(group, source)
        stop = start + len(group.calls)
        schema = replace(
            source.schema,
            names=(*source.schema.names, *node.schema.names[start:stop]),
            types=(*source.schema.types, *node.schema.types[start:stop]),
        )
        rowtime = bool(group.order) and group.order[0].index in source.schema.rowtime
        if by_values:
            schema = replace(schema, rowtime=frozenset(), proctime=frozenset())
        return p.OverAggregate(
            schema, source, group.partition, group.order, group.frame, group.calls, rowtime, by_values
        )

    def _is_by_values(self, group: logical.OverGroup, source: p.PhysicalNode) -> bool:
        """Return whether a stream is ordered by something else than time, where it may be."""
        names = ", ".join(call.function for call in group.calls)
        if not group.order:
            raise ValidationError(
                f"{names} has OVER without ORDER BY",
                detail="In a stream, OVER is by a time attribute.",
                hint="Order by the time attribute, or use GROUP BY and a join.",
            )
        if not self._by_time(group, source):
            key = group.order[0]
            if key.index in source.schema.rowtime | source.schema.proctime:
                raise ValidationError(
                    f'{names} has OVER ordered by "{source.schema.names[key.index]}", descending',
                    detail="In a stream, OVER by a time attribute is ascending.",
                    hint="Leave out DESC, or run it in batch mode.",
                )
            return True
        if group.frame.following != 0:
            raise ValidationError(
                f"{names} has OVER that looks at following rows",
                detail="In a stream, OVER by a time attribute ends with the current row.",
            )
        return False

    # --- patterns

    def _match(self, node: logical.Match, _: frozenset[int]) -> p.PhysicalNode:
        source = self.build(node.input)
        place = node.clause.order[0].index
        if place not in source.schema.rowtime | source.schema.proctime and not self.context.batch:
            raise ValidationError(
                f'MATCH_RECOGNIZE is ordered by "{source.schema.names[place]}", which is no time attribute any more',
                detail="Behind an operator that updates rows or joins without a time bound, a column does not follow "
                "the watermark.",
                hint="Search for the pattern before it.",
            )
        return p.MatchNode(node.schema, source, node.clause, place not in source.schema.proctime)

    # --- process table functions

    def _process(self, node: logical.ProcessTable, _: frozenset[int]) -> p.PhysicalNode:
        if self.context.batch:
            raise ValidationError(
                f'process table function "{node.clause.function.name}" was called in batch mode',
                detail="Process table functions run in streaming mode, as Flink's do.",
                hint="Use EnvironmentSettings.in_streaming_mode(); bounded tables end there too.",
            )
        relations = tuple(map(self.build, node.relations))
        for table, source in zip(node.clause.tables, relations, strict=True):
            self._check_time_of(node, table, source)
        made = p.ProcessTableNode(node.schema, relations, node.clause, self._settings.ttl_ms)
        if not function_mode(made, before=True).updates or function_mode(made, before=True).before:
            return made
        return p.ChangelogNormalize(node.schema, made, node.clause.tables[0].key_places)

    def _check_time_of(self, node: logical.ProcessTable, table: TableInput, source: p.PhysicalNode) -> None:
        places = [] if table.time is None else [table.time]
        places += [key.index for key in table.order[:1]]
        for place in places:
            if place not in source.schema.rowtime:
                raise ValidationError(
                    f'function "{node.clause.function.name}" is called with the time '
                    f'"{source.schema.names[place]}", which is no time attribute any more',
                    detail="Behind an operator that updates rows or joins without a time bound, a column does not "
                    "follow the watermark.",
                )

    def _to_changelog(self, node: logical.ToChangelog, _: frozenset[int]) -> p.PhysicalNode:
        self._check_streaming("TO_CHANGELOG")
        return p.ToChangelogNode(node.schema, self.build(node.input), node.partition, node.codes, node.full)

    def _from_changelog(self, node: logical.FromChangelog, _: frozenset[int]) -> p.PhysicalNode:
        self._check_streaming("FROM_CHANGELOG")
        source = self.build(node.input)
        if node.order:
            source = p.TemporalSort(source.schema, source, node.order[0].index, node.order[1:], rowtime=True)
        made = p.FromChangelogNode(node.schema, source, node.partition, node.op, node.codes)
        if kinds_of(made).updates and not from_mode(made).before:
            return p.ChangelogNormalize(node.schema, made, tuple(range(len(node.partition))))
        return made

    def _check_streaming(self, name: str) -> None:
        if self.context.batch:
            raise ValidationError(
                f"{name} was called in batch mode",
                detail="It runs in streaming mode, as Flink's does: batch mode gives final results, no changes.",
            )

    # --- joins

    def _join(self, node: logical.Join, _: frozenset[int]) -> p.PhysicalNode:
        left = self.build(node.left)
        if isinstance(node.right, logical.Snapshot):
            return self._temporal(node, node.right, left)
        right = self.build(node.right)
        left_ms, right_ms = node.ttls
        return join_of(node, left, right, (self._ttl(left_ms), self._ttl(right_ms)))

    def _temporal(
        self, node: logical.Join, snapshot: logical.Snapshot, left: p.PhysicalNode
    ) -> p.PhysicalNode:
        period = snapshot.period
        proctime = getattr(period, "function", "") == "PROCTIME" or (
            isinstance(period, InputRef) and period.index in left.schema.proctime
        )
        if proctime and can_look_up(snapshot.input):
            return lookup_join(node, left)
        if proctime:
            raise ValidationError(
                "a join by processing time FOR SYSTEM_TIME AS OF has a right side that cannot be looked up",
                detail="Flink does not support it either: versions of a stream are told by event time.",
                hint="Join by event time, or with a table whose connector finds rows by key, such as jdbc.",
            )
        if node.hints:
            raise ValidationError(
                "hint LOOKUP has no effect on a join by event time",
                detail="Versions of the right side come as a stream; nothing is looked up.",
                hint="Leave the hint out, or join FOR SYSTEM_TIME AS OF a processing time.",
            )
        return temporal_join(node, left, self.build(snapshot.input))

    def _set_operation(self, node: logical.SetOperation, _: frozenset[int]) -> p.PhysicalNode:
        relations = tuple(self.build(each) for each in node.relations)
        relations = tuple(
            kept_columns(each, range(len(each.schema)), node.schema.names) for each in relations
        )
        rowtime = frozenset.intersection(*(each.schema.rowtime for each in relations))
        return p.Union(replace(node.schema, rowtime=rowtime), relations)

    # --- sorts

    def _sort(self, node: logical.Sort, needed: frozenset[int]) -> p.PhysicalNode:
        source = self.build(node.input)
        schema = source.schema
        if self.context.batch and (node.keys or node.fetch is None):
            return p.SortNode(schema, source, node.keys, node.offset, node.fetch)
        if not node.keys:
            return p.Limit(schema, source, node.offset, node.fetch)
        if node.fetch is not None:
            return p.SortLimit(schema, source, node.keys, node.offset, node.fetch)
        first = node.keys[0]
        times = schema.rowtime | schema.proctime
        if first.index in times and not first.descending and not node.offset:
            return p.TemporalSort(schema, source, first.index, node.keys[1:], first.index in schema.rowtime)
        raise ValidationError(
            f'a stream was sorted by "{schema.names[first.index]}" without LIMIT',
            detail="A stream has no end, so it can be sorted by its time attribute, ascending, first, or limited.",
            hint="Add LIMIT, or ORDER BY the column with the WATERMARK, or run in batch mode.",
        )

    _METHODS: ClassVar[dict[type, Callable[[Any, Any, frozenset[int]], p.PhysicalNode]]] = {
        logical.Aggregate: _aggregate,
        logical.Correlate: _correlate,
        logical.Expand: _expand,
        logical.Filter: _filter,
        logical.FromChangelog: _from_changelog,
        logical.Join: _join,
        logical.Match: _match,
        logical.Over: _over,
        logical.ProcessTable: _process,
        logical.Project: _project,
        logical.Scan: _scan,
        logical.SetOperation: _set_operation,
        logical.Sort: _sort,
        logical.StreamScan: _stream,
        logical.TableAggregate: _table_aggregate,
        logical.ToChangelog: _to_changelog,
        logical.Values: _values,
        logical.Watermarks: _watermarks,
        logical.WindowFunction: _window,
    }
