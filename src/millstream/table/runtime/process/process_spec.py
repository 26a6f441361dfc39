"""The declared half of a process table function."""

from __future__ import annotations

from dataclasses import dataclass

from millstream.operators.base import Operator, OperatorSpec
from millstream.table.expressions.rex import RowSchema
from millstream.table.plan.changes import ChangelogMode
from millstream.table.plan.processing import ProcessClause
from millstream.table.runtime.process.process_operator import ProcessTableOperator

__all__ = ["ProcessTableSpec"]


@dataclass(frozen=True)
class ProcessTableSpec(OperatorSpec):
    """Declares a call of a process table function.

    The output has for each table its key columns (all of its columns if they are passed through), then what the
    function gives, then `rowtime` if the call has `on_time`.

    Attributes:
        inputs: Columns of each table.
        modes: Which kinds of change each table has.
        clause: The call.
        output: Columns of the output.
        mode: Which kinds of change the output has.
        ttl_ms: How long state is kept that says nothing itself; None for ever.
        zone: The session's time zone.
    """

    inputs: tuple[RowSchema, ...]
    modes: tuple[ChangelogMode, ...]
    clause: ProcessClause
    output: RowSchema
    mode: ChangelogMode
    ttl_ms: int | None = None
    zone: str = "UTC"
    takes_columns = True

    @property
    def is_keyed(self) -> bool:  # type: ignore[override]
        """Whether it has state and timers by key."""
        return self.clause.keyed

    def build(self) -> Operator:
        """Make the running half."""
        return ProcessTableOperator(self)
