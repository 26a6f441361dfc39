"""Tables of the Table API (PyFlink's `pyflink.table.table`).

A table is a plan that is bound: each method gives a table with a plan over this one, made of the same trees as SQL
texts and by the same binder, so that types, errors and plans are the same. Nothing runs before `execute`.
"""

from __future__ import annotations

import copy
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from millstream.base.errors import TypeMismatchError
from millstream.table.expressions.rex import RowSchema
from millstream.table.grouped_tables import (
    AggregatedTable,
    FlatAggregateTable,
    GroupedTable,
    GroupWindowedTable,
    OverWindowedTable,
    WindowGroupedTable,
)
from millstream.table.partitioned_table import PartitionedTable, table_argument
from millstream.table.plan.bind.table_api import TableOperations
from millstream.table.plan.bind.table_expressions import names_of, tree_of
from millstream.table.plan.logical import LogicalNode
from millstream.table.session.tableau import print_line
from millstream.table.sql import ast
from millstream.table.table_pipeline import TablePipeline
from millstream.table.window import GroupWindow, OverWindow

if TYPE_CHECKING:
    from millstream.table.catalog import ResolvedSchema
    from millstream.table.environment import TableEnvironment
    from millstream.table.result import TableResult

__all__ = [
    "AggregatedTable",
    "FlatAggregateTable",
    "GroupWindowedTable",
    "GroupedTable",
    "OverWindowedTable",
    "Table",
    "TablePipeline",
    "WindowGroupedTable",
]


class Table:
    """A relation, as a plan.

    Args:
        environment: Where it runs.
        node: The bound plan.

    Attributes:
        node: The bound plan.
    """

    def __init__(self, environment: TableEnvironment, node: LogicalNode) -> None:
        self._environment = environment
        self.node = node
        self._name: str | None = None

    def __str__(self) -> str:
        """Return a name that SQL texts can use: `f"SELECT * FROM {table}"`."""
        if self._name is None:
            self._name = self._environment.view_name_of(self.node)
        return self._name

    def __repr__(self) -> str:
        schema = self.node.schema
        columns = [f"{name} {kind}" for name, kind in zip(schema.names, schema.types, strict=True)]
        return f"Table({', '.join(columns)})"

    def __getattr__(self, name: str) -> Any:
        if name.startswith("_") or name not in self.node.schema.names:
            shown = () if name.startswith("_") else self.node.schema.names
            raise AttributeError(
                f"a Table has neither a method nor a column {name!r}; columns: {', '.join(shown)}"
            )
        from millstream.table.expressions import col

        return col(name)

    @property
    def _schema(self) -> RowSchema:
        return self.node.schema

    @property
    def _operations(self) -> TableOperations:
        return TableOperations(self._environment.plan_context(), self.node)

    def _with(self, node: LogicalNode) -> Table:
        return Table(self._environment, node)

    def _node_of(self, right: object, method: str) -> LogicalNode:
        if not isinstance(right, Table):
            raise TypeMismatchError(f"{method} was given a {type(right).__name__}, not a Table")
        return right.node

    # --- columns and rows

    def select(self, *fields: Any) -> Table:
        """Compute columns; aggregates among them are of all rows."""
        return self._with(self._operations.select(fields))

    def alias(self, field: str, *fields: str) -> Table:
        """Give columns other names, from the first on."""
        return self._with(self._operations.renamed((field, *fields)))

    def filter(self, predicate: Any) -> Table:
        """Keep rows where a condition holds."""
        return self._with(self._operations.filter(predicate))

    def where(self, predicate: Any) -> Table:
        """Keep rows where a condition holds."""
        return self.filter(predicate)

    def distinct(self) -> Table:
        """Drop rows that are there already."""
        return self._with(self._operations.distinct())

    def add_columns(self, *fields: Any) -> Table:
        """Add columns; a name that is there already is an error."""
        return self._with(self._operations.added(fields, replacing=False))

    def add_or_replace_columns(self, *fields: Any) -> Table:
        """Add columns; those of a name that is there take its place."""
        return self._with(self._operations.added(fields, replacing=True))

    def rename_columns(self, *fields: Any) -> Table:
        """Give columns other names: `col("a").alias("b")`."""
        return self._with(self._operations.with_names(fields))

    def drop_columns(self, *fields: Any) -> Table:
        """Drop columns."""
        return self._with(self._operations.without(fields))

    # --- groups and windows

    def group_by(self, *fields: Any) -> GroupedTable:
        """Group by expressions; `select` of the result aggregates."""
        return GroupedTable(self, fields)

    def window(self, window: GroupWindow) -> GroupWindowedTable:
        """Cut rows into windows, to be grouped by the window's name.

        Raises:
            TypeMismatchError: If it is no `Tumble`, `Slide` or `Session` with `on` and `alias`.
        """
        if not isinstance(window, GroupWindow):
            raise TypeMismatchError(
                f"window was given a {type(window).__name__}",
                hint='Write Tumble.over(...).on(...).alias("w").',
            )
        return GroupWindowedTable(self, window)

    def over_window(self, *over_windows: OverWindow) -> OverWindowedTable:
        """Say which windows `over` refers to.

        Raises:
            TypeMismatchError: If one is no `Over` with `alias`.
        """
        for each in over_windows:
            if not isinstance(each, OverWindow):
                raise TypeMismatchError(
                    f"over_window was given a {type(each).__name__}",
                    hint='Write Over.partition_by(...).order_by(...).alias("w").',
                )
        return OverWindowedTable(self, over_windows)

    # --- joins

    def join(self, right: Table, join_predicate: Any = None) -> Table:
        """Join with another table; columns of both have different names."""
        return self._joined(right, "INNER", join_predicate, "join")

    def left_outer_join(self, right: Table, join_predicate: Any = None) -> Table:
        """Join, keeping rows of this table without partner."""
        return self._joined(right, "LEFT", join_predicate, "left_outer_join")

    def right_outer_join(self, right: Table, join_predicate: Any) -> Table:
        """Join, keeping rows of the other table without partner."""
        return self._joined(right, "RIGHT", join_predicate, "right_outer_join")

    def full_outer_join(self, right: Table, join_predicate: Any) -> Table:
        """Join, keeping rows of both tables without partner."""
        return self._joined(right, "FULL", join_predicate, "full_outer_join")

    def _joined(self, right: Table, kind: str, predicate: Any, method: str) -> Table:
        return self._with(self._operations.join(self._node_of(right, method), kind, predicate))

    def join_lateral(self, table_function_call: Any, join_predicate: Any = None) -> Table:
        """Join each row with what a table function gives of it; `alias` of the call names its columns."""
        return self._lateral(table_function_call, "INNER", join_predicate)

    def left_outer_join_lateral(self, table_function_call: Any, join_predicate: Any = None) -> Table:
        """Join each row with what a table function gives of it, keeping rows for which it gives none."""
        return self._lateral(table_function_call, "LEFT", join_predicate)

    def _lateral(self, call: Any, kind: str, predicate: Any) -> Table:
        names = names_of(call) or tuple(getattr(call, "_alias_names", ()))
        if not isinstance(getattr(call, "node", None), ast.Expression):
            call = self._whole_row(call)
        return self._with(self._operations.lateral(call, names, kind, predicate))

    # --- sets

    def minus(self, right: Table) -> Table:
        """Keep distinct rows that the other table does not have."""
        return self._combined(right, "EXCEPT", "minus", every=False)

    def minus_all(self, right: Table) -> Table:
        """Keep rows as often as they are here more often than there."""
        return self._combined(right, "EXCEPT", "minus_all", every=True)

    def union(self, right: Table) -> Table:
        """Put rows together, each once."""
        return self._combined(right, "UNION", "union", every=False)

    def union_all(self, right: Table) -> Table:
        """Put rows together."""
        return self._combined(right, "UNION", "union_all", every=True)

    def intersect(self, right: Table) -> Table:
        """Keep distinct rows that both tables have."""
        return self._combined(right, "INTERSECT", "intersect", every=False)

    def intersect_all(self, right: Table) -> Table:
        """Keep rows as often as both tables have them."""
        return self._combined(right, "INTERSECT", "intersect_all", every=True)

    def _combined(self, right: Table, kind: str, method: str, *, every: bool) -> Table:
        return self._with(self._operations.combined(self._node_of(right, method), kind, every=every))

    # --- order

    def order_by(self, *fields: Any) -> Table:
        """Sort: `col("a").desc`. A stream is sorted by its time attribute first, or limited."""
        return self._with(self._operations.ordered(fields))

    def offset(self, offset: int) -> Table:
        """Leave out so many rows at first."""
        return self._with(self._operations.limited(offset, None))

    def fetch(self, fetch: int) -> Table:
        """Keep so many rows."""
        return self._with(self._operations.limited(None, fetch))

    def limit(self, fetch: int, offset: int = 0) -> Table:
        """Keep `fetch` rows after the first `offset`."""
        return self._with(self._operations.limited(offset, fetch))

    # --- functions of rows

    def map(self, func: Any) -> Table:
        """Make one row of each row: a call of a scalar function that gives a row, or the function itself."""
        node = self._operations.select([self._call_of(func)])
        return self._with(self._operations.flattened(node, 0))

    def flat_map(self, func: Any) -> Table:
        """Make rows of each row: a call of a table function, or the function itself."""
        joined = self._lateral(self._call_of(func), "INNER", None)
        width = len(self._schema)
        schema = joined.node.schema
        from millstream.table.plan import nodes

        rest = range(width, len(schema))
        return self._with(nodes.project(joined.node, nodes.refs(schema, rest), schema.names[width:]))

    def aggregate(self, func: Any) -> AggregatedTable:
        """Make one row of all rows: a call of an aggregate function, or the function itself."""
        return AggregatedTable(self, (), self._call_of(func))

    def flat_aggregate(self, func: Any) -> FlatAggregateTable:
        """Make rows of all rows: a call of a table aggregate function, or the function itself."""
        return FlatAggregateTable(self, (), self._call_of(func))

    def _call_of(self, func: Any) -> Any:
        """Return a call; a function that is no call gets whole rows."""
        if not isinstance(getattr(func, "node", None), ast.Expression):
            return self._whole_row(func)
        if not isinstance(tree_of(func), ast.Function):
            raise TypeMismatchError("map and its like take a call of a function, or a function")
        return func

    def _whole_row(self, func: Any) -> Any:
        if not callable(func):
            raise TypeMismatchError(f"map and its like were given a {type(func).__name__}, not a function")
        takes_row: Callable[..., Any] | None = getattr(func, "_set_takes_row_as_input", None)
        if takes_row is None:
            raise TypeMismatchError(
                f"map and its like were given {func!r}", hint="Make it a function with udf, udtf or udaf."
            )
        takes_row()
        from millstream.table.expressions import col, with_columns

        named = copy.copy(func)  # rows of another table have other names
        named._declared = func.declared(tuple(self._schema.names))
        return named(with_columns(col("*")))

    # --- schemas

    def get_schema(self) -> Any:
        """Return names and types of the columns."""
        from millstream.table.table_schema import TableSchema

        return TableSchema(list(self._schema.names), list(self._schema.types))

    def get_resolved_schema(self) -> ResolvedSchema:
        """Return the columns with names and types."""
        from millstream.table.catalog import ResolvedSchema

        return ResolvedSchema.physical(list(self._schema.names), list(self._schema.types))

    def print_schema(self) -> None:
        """Print names and types of the columns."""
        print_line(self._schema_text())

    def _schema_text(self) -> str:
        schema, lines = self._schema, ["("]
        count = len(schema)
        for place, (name, kind) in enumerate(zip(schema.names, schema.types, strict=True)):
            marker = (
                " *ROWTIME*" if place in schema.rowtime else " *PROCTIME*" if place in schema.proctime else ""
            )
            lines.append(f"  `{name}` {kind}{marker}{',' if place < count - 1 else ''}")
        return "\n".join([*lines, ")"])

    # --- running

    def execute(self) -> TableResult:
        """Run it; rows come to the program."""
        return self._environment.execute_query(self.node)

    def execute_insert(self, table_path_or_descriptor: Any, overwrite: bool = False) -> TableResult:
        """Write the rows into a table; the job runs when this returns."""
        return self._environment.execute_insert(self.node, table_path_or_descriptor, overwrite)

    def insert_into(self, table_path_or_descriptor: Any, overwrite: bool = False) -> TablePipeline:
        """Return what writes the rows into a table, to be executed or added to a statement set."""
        planned, target = self._environment.plan_insert(self.node, table_path_or_descriptor, overwrite)
        return TablePipeline(self._environment, planned, target)

    def explain(self, *extra_details: Any) -> str:
        """Return the plan as text; details are of `ExplainDetail`."""
        return self._environment.explain_nodes([self.node], extra_details)

    def print_explain(self, *extra_details: Any) -> None:
        """Print the plan."""
        print_line(self.explain(*extra_details))

    def to_pandas(self) -> Any:
        """Run it and return the rows that are there at the end as a pandas DataFrame.

        Raises:
            ConfigurationError: If pandas is not installed.
        """
        from millstream.table.session.frames import to_pandas

        return to_pandas(self.execute(), self._schema)

    # --- process table functions

    def partition_by(self, *fields: Any) -> PartitionedTable:
        """Say which rows belong together, for functions that take the table as a set."""
        return PartitionedTable(self, fields)

    def as_argument(self, name: str) -> Any:
        """Return it as a function's argument of a name, for `TableEnvironment.from_call`."""
        from millstream.table.expression import Expression

        return Expression(ast.NamedArgument(name, table_argument(self)), f"asArgument({name})")

    def process(self, path_or_function: Any, *arguments: Any) -> Table:
        """Call a process table function with this table as its first one.

        Args:
            path_or_function: The function's name, or a `ProcessTableFunction`: an object or a class.
            arguments: Further arguments: expressions, with names by `as_argument`, or values. None leaves one out.

        Raises:
            ValidationError: If they do not fit.
        """
        return PartitionedTable(self, ()).process(path_or_function, *arguments)

    def to_changelog(self, *arguments: Any) -> Table:
        """Return changes as rows that are only inserted, with a column `op` for the kind of each (`TO_CHANGELOG`).

        Args:
            arguments: `descriptor("name").as_argument("op")`, `map_(...).as_argument("op_mapping")`.
        """
        return self.process("TO_CHANGELOG", *arguments)

    def from_changelog(self, *arguments: Any) -> Table:
        """Return rows whose column `op` says a kind as changes (`FROM_CHANGELOG`).

        Args:
            arguments: `descriptor("name").as_argument("op")`, `map_(...).as_argument("op_mapping")`.
        """
        return self.process("FROM_CHANGELOG", *arguments)
