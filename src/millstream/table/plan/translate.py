"""From a physical plan to operators: each node becomes a transformation on a DataStream of `Columns`.

Columns are named f0, f1, ... on their way. Where an operator works by key, its input is dealt by the key columns;
without keys it is one subtask's. Equal parts of several plans become one operator.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any, ClassVar

from millstream.base.errors import NotSupportedError
from millstream.datastream.streams.data_stream import transform
from millstream.operators.patterns.growth import GrowingStateWarning
from millstream.operators.sink import SinkSpec
from millstream.table.connectors.watermark_options import TableWatermarkOptions, watermark_options
from millstream.table.errors import ValidationError
from millstream.table.expressions.compiling import constant_value
from millstream.table.expressions.rex import InputRef, RowSchema
from millstream.table.plan import physical as p
from millstream.table.plan.bind.hints import lookup_options
from millstream.table.plan.build.windows import bounds_of
from millstream.table.plan.digest import exact_digest, uid_of
from millstream.table.plan.event_time import push_watermarks
from millstream.table.plan.explain_names import operator_text
from millstream.table.plan.keys import shortest, unique_keys, upsert_keys
from millstream.table.plan.logical import OverFrame, WindowKind
from millstream.table.plan.modes import sink_key
from millstream.table.plan.planner import Planned
from millstream.table.plan.settings import PlanSettings
from millstream.table.plan.sinks import without_lengths
from millstream.table.runtime import specs
from millstream.types.datatypes import BinaryType, VarBinaryType, VarCharType

__all__ = ["Translator", "translate", "translate_all"]


def _table_below(node: p.PhysicalNode) -> Any:
    """Return the table of which a node has the rows alone; None if it is of others, or of a stream."""
    while len(node.inputs) == 1:
        (node,) = node.inputs
    return node.table if isinstance(node, p.TableScan) else None


def translate(planned: Planned, environment: Any) -> Any:
    """Return the DataStream of a planned query; of an INSERT its sink.

    Args:
        planned: What `plan_query` or `plan_insert` gave.
        environment: The `StreamExecutionEnvironment`.
    """
    return Translator(environment, planned.settings).end(planned.physical)


def translate_all(planned: Sequence[Planned], environment: Any) -> list[Any]:
    """Return what `translate` does of several plans, which share what they have in common.

    A table that several read is read once, with all columns that any of them reads.
    """
    if not planned:
        return []
    translator = Translator(environment, planned[0].settings, _read_columns(planned))
    return [translator.end(each.physical) for each in planned]


class Translator:
    """Makes operators of plans; parts that are equal are made once.

    Args:
        environment: The `StreamExecutionEnvironment`.
        settings: The session's.
        read: Places of the columns that are read of tables, by `exact_digest`; others are read as scans say.
    """

    def __init__(
        self, environment: Any, settings: PlanSettings, read: Mapping[str, tuple[int, ...]] | None = None
    ) -> None:
        self._environment = environment
        self._settings = settings
        self._read = read or {}
        self._scans: dict[tuple[str, tuple[int, ...]], Any] = {}
        self._made: dict[str, Any] = {}
        self._functions: dict[str, str] = {}

    def end(self, sink: p.SinkNode) -> Any:
        """Return the stream of a query, or the sink of an INSERT."""
        stream = self.stream(sink.input)
        if sink.table is None:
            return stream
        return self._sink(sink, stream)

    def stream(self, node: p.PhysicalNode) -> Any:
        """Return the DataStream of an operator."""
        key = exact_digest(node)
        if key not in self._made:
            self._made[key] = self._METHODS[type(node)](self, node)
        return self._made[key]

    # --- helpers

    def _one(
        self, node: p.PhysicalNode, spec: Any, keys: Sequence[int] | None = None, source: Any = None
    ) -> Any:
        """Add an operator with one input; `keys` None: as the rows come, (): all on one subtask."""
        stream = self.stream(node.inputs[0]) if source is None else source
        spec = self._zoned(spec)
        if keys is None:
            return self._named(stream._transform(_name(node), spec), node)
        if keys:
            dealt = stream.key_by(*_fields(keys))
            return self._named(dealt._transform(_name(node), spec), node)
        return self._named(stream.global_()._transform(_name(node), spec), node).force_non_parallel()

    def _two(self, node: Any, spec: Any, left: Sequence[int], right: Sequence[int]) -> Any:
        one, two = self.stream(node.left), self.stream(node.right)
        spec = self._zoned(spec)
        if left:
            dealt = [one.key_by(*_fields(left)), two.key_by(*_fields(right))]
            return self._named(dealt[0]._transform_with(_name(node), spec, dealt[1]), node)
        dealt = [one.global_(), two.global_()]
        return self._named(dealt[0]._transform_with(_name(node), spec, dealt[1]), node).force_non_parallel()

    def _shift(self, window: p.Window) -> str | None:
        """Return the zone whose clocks bounds of windows are shown by; None if the time attribute has no zone."""
        return self._settings.zone if window.local else None

    def _shift_of(self, node: p.PhysicalNode) -> str | None:
        bounds = bounds_of(node)
        return None if bounds is None else self._shift(bounds.window)

    def _zoned(self, spec: Any) -> Any:
        """Tell an operator that computes expressions the session's time zone."""
        return replace(spec, zone=self._settings.zone) if hasattr(spec, "zone") else spec

    def _named(self, stream: Any, node: p.PhysicalNode) -> Any:
        stream.set_description(operator_text(node))
        return stream.uid(self._free_uid(uid_of(node)))

    def _free_uid(self, wanted: str) -> str:
        taken = {each.uid for each in self._environment._transformations}
        found, count = wanted, 1
        while found in taken:
            found, count = f"{wanted}-{count}", count + 1
        return found

    def _of_connector(self, wanted: str, build: Callable[[], Any]) -> Any:
        """Have a connector add operators, and give those uids: what they keep goes by the table's name.

        Args:
            wanted: The uid of the source or sink; further operators have their names behind it.
            build: Adds them.
        """
        transformations = self._environment._transformations
        before = {each.id for each in transformations}
        made = build()
        for each in [each for each in transformations if each.id not in before and each.uid is None]:
            main = not each.inputs or isinstance(each.spec, SinkSpec)
            each.uid = self._free_uid(wanted if main else f"{wanted}/{each.name}")
        return made

    # --- leaves

    def _scan(self, node: p.TableScan) -> Any:
        from millstream.table.connectors.registry import find_connector

        watermark_options(node.table)  # what is wrong with them is told before anything runs
        table = exact_digest(node.table)
        read = self._read.get(table, node.columns)
        key = (table, read)
        if key not in self._scans:
            connector = find_connector(node.table)
            self._scans[key] = self._of_connector(
                f"Source-{node.table.full_name}", lambda: connector.scan(self._environment, read)
            )
        stream = self._scans[key]
        if read == node.columns:
            return stream
        schema = node.table.schema
        given = RowSchema(
            tuple(schema.names[place] for place in read), tuple(schema.types[place] for place in read)
        )
        chosen = [read.index(place) for place in node.columns]
        columns = tuple(InputRef(place, given.types[place]) for place in chosen)
        return self._named(
            stream._transform("Columns", self._zoned(specs.CalcSpec(given, columns, None))), node
        )

    def _data_stream(self, node: p.DataStreamScan) -> Any:
        return node.stream.scan(self._environment, node.columns)

    def _values(self, node: p.ValuesNode) -> Any:
        from millstream.table.connectors.conversion import ToSqlSpec
        from millstream.types.row import Row

        names = [f"f{place}" for place in range(len(node.schema))]
        rows = [Row(**dict(zip(names, map(constant_value, row), strict=True))) for row in node.rows]
        spec = ToSqlSpec(tuple(names), node.schema.types, "VALUES")
        return self._of_connector(
            uid_of(node), lambda: self._environment.from_collection(rows)._transform("Values", spec)
        )

    # --- rows

    def _watermarks(self, node: p.WatermarkAssigner) -> Any:
        schema, zone = node.input.schema, self._settings.zone
        rowtime = InputRef(node.column, schema.types[node.column])
        above = self.stream(node.input)._transformation
        table = _table_below(node)
        options = TableWatermarkOptions() if table is None else watermark_options(table)
        idle_ms = options.idle_ms or self._settings.idle_ms
        pushed = push_watermarks(above, rowtime, node.expression, idle_ms, zone, options.alignment)
        if options.alignment is not None and not pushed and table is not None:
            raise NotSupportedError(
                f'watermark alignment of table "{table.full_name}", whose watermarks are not made at its source',
                detail="They are made behind it, where nobody knows which split is ahead: of a connector that cannot, "
                "by a user's function or the time of day, or the table is read with other watermarks as well.",
                hint="Leave out the options 'scan.watermark.alignment.*'.",
            )
        return self._one(
            node, specs.RowtimeSpec(schema, node.column, node.expression, idle_ms, pushed=pushed)
        )

    def _calc(self, node: p.Calc) -> Any:
        return self._one(node, specs.CalcSpec(node.input.schema, node.expressions, node.condition))

    def _correlate(self, node: p.CorrelateNode) -> Any:
        spec = specs.CorrelateSpec(node.input.schema, node.call, node.schema, node.kind, node.condition)
        return self._one(node, spec)

    def _expand(self, node: p.ExpandNode) -> Any:
        return self._one(node, specs.ExpandSpec(node.input.schema, node.keys, node.sets))

    def _window_table(self, node: p.WindowTable) -> Any:
        window = node.window
        if window.kind is WindowKind.SESSION:
            raise NotSupportedError(
                "SESSION windows whose rows are not grouped by exactly the window's keys",
                detail="Rows are put into sessions where they are aggregated.",
                hint="Group by window_start, window_end and the columns of PARTITION BY.",
            )
        spec = specs.WindowAssignSpec(
            node.input.schema,
            window.kind,
            window.time,
            window.size_ms,
            window.slide_ms,
            window.offset_ms,
            not window.rowtime,
            shift_zone=self._shift(window),
        )
        return self._one(node, spec)

    # --- aggregations

    def _aggregate(self, node: p.GroupAggregate) -> Any:
        spec = specs.GroupAggregateSpec(
            node.input.schema,
            node.keys,
            node.calls,
            not node.input.given_mode.insert_only,
            node.given_mode.before,
            node.ttl_ms,
        )
        return self._one(node, spec, node.keys)

    def _table_aggregate(self, node: p.GroupTableAggregate) -> Any:
        spec = specs.TableAggregateSpec(
            node.input.schema, node.keys, node.call, not node.input.given_mode.insert_only, node.ttl_ms
        )
        return self._one(node, spec, node.keys)

    def _window_aggregate(self, node: p.WindowAggregate) -> Any:
        window = node.window
        spec = specs.WindowAggregateSpec(
            node.input.schema,
            node.keys,
            node.calls,
            window.kind,
            window.time,
            window.size_ms,
            window.slide_ms,
            window.offset_ms,
            not window.rowtime,
            node.properties,
            node.attached,
            not node.input.given_mode.insert_only,
            shift_zone=self._shift(window),
        )
        return self._one(node, spec, node.keys)

    def _over(self, node: p.OverAggregate) -> Any:
        spec = specs.OverSpec(
            node.input.schema,
            node.partition,
            node.order[0] if node.order else None,
            node.rowtime,
            OverFrame(node.frame.rows, node.frame.preceding, node.frame.following),
            node.calls,
            None if node.rowtime else self._settings.ttl_ms,
            node.order[1:],
            node.by_values,
            not node.input.given_mode.insert_only,
            node.given_mode.before,
        )
        return self._one(node, spec, node.partition)

    def _match(self, node: p.MatchNode) -> Any:
        for told in node.clause.growing():
            warnings.warn(told, GrowingStateWarning, stacklevel=2)
        spec = specs.MatchSpec(node.input.schema, node.clause, node.rowtime)
        return self._one(node, spec, node.clause.partition)

    # --- process table functions

    def _process(self, node: p.ProcessTableNode) -> Any:
        clause = node.clause
        if clause.keyed and self._functions.setdefault(clause.uid, exact_digest(node)) != exact_digest(node):
            raise ValidationError(
                f'two calls of process table functions have the uid "{clause.uid}"',
                detail=f'"{clause.function.name}" is called with other tables or arguments than the first. The uid is '
                "what state in checkpoints is known by; without one it is the function's name.",
                hint="Give each call a uid of its own: uid => 'name'.",
            )
        spec = specs.ProcessTableSpec(
            tuple(each.schema for each in node.inputs),
            tuple(each.given_mode for each in node.inputs),
            clause,
            node.schema,
            node.given_mode,
            node.ttl_ms,
        )
        streams = []
        for child, table in zip(node.inputs, clause.tables, strict=True):
            stream = self.stream(child)
            if table.argument.is_set:
                stream = stream.key_by(*_fields(table.partition)) if table.partition else stream.global_()
            streams.append(stream)
        made = self._named(transform(_name(node), self._zoned(spec), streams), node)
        alone = clause.keyed and not clause.tables[0].partition
        return made.force_non_parallel() if alone else made

    def _to_changelog(self, node: p.ToChangelogNode) -> Any:
        spec = specs.ToChangelogSpec(node.input.schema, node.partition, node.codes)
        return self._one(node, spec, node.partition or None)

    def _from_changelog(self, node: p.FromChangelogNode) -> Any:
        spec = specs.FromChangelogSpec(node.input.schema, node.partition, node.op, node.codes)
        return self._one(node, spec, node.partition or None)

    # --- ranks

    def _rank(self, node: p.Rank) -> Any:
        retracts = not node.input.given_mode.insert_only
        spec = specs.RankSpec(
            node.input.schema,
            node.partition,
            node.order,
            start=node.start,
            end=node.end,
            end_column=node.end_column,
            with_number=node.with_number,
            retracts=retracts,
            before=node.given_mode.before,
            unique_keys=shortest(upsert_keys(node.input)) or () if retracts else (),
            ttl_ms=self._settings.ttl_ms,
        )
        return self._one(node, spec, node.partition)

    def _deduplicate(self, node: p.Deduplicate) -> Any:
        spec = specs.DeduplicateSpec(
            node.input.schema,
            node.keys,
            node.time if node.rowtime else None,
            node.keep_last,
            node.given_mode.before,
            self._settings.ttl_ms,
        )
        return self._one(node, spec, node.keys)

    def _window_rank(self, node: p.WindowRank) -> Any:
        spec = specs.WindowRankSpec(
            node.input.schema,
            node.partition,
            node.order,
            node.window,
            node.start,
            node.end,
            node.with_number,
            not node.rowtime,
            shift_zone=self._shift_of(node.input),
        )
        return self._one(node, spec, node.partition)

    def _window_deduplicate(self, node: p.WindowDeduplicate) -> Any:
        spec = specs.WindowDeduplicateSpec(
            node.input.schema,
            node.keys,
            node.time,
            node.window,
            node.keep_last,
            shift_zone=self._shift_of(node.input),
        )
        return self._one(node, spec, node.keys)

    def _normalize(self, node: p.ChangelogNormalize) -> Any:
        spec = specs.NormalizeSpec(
            node.input.schema, node.key, node.given_mode.before, node.ttl_ms, condition=node.condition
        )
        return self._one(node, spec, node.key)

    def _drop_before(self, node: p.DropUpdateBefore) -> Any:
        return self._one(node, specs.DropBeforeSpec())

    # --- joins

    def _join(self, node: p.RegularJoin) -> Any:
        left, right = node.left, node.right
        spec = specs.JoinSpec(
            left.schema,
            right.schema,
            node.left_keys,
            node.right_keys,
            node.kind,
            node.condition,
            shortest(unique_keys(left)),
            shortest(unique_keys(right)),
            left_upserts=_upserts(left),
            right_upserts=_upserts(right),
            before=node.given_mode.before,
            null_aware=node.null_aware,
            null_safe=node.null_safe,
            left_retracts=not left.given_mode.insert_only,
            right_retracts=not right.given_mode.insert_only,
            ttl_left_ms=node.ttl_left_ms,
            ttl_right_ms=node.ttl_right_ms,
        )
        if node.null_aware:  # a NULL on the right side concerns every row of the left one
            return self._two(node, spec, (), ())
        return self._two(node, spec, node.left_keys, node.right_keys)

    def _interval_join(self, node: p.IntervalJoin) -> Any:
        spec = specs.IntervalJoinSpec(
            node.left.schema,
            node.right.schema,
            node.left_keys,
            node.right_keys,
            node.kind,
            node.left_time,
            node.right_time,
            node.lower_ms,
            node.upper_ms,
            node.condition,
            not node.rowtime,
        )
        return self._two(node, spec, node.left_keys, node.right_keys)

    def _window_join(self, node: p.WindowJoin) -> Any:
        spec = specs.WindowJoinSpec(
            node.left.schema,
            node.right.schema,
            node.left_keys,
            node.right_keys,
            node.kind,
            node.left_window,
            node.right_window,
            node.condition,
            not node.rowtime,
            shift_zone=self._shift_of(node.left),
        )
        return self._two(node, spec, node.left_keys, node.right_keys)

    def _temporal_join(self, node: p.TemporalJoin) -> Any:
        spec = specs.TemporalJoinSpec(
            node.left.schema,
            node.right.schema,
            node.left_keys,
            node.right_keys,
            node.kind,
            node.left_time,
            node.right_time,
            node.condition,
        )
        return self._two(node, spec, node.left_keys, node.right_keys)

    def _lookup_join(self, node: p.LookupJoin) -> Any:
        from millstream.table.connectors.registry import find_connector

        found = find_connector(node.table).lookup(node.table_keys, node.columns)
        spec = specs.LookupJoinSpec(
            node.input.schema,
            found.lookup,
            node.keys,
            node.right,
            node.kind,
            node.condition,
            cache=found.cache,
            attempts=found.attempts,
            capacity=100 if found.asynchronous else 1,
        )
        said = lookup_options(dict(node.hints))
        if not found.asynchronous:
            said.pop("capacity", None)
        if not node.input.given_mode.insert_only:
            said.pop("ordered", None)  # changes of a row keep their order
        spec = replace(spec, **said)
        return self._one(node, spec)

    def _union(self, node: p.Union) -> Any:
        first, *others = (self.stream(each) for each in node.relations)
        return first.union(*others)

    # --- sorts

    def _sort_limit(self, node: p.SortLimit) -> Any:
        spec = specs.SortLimitSpec(
            node.input.schema,
            node.keys,
            node.offset,
            node.fetch,
            not node.input.given_mode.insert_only,
            node.given_mode.before,
        )
        return self._one(node, spec, ())

    def _limit(self, node: p.Limit) -> Any:
        if node.input.given_mode.insert_only:
            return self._one(node, specs.LimitSpec(node.offset, node.fetch), ())
        fetch = 2**31 - 1 if node.fetch is None else node.fetch
        spec = specs.SortLimitSpec(node.input.schema, (), node.offset, fetch, True, node.given_mode.before)
        return self._one(node, spec, ())

    def _temporal_sort(self, node: p.TemporalSort) -> Any:
        spec = specs.TemporalSortSpec(node.input.schema, node.time, node.rest, not node.rowtime)
        return self._one(node, spec, ())

    def _sort(self, node: p.SortNode) -> Any:
        return self._one(node, specs.SortSpec(node.input.schema, node.keys, node.offset, node.fetch), ())

    # --- sinks

    def _sink(self, node: p.SinkNode, stream: Any) -> Any:
        from millstream.table.connectors.base import SinkRequest
        from millstream.table.connectors.registry import find_connector

        schema = node.table.write_schema
        stream = self._constrained(node, schema, stream)
        key = sink_key(node)
        if node.materialize:
            told = shortest(upsert_keys(node.input))
            if node.conflict in ("ERROR", "NOTHING"):
                spec: Any = specs.ConflictSpec(
                    schema, key, told, node.conflict == "ERROR", node.table.full_name
                )
            else:
                spec = specs.MaterializeSpec(schema, key, told, self._settings.ttl_ms)
            dealt = stream.key_by(*_fields(key))
            stream = self._named(dealt._transform("SinkMaterializer", spec), node)
        mode = node.given_mode
        if node.materialize:
            mode = replace(mode, before=False)
        request = SinkRequest(node.overwrite, mode, node.upsert_key or ())
        heeds = self._settings.lengths != "IGNORE"
        table = node.table if heeds else without_lengths(node.table, node.input.schema)
        connector = find_connector(table)
        return self._of_connector(f"Sink-{table.full_name}", lambda: connector.sink(stream, request))

    def _constrained(self, node: p.SinkNode, schema: RowSchema, stream: Any) -> Any:
        not_null = tuple(
            place
            for place, kind in enumerate(schema.types)
            if not kind.nullable and node.input.schema.types[place].nullable
        )
        lengths = tuple(place for place, kind in enumerate(schema.types) if _limited(kind))
        enforce = self._settings.lengths != "IGNORE"
        if not not_null and not (lengths and enforce):
            return stream
        spec = specs.SinkConstraintSpec(
            schema,
            not_null,
            self._settings.not_null == "DROP",
            lengths if enforce else (),
            self._settings.lengths == "ERROR",
        )
        return stream._transform("ConstraintEnforcer", spec)

    _METHODS: ClassVar[dict[type, Callable[[Any, Any], Any]]] = {
        p.Calc: _calc,
        p.ChangelogNormalize: _normalize,
        p.CorrelateNode: _correlate,
        p.DataStreamScan: _data_stream,
        p.Deduplicate: _deduplicate,
        p.DropUpdateBefore: _drop_before,
        p.ExpandNode: _expand,
        p.FromChangelogNode: _from_changelog,
        p.GroupAggregate: _aggregate,
        p.GroupTableAggregate: _table_aggregate,
        p.IntervalJoin: _interval_join,
        p.Limit: _limit,
        p.LookupJoin: _lookup_join,
        p.MatchNode: _match,
        p.OverAggregate: _over,
        p.ProcessTableNode: _process,
        p.Rank: _rank,
        p.RegularJoin: _join,
        p.SortLimit: _sort_limit,
        p.SortNode: _sort,
        p.TableScan: _scan,
        p.TemporalJoin: _temporal_join,
        p.TemporalSort: _temporal_sort,
        p.ToChangelogNode: _to_changelog,
        p.Union: _union,
        p.ValuesNode: _values,
        p.WatermarkAssigner: _watermarks,
        p.WindowAggregate: _window_aggregate,
        p.WindowDeduplicate: _window_deduplicate,
        p.WindowJoin: _window_join,
        p.WindowRank: _window_rank,
        p.WindowTable: _window_table,
    }


def _read_columns(planned: Sequence[Planned]) -> dict[str, tuple[int, ...]]:
    """Return for each table that plans read the places of all columns that they read."""
    found: dict[str, set[int]] = {}
    for each in planned:
        for scan in _scans(each.physical):
            found.setdefault(exact_digest(scan.table), set()).update(scan.columns)
    return {table: tuple(sorted(columns)) for table, columns in found.items()}


def _scans(node: p.PhysicalNode) -> Iterator[p.TableScan]:
    if isinstance(node, p.TableScan):
        yield node
    for each in node.inputs:
        yield from _scans(each)


def _fields(keys: Sequence[int]) -> list[str]:
    return [f"f{each}" for each in dict.fromkeys(keys)]


def _name(node: p.PhysicalNode) -> str:
    return operator_text(node).split("(", maxsplit=1)[0]


def _upserts(node: p.PhysicalNode) -> bool:
    mode = node.given_mode
    return mode.updates and not mode.before


def _limited(kind: Any) -> bool:
    if isinstance(kind, VarCharType):
        return kind.length != VarCharType.MAX_LENGTH
    return isinstance(kind, (BinaryType, VarBinaryType)) and kind.length != VarBinaryType.MAX_LENGTH
