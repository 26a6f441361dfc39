"""Tables that are grouped or have windows: `select` of them gives a table again."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from millstream.base.errors import NotSupportedError
from millstream.table.errors import ValidationError
from millstream.table.plan import nodes
from millstream.table.plan.bind.table_api import TableOperations, window_property
from millstream.table.plan.bind.table_expressions import items_of, map_tree, names_of, tree_of
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
        return AggregatedTable(self._table, self._keys, self._table._call_of(func), self._windows)

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

    def flat_aggregate(self, func: Any) -> FlatAggregateTable:
        """Raise an error: table aggregate functions of windows are not in millstream yet.

        Raises:
            NotSupportedError: Always.
        """
        raise NotSupportedError(
            "flat_aggregate of a table that is grouped by a window is not in millstream yet",
            hint="Use an aggregate function that gives an array, and UNNEST it; or ROW_NUMBER() by window in SQL.",
        )


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

    def __init__(
        self, table: Table, keys: Sequence[Any], call: Any, windows: Sequence[GroupWindow] = ()
    ) -> None:
        self._table, self._keys, self._call = table, tuple(keys), call
        self._windows = tuple(windows)

    def select(self, *fields: Any) -> Table:
        """Compute columns of the keys, of what the function gave, and of properties of the window."""
        windows = {each.name: each.call for each in self._windows}
        properties: dict[ast.Expression, str] = {}

        def change(tree: ast.Expression) -> ast.Expression | None:
            found = window_property(tree, windows)
            if found is None:
                return None
            name = properties.setdefault(found, f"$property{len(properties)}")
            return ast.Column((name,))

        items = [
            ast.SelectItem(map_tree(each.expression, change), each.alias or _own_name(each))
            for each in items_of(fields)
        ]
        node, names = self._aggregated(list(properties))
        node = nodes.project(node, nodes.refs(node.schema), [*names, *properties.values()])
        operations = self._table._with(node)._operations
        items = [part for each in items for part in _without_properties(each, names)]
        return self._table._with(operations.bind(ast.Select(tuple(items))))

    def _aggregated(self, properties: Sequence[ast.Expression]) -> tuple[LogicalNode, list[str]]:
        """Return keys, what the function gives (a row as its fields), and properties; names of all but these."""
        operations: TableOperations = self._table._operations
        named = {each.name for each in self._windows}
        shown = [each for each in items_of(self._keys) if not _names_window(each, named)]
        expressions = [*(each.expression for each in shown), tree_of(self._call), *properties]
        if self._keys:
            node = operations.grouped(self._keys, expressions, self._windows)
        else:
            node = operations.select(expressions)
        place = len(shown)
        keys = [each.alias or _plain_name(each.expression) or f"key{i}" for i, each in enumerate(shown)]
        kind = node.schema.types[place]
        given = [node.schema.names[place]]
        if isinstance(kind, RowType):
            node = operations.flattened(node, place)
            given = list(node.schema.names[place : len(node.schema) - len(properties)])
        return node, named_columns(keys, given, names_of(self._call), "aggregate")


class FlatAggregateTable:
    """A table that was aggregated by a table aggregate function (`flat_aggregate`)."""

    def __init__(self, table: Table, keys: Sequence[Any], call: Any) -> None:
        self._table, self._keys, self._call = table, tuple(keys), call

    def select(self, *fields: Any) -> Table:
        """Compute columns of the keys and of the rows that the function gave."""
        node = self._table._operations.table_aggregated(self._keys, self._call)
        count = len(self._keys)
        names = named_columns(
            node.schema.names[:count], node.schema.names[count:], names_of(self._call), "flat_aggregate"
        )
        return self._table._with(nodes.project(node, nodes.refs(node.schema), names)).select(*fields)


def named_columns(
    keys: Sequence[str], given: Sequence[str], aliases: Sequence[str], method: str
) -> list[str]:
    """Return names of keys and of what a function gave, by `alias` if there is one.

    Raises:
        ValidationError: If `alias` has another number of names.
    """
    if aliases and len(aliases) != len(given):
        raise ValidationError(
            f"{method}: alias names {len(aliases)} columns, and the function gives {len(given)}",
            detail=f"Names: {', '.join(aliases)}; columns: {', '.join(given)}.",
        )
    return [*keys, *(aliases or given)]


def _own_name(item: ast.SelectItem) -> str:
    return item.expression.parts[-1] if isinstance(item.expression, ast.Column) else ""


def _without_properties(item: ast.SelectItem, names: Sequence[str]) -> list[ast.SelectItem]:
    """Return `*` as the columns that a program knows of."""
    if not isinstance(item.expression, ast.Star):
        return [item]
    return [ast.SelectItem(ast.Column((name,)), name) for name in names]


def _names_window(item: ast.SelectItem, names: set[str]) -> bool:
    tree = item.expression
    return isinstance(tree, ast.Column) and tree.parts[-1] in names


def _plain_name(tree: ast.Expression) -> str:
    return tree.parts[-1] if isinstance(tree, ast.Column) else ""
