"""Tables that are to be written (PyFlink's `pyflink.table.table_pipeline`)."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from millstream.table.session.tableau import print_line

if TYPE_CHECKING:
    from millstream.table.catalog import ObjectIdentifier
    from millstream.table.environment import TableEnvironment
    from millstream.table.plan.compiled import CompiledPlan
    from millstream.table.plan.planner import Planned
    from millstream.table.result import TableResult

__all__ = ["TablePipeline"]


class TablePipeline:
    """What `Table.insert_into` gives: a plan with the table that it writes.

    Attributes:
        planned: The plan.
        target: Full name of the table.
    """

    def __init__(self, environment: TableEnvironment, planned: Planned, target: str) -> None:
        self._environment = environment
        self.planned = planned
        self.target = target

    def __str__(self) -> str:
        return f"TablePipeline with sink table '{self.get_sink_identifier()}'"

    def execute(self) -> TableResult:
        """Run it as a job; the job runs when this returns."""
        return self._environment.run_inserts([self.planned], [self.target])

    def explain(self, *extra_details: Any) -> str:
        """Return the plan as text."""
        return self._environment.explain_planned([self.planned], extra_details)

    def print_explain(self, *extra_details: Any) -> None:
        """Print the plan."""
        print_line(self.explain(*extra_details))

    def get_sink_identifier(self) -> ObjectIdentifier:
        """Return the full name of the table that is written."""
        from millstream.table.catalog import ObjectIdentifier

        return ObjectIdentifier.of(*self.planned.physical.table.identifier)

    def compile_plan(self) -> CompiledPlan:
        """Return the plan, to be kept and executed later."""
        from millstream.table.plan.compiled import CompiledPlan

        return CompiledPlan(self._environment, [self.planned], [self.target])
