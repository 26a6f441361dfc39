"""Calls of process table functions in the Table API: `t.partition_by(col("k")).process(f, lit(1).as_argument("n"))`."""

from __future__ import annotations

import inspect
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from millstream.base.errors import TypeMismatchError, shorten
from millstream.table.expression import Expression
from millstream.table.expressions import lit
from millstream.table.functions.process_definition import process_definition
from millstream.table.functions.user import INLINE, UserFunction
from millstream.table.plan.bind.table_expressions import order_of, tree_of
from millstream.table.process_functions import ProcessTableFunction
from millstream.table.sql import ast

if TYPE_CHECKING:
    from millstream.table.environment import TableEnvironment
    from millstream.table.table import Table

__all__ = ["PartitionedTable", "call_of", "table_argument"]


class PartitionedTable:
    """A table whose rows belong together by key (`Table.partition_by`), for functions that take it as a set.

    Args:
        table: The table.
        keys: The columns of its key.
        order: How rows of a key are sorted.
    """

    def __init__(self, table: Table, keys: Sequence[Any], order: Sequence[Any] = ()) -> None:
        self._table = table
        self._keys = tuple(keys)
        self._order = tuple(order)

    def order_by(self, *fields: Any) -> PartitionedTable:
        """Give rows of a key to functions in an order: by the column that has a watermark first, ascending."""
        return PartitionedTable(self._table, self._keys, fields)

    def as_argument(self, name: str) -> Expression[Any]:
        """Return it as a function's argument of a name, for `TableEnvironment.from_call`."""
        return Expression(ast.NamedArgument(name, self._argument()), f"asArgument({name})")

    def process(self, path_or_function: Any, *arguments: Any) -> Table:
        """Call a process table function with it as its first table.

        Args:
            path_or_function: The function's name, or a `ProcessTableFunction`: an object or a class.
            arguments: Further arguments: expressions, with names by `as_argument`, or values. None leaves one out.

        Raises:
            ValidationError: If they do not fit.
        """
        environment = self._table._environment
        return environment.from_call(path_or_function, _Given(self._argument()), *arguments)

    def to_changelog(self, *arguments: Any) -> Table:
        """Return changes as rows with their kind, dealt by the key: `TO_CHANGELOG`."""
        return self.process("TO_CHANGELOG", *arguments)

    def from_changelog(self, *arguments: Any) -> Table:
        """Return rows with their kind as changes, by the key: `FROM_CHANGELOG`."""
        return self.process("FROM_CHANGELOG", *arguments)

    def _argument(self) -> ast.TableArgument:
        return table_argument(self._table, self._keys, self._order)


class _Given:
    """The table that `process` was called of: named as the first table, once it is known whether others have names."""

    def __init__(self, node: ast.TableArgument) -> None:
        self.node = node


def table_argument(table: Table, keys: Sequence[Any] = (), order: Sequence[Any] = ()) -> ast.TableArgument:
    """Return a table as an argument."""
    return ast.TableArgument(
        ast.BoundRelation(table.node), tuple(map(tree_of, keys)), tuple(order_of(each) for each in order)
    )


class _Inline:
    """A function that is called without a name in a catalog."""

    def __init__(self, definition: UserFunction) -> None:
        self._definition = definition

    def declared(self) -> UserFunction:
        """Return its definition."""
        return self._definition


def call_of(environment: TableEnvironment, path_or_function: Any, arguments: Sequence[Any]) -> ast.Function:
    """Return the tree of a call.

    Raises:
        TypeMismatchError: If it is no function, or an argument is no expression.
    """
    clauses: tuple[tuple[str, Any], ...]
    if isinstance(path_or_function, str):
        name, clauses, first = path_or_function, (), _first_table(environment, path_or_function)
    else:
        function = path_or_function
        if inspect.isclass(function) and issubclass(function, ProcessTableFunction):
            function = function()
        if not isinstance(function, ProcessTableFunction):
            raise TypeMismatchError(
                f"process was given {shorten(path_or_function)}",
                hint="Give it the name of a function, or a ProcessTableFunction: an object or a class.",
            )
        name = type(function).__name__
        definition = process_definition(function, name)
        clauses = ((INLINE, _Inline(definition)),)
        tables = definition.process.tables
        first = tables[0].name if tables else ""
    named = any(isinstance(getattr(each, "node", None), ast.NamedArgument) for each in arguments)
    trees = [_tree(each, first if named else "") for each in arguments]
    return ast.Function(name, tuple(trees), clauses=clauses)


def _first_table(environment: TableEnvironment, path: str) -> str:
    """Return the name of the first table argument of a function of a catalog; that of built-in ones if it is none."""
    found = environment.plan_context().catalog.find_user_function(path)
    tables = found.process.tables if found is not None and found.process is not None else ()
    return tables[0].name if tables else "input"


def _tree(argument: Any, name: str) -> ast.Expression:
    if argument is None:
        return ast.Function("DEFAULT")
    if isinstance(argument, _Given):
        return ast.NamedArgument(name, argument.node) if name else argument.node
    node = getattr(argument, "node", None)
    if isinstance(node, ast.Expression):
        return tree_of(argument)
    return tree_of(lit(argument))
