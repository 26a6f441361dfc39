"""Tables that are grouped or have windows: `select` of them gives a table again."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from millstream.base.errors import NotSupportedError
from millstream.table.plan import nodes
from millstream.table.plan.bind.table_api import TableOperations
from millstream.table.plan.bind.table_expressions import items_of, names_of, tree_of
from millstream.table.plan.logical import LogicalNode
from millstream.table.sql import ast
from millstream.types.datatypes import RowType

if TYPE_CHECKING:
    from millstream.table.table import Table
    from millstream.table.window import GroupWindow, OverWindow

__all__ = [
    "AggregatedTable",
    "FlatAggregateTable",
    "GroupWindowedTable",
    "GroupedTable",
    "OverWindowedTable",
    "WindowGroupedTable",
    "aggregated",
]


class GroupedTable:
    """A table with keys (`Table.group_by`)."""

    def __init__(self, table: Table, keys: Sequence[Any], windows: Sequence[GroupWindow] = ()) -> None:
        self._table = table
        self._keys = tuple(keys)
        self._windows = tuple(windows)

    def select(self, *fields: Any) -> Table:
        """Compute keys and aggregates."""
        return self._table._with(self._table._operations.grouped(self._keys, fields, self._windows))

    def aggregate(self, func: Any) -> AggregatedTable:
        """Make one row of each group: a call of an aggregate function, or the function itself."""
        call = self._table._call_of(func)
        return AggregatedTable(aggregated(self._table, self._keys, call, self._windows))

    def flat_aggregate(self, func: Any) -> FlatAggregateTable:
        """Make rows of each group: a call of a table aggregate function, or the function itself."""
        return FlatAggregateTable(self._table, self._keys, self._table._call_of(func))


class GroupWindowedTable:
    """A table with a window (`Table.window`), to be grouped by the window's name."""

    def __init__(self, table: Table, window: GroupWindow) -> None:
        self._table = table
        self._window = window

    def group_by(self, *fields: Any) -> WindowGroupedTable:
        """Group by the window, and other expressions."""
        return WindowGroupedTable(self._table, fields, (self._window,))


class WindowGroupedTable(GroupedTable):
    """A table grouped by a window; `col("w").start`, `.end`, `.rowtime` and `.proctime` are its properties."""


class OverWindowedTable:
    """A table with windows that `over` refers to (`Table.over_window`)."""

    def __init__(self, table: Table, windows: Sequence[OverWindow]) -> None:
        self._table = table
        self._windows = tuple(windows)

    def select(self, *fields: Any) -> Table:
        """Compute columns, with aggregates over the windows."""
        return self._table._with(self._table._operations.select(fields, self._windows))


class AggregatedTable:
    """A table that was aggregated by one function (`aggregate`); `select` takes its columns."""

    def __init__(self, table: Table) -> None:
        self._table = table

    def select(self, *fields: Any) -> Table:
        """Compute columns of the keys and of what the function gave."""
        return self._table.select(*fields)


class FlatAggregateTable:
    """A table that was aggregated by a table aggregate function (`flat_aggregate`)."""

    def __init__(self, table: Table, keys: Sequence[Any], call: Any) -> None:
        self._table, self._keys, self._call = table, tuple(keys), call

    def select(self, *fields: Any) -> Table:
        """Raise an error: table aggregate functions are not in millstream yet.

        Raises:
            NotSupportedError: Always.
        """
        raise NotSupportedError(
            "flat_aggregate with a table aggregate function is not in millstream yet",
            hint="Use an aggregate function that gives an array, and UNNEST it.",
        )


def aggregated(table: Table, keys: Sequence[Any], call: Any, windows: Sequence[GroupWindow] = ()) -> Table:
    """Return keys and what one aggregate function gives, a row as its fields.

    Args:
        table: What is aggregated.
        keys: To group by.
        call: A call of an aggregate function; `alias` names what it gives.
        windows: Group windows that keys name.
    """
    operations: TableOperations = table._operations
    named = {each.name for each in windows}
    shown = [each for each in items_of(keys) if not _names_window(each, named)]
    expressions = [*(each.expression for each in shown), tree_of(call)]
    node: LogicalNode
    if keys:
        node = operations.grouped(keys, expressions, windows)
    else:
        node = operations.select(expressions)
    place = len(expressions) - 1
    names = [each.alias or _plain_name(each.expression) or f"key{i}" for i, each in enumerate(shown)]
    result = node.schema.names[place]
    node = nodes.project(node, nodes.refs(node.schema), [*names, result])
    aliases = names_of(call)
    kind = node.schema.types[place]
    if isinstance(kind, RowType):
        node = operations.flattened(node, place)
    if aliases:
        node = nodes.project(
            node, nodes.refs(node.schema), [*node.schema.names[:place], *aliases][: len(node.schema)]
        )
    return table._with(node)


def _names_window(item: ast.SelectItem, names: set[str]) -> bool:
    tree = item.expression
    return isinstance(tree, ast.Column) and tree.parts[-1] in names


def _plain_name(tree: ast.Expression) -> str:
    return tree.parts[-1] if isinstance(tree, ast.Column) else ""
