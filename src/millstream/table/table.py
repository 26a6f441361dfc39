"""Tables of a program (PyFlink's `pyflink.table.table`)."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from millstream.table.result import TableResult
from millstream.table.session.tableau import print_line

if TYPE_CHECKING:
    from millstream.table.environment import TableEnvironment
    from millstream.table.expressions.rex import RowSchema
    from millstream.table.plan.logical import LogicalNode

__all__ = ["Table", "TablePipeline"]


class Table:
    """A relation that was declared and not run.

    Args:
        environment: Where it runs.
        node: Its bound plan.
    """

    def __init__(self, environment: TableEnvironment, node: LogicalNode) -> None:
        self.environment = environment
        self.node = node
        self._name: str | None = None

    def __str__(self) -> str:
        """Return a name that SQL texts can use: `f"SELECT * FROM {table}"`."""
        if self._name is None:
            self._name = self.environment.view_name_of(self.node)
        return self._name

    def __repr__(self) -> str:
        return f"Table({', '.join(self.node.schema.names)})"

    def get_schema(self) -> RowSchema:
        """Return names and types of the columns."""
        return self.node.schema

    def get_resolved_schema(self) -> RowSchema:
        """Return names and types of the columns."""
        return self.node.schema

    def print_schema(self) -> None:
        """Print names and types of the columns."""
        print_line("(")
        schema = self.node.schema
        lines = [f"  `{name}` {kind}" for name, kind in zip(schema.names, schema.types, strict=True)]
        print_line(",\n".join(lines))
        print_line(")")

    def execute(self) -> TableResult:
        """Run it; its rows come here."""
        return self.environment.execute_query(self.node)

    def execute_insert(self, table_path_or_descriptor: Any, overwrite: bool = False) -> TableResult:
        """Run it into a table; the job runs when this returns."""
        return self.environment.execute_insert(self.node, table_path_or_descriptor, overwrite)

    def insert_into(self, table_path_or_descriptor: Any) -> TablePipeline:
        """Declare that it is written into a table."""
        return TablePipeline(
            self.environment, *self.environment.plan_insert(self.node, table_path_or_descriptor)
        )

    def explain(self, *extra_details: Any) -> str:
        """Return its plan as text."""
        return self.environment.explain_nodes([self.node], extra_details)


class TablePipeline:
    """A table that is to be written into another.

    Args:
        environment: Where it runs.
        planned: Its plan.
        target: Full name of the table that is written.
    """

    def __init__(self, environment: TableEnvironment, planned: Any, target: str) -> None:
        self._environment = environment
        self.planned = planned
        self.target = target

    def execute(self) -> TableResult:
        """Run it; the job runs when this returns."""
        return self._environment.run_inserts([self.planned], [self.target])

    def explain(self, *extra_details: Any) -> str:
        """Return its plan as text."""
        return self._environment.explain_planned([self.planned], extra_details)
