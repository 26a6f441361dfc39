"""Which columns of a relation are bounds of windows, and aggregations by them."""

from __future__ import annotations

from dataclasses import dataclass, replace

from millstream.table.expressions.rex import AggregateCall, InputRef, RowSchema, inputs_of
from millstream.table.plan import nodes
from millstream.table.plan import physical as p
from millstream.table.plan.build.calcs import kept_columns
from millstream.table.plan.logical import (
    Aggregate,
    Filter,
    LogicalNode,
    Project,
    WindowFunction,
    WindowKind,
)
from millstream.types.datatypes import LocalZonedTimestampType

__all__ = ["Bounds", "bounds_of", "pulled_up", "window_aggregate", "window_of"]


@dataclass(frozen=True)
class Bounds:
    """Columns of a relation that are bounds of its rows' windows; None where there is no such column.

    Attributes:
        start: window_start.
        end: window_end.
        time: window_time.
        window: The windows.
    """

    start: int | None
    end: int | None
    time: int | None
    window: p.Window

    def moved(self, where: dict[int, int]) -> Bounds | None:
        """Return the bounds where columns have moved; None if none is left."""
        places = [None if each is None else where.get(each) for each in (self.start, self.end, self.time)]
        if all(each is None for each in places):
            return None
        return Bounds(places[0], places[1], places[2], self.window)

    @property
    def pair(self) -> tuple[int, int] | None:
        """The places of start and end, if both are there."""
        return None if self.start is None or self.end is None else (self.start, self.end)


def bounds_of(node: p.PhysicalNode) -> Bounds | None:
    """Return the bounds of windows among a relation's columns; None if it has none."""
    if isinstance(node, p.WindowTable):
        width = len(node.schema) - 3
        return Bounds(width, width + 1, width + 2, node.window)
    if isinstance(node, p.Calc):
        below = bounds_of(node.input)
        where = {
            each.index: place for place, each in enumerate(node.expressions) if isinstance(each, InputRef)
        }
        return None if below is None else below.moved(where)
    if isinstance(node, p.WindowAggregate):
        return _of_aggregate(node)
    if isinstance(node, (p.WindowRank, p.WindowDeduplicate)):
        return bounds_of(node.input)
    if isinstance(node, p.WindowJoin):
        return bounds_of(node.left)
    if isinstance(node, (p.CorrelateNode, p.LookupJoin, p.WatermarkAssigner, p.OverAggregate)):
        return bounds_of(node.inputs[0])
    return None


def _of_aggregate(node: p.WindowAggregate) -> Bounds | None:
    if node.attached is not None:
        below = bounds_of(node.input)
        return None if below is None else below.moved({key: place for place, key in enumerate(node.keys)})
    start = len(node.keys) + len(node.calls)
    where = {name: start + place for place, name in enumerate(node.properties)}
    return Bounds(where.get("start"), where.get("end"), where.get("time"), node.window)


def window_of(node: WindowFunction) -> p.Window:
    """Return the windows of a table function."""
    return p.Window(
        node.kind,
        node.time,
        node.size_ms,
        node.slide_ms,
        node.offset_ms,
        node.time in node.input.schema.rowtime,
        node.partition,
        isinstance(node.input.schema.types[node.time], LocalZonedTimestampType),
    )


def pulled_up(node: LogicalNode) -> tuple[LogicalNode, WindowFunction, dict[int, int]] | None:
    """Return a relation without the window function that is below its projections and filters.

    Returns:
        The relation below an aggregation, with the time attribute behind its columns; the window function over it; and
        which of the old columns are 0 window_start, 1 window_end, 2 window_time. None if windows are used in between.
    """
    if isinstance(node, WindowFunction):
        width = len(node.input.schema)
        return node.input, node, {width + index: index for index in range(3)}
    if isinstance(node, Filter):
        found = pulled_up(node.input)
        if found is None:
            return None
        source, window, bounds = found
        if inputs_of(node.condition) & set(bounds):
            return None
        return Filter(source.schema, source, node.condition), replace(window, input=source), bounds
    if isinstance(node, Project):
        return _through_project(node)
    return None


def _through_project(
    node: Project,
) -> tuple[LogicalNode, WindowFunction, dict[int, int]] | None:
    found = pulled_up(node.input)
    if found is None:
        return None
    source, window, bounds = found
    marks: dict[int, int] = {}
    expressions = list(node.expressions)
    for place, each in enumerate(node.expressions):
        if isinstance(each, InputRef) and each.index in bounds:
            marks[place] = bounds[each.index]
            # The column is a property of the window now; something has to stand in its place.
            expressions[place] = InputRef(window.time, source.schema.types[window.time])
        elif inputs_of(each) & set(bounds):
            return None
    time = InputRef(window.time, source.schema.types[window.time])
    partition = [InputRef(each, source.schema.types[each]) for each in window.partition]
    names = [*node.schema.names, "$time", *(f"$p{place}" for place in range(len(partition)))]
    below = nodes.project(source, [*expressions, time, *partition], names)
    width = len(expressions)
    moved = replace(
        window, input=below, time=width, partition=tuple(range(width + 1, width + 1 + len(partition)))
    )
    return below, moved, marks


_PROPERTIES = ("start", "end", "time")


def window_aggregate(
    node: Aggregate, source: p.PhysicalNode, window: p.Window, marks: dict[int, int]
) -> p.PhysicalNode:
    """Return an aggregation by windows that it makes itself.

    Args:
        node: The logical one, whose keys have the bounds among them.
        source: What it reads, without windows.
        window: The windows.
        marks: Which columns of its input are 0 window_start, 1 window_end, 2 window_time.
    """
    keys = [key for key in node.keys if key not in marks]
    properties = [_PROPERTIES[marks[key]] for key in node.keys if key in marks]
    schema = node.schema
    plain = [place for place, key in enumerate(node.keys) if key not in marks]
    bounds = [place for place, key in enumerate(node.keys) if key in marks]
    results = list(range(len(node.keys), len(schema)))
    order = [*plain, *results, *bounds]
    rowtime = frozenset(
        index for index, place in enumerate(order) if place in bounds and marks[node.keys[place]] == 2
    )
    inner = RowSchema(
        tuple(schema.names[each] for each in order),
        tuple(schema.types[each] for each in order),
        rowtime if window.rowtime else frozenset(),
        frozenset() if window.rowtime else rowtime,
    )
    aggregated = p.WindowAggregate(inner, source, tuple(keys), node.calls, window, tuple(properties))
    places = [order.index(place) for place in range(len(schema))]
    return kept_columns(aggregated, places, schema.names)


def attached_aggregate(node: Aggregate, source: p.PhysicalNode, bounds: Bounds) -> p.PhysicalNode:
    """Return an aggregation by windows that the rows have already."""
    pair = bounds.pair
    assert pair is not None, "no window"
    rowtime = frozenset(place for place, key in enumerate(node.keys) if key == bounds.time)
    schema = replace(
        node.schema,
        rowtime=rowtime if bounds.window.rowtime else frozenset(),
        proctime=frozenset() if bounds.window.rowtime else rowtime,
    )
    return p.WindowAggregate(schema, source, node.keys, node.calls, bounds.window, (), pair)


def grouped_aggregate(node: Aggregate, source: p.PhysicalNode) -> p.PhysicalNode:
    """Return an aggregation of the old form; the window's properties are its last four columns."""
    assert node.window is not None
    rowtime = node.window.time in source.schema.rowtime
    old = node.window
    local = isinstance(source.schema.types[old.time], LocalZonedTimestampType)
    window = p.Window(old.kind, old.time, old.size_ms, old.slide_ms, old.offset_ms, rowtime, (), local)
    properties = ("start", "end", "time", "proctime")
    return p.WindowAggregate(node.schema, source, node.keys, node.calls, window, properties, grouped=True)


def is_session(window: p.Window) -> bool:
    """Whether windows are sessions."""
    return window.kind is WindowKind.SESSION


def used_columns(calls: tuple[AggregateCall, ...]) -> set[int]:
    """Return the columns that aggregates read."""
    found: set[int] = set()
    for call in calls:
        found.update(call.arguments, (key.index for key in call.order))
        if call.filter is not None:
            found.add(call.filter)
    return found
