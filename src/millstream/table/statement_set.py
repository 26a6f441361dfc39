"""INSERTs that are one job (PyFlink's `pyflink.table.statement_set`)."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from millstream.table.errors import ValidationError
from millstream.table.result import TableResult
from millstream.table.session.tableau import print_line
from millstream.table.table_descriptor import TableDescriptor

if TYPE_CHECKING:
    from millstream.table.environment import TableEnvironment

__all__ = ["StatementSet"]


class StatementSet:
    """Collects INSERTs; each method that adds one returns the set.

    Args:
        environment: The environment they run in.

    Example:
        >>> from millstream.common import Configuration
        >>> from millstream.table import TableEnvironment
        >>> options = {"execution.target": "local", "execution.runtime-mode": "BATCH"}
        >>> t_env = TableEnvironment.create(Configuration.from_dict(options))
        >>> for name in "cheap", "dear":
        ...     made = t_env.execute_sql(f"CREATE TABLE {name} (price INT) WITH ('connector' = 'blackhole')")
        >>> prices = t_env.from_elements([(3,), (50,)], ["price"])
        >>> t_env.create_temporary_view("prices", prices)
        >>> both = t_env.create_statement_set()
        >>> for name, condition in ("cheap", "price < 10"), ("dear", "price >= 10"):
        ...     both = both.add_insert_sql(f"INSERT INTO {name} SELECT price FROM prices WHERE {condition}")
        >>> both.execute().wait()  # one job
    """

    def __init__(self, environment: TableEnvironment) -> None:
        self._environment = environment
        self._planned: list[tuple[Any, str]] = []

    def add_insert_sql(self, stmt: str) -> StatementSet:
        """Add an INSERT of SQL.

        Raises:
            SqlError: If it is no INSERT, or something in it does not fit; shows where.
        """
        self._planned.append(self._environment.insert_of(stmt))
        return self

    def add_insert(
        self, target_path_or_descriptor: str | TableDescriptor, table: Any, overwrite: bool = False
    ) -> StatementSet:
        """Add a table that is written into another.

        Raises:
            ValidationError: If there is no such target, or the table does not fit it.
        """
        self._planned.append(self._environment.plan_insert(table.node, target_path_or_descriptor, overwrite))
        return self

    def add(self, table_pipeline: Any) -> StatementSet:
        """Add what `Table.insert_into` gave."""
        self._planned.append((table_pipeline.planned, table_pipeline.target))
        return self

    def explain(self, *extra_details: Any) -> str:
        """Return the plan as text."""
        return self._environment.explain_planned([plan for plan, _ in self._checked()], extra_details)

    def print_explain(self, *extra_details: Any) -> None:
        """Print the plan."""
        print_line(self.explain(*extra_details))

    def execute(self) -> TableResult:
        """Run all INSERTs as one job, and empty the set; the job runs when this returns.

        Raises:
            ValidationError: If there is none.
        """
        planned = self._checked()
        result = self._environment.run_inserts([plan for plan, _ in planned], [name for _, name in planned])
        self._planned = []
        return result

    def attach_as_datastream(self) -> None:
        """Add the INSERTs to the stream environment, whose next `execute` runs them; empties the set."""
        jobs = self._environment._executor.jobs
        for plan, _ in self._checked():
            jobs.stream_of(plan)
        self._planned = []

    def compile_plan(self) -> Any:
        """Return the plan, to be kept and executed later."""
        from millstream.table.plan.compiled import CompiledPlan

        planned = self._checked()
        return CompiledPlan(self._environment, [plan for plan, _ in planned], [name for _, name in planned])

    def _checked(self) -> list[tuple[Any, str]]:
        if not self._planned:
            raise ValidationError("the statement set has no INSERT", hint="Call add_insert_sql(...) first.")
        return self._planned
