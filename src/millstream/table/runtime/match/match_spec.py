"""The declared half of MATCH_RECOGNIZE."""

from __future__ import annotations

from dataclasses import dataclass

from millstream.operators.base import Operator, OperatorSpec
from millstream.table.expressions.rex import RowSchema
from millstream.table.plan.matching import MatchClause

__all__ = ["MatchSpec"]


@dataclass(frozen=True)
class MatchSpec(OperatorSpec):
    """Declares a search for a pattern in the rows of each key; the output has the key, then the measures.

    The input is append-only. By event time rows are taken when the watermark passes them, late ones are dropped and
    counted; by processing time as they come.

    Attributes:
        input: Columns of the input.
        clause: What is searched for.
        rowtime: Whether rows are in the order of event time.
        zone: The session's time zone.
    """

    input: RowSchema
    clause: MatchClause
    rowtime: bool
    zone: str = "UTC"
    is_keyed = True
    takes_columns = True

    @property
    def state_form(self) -> str:
        """What is kept: partial matches of one pattern are none of another."""
        time = "event time" if self.rowtime else "processing time"
        names = ", ".join(
            f"{name} {kind}" for name, kind in zip(self.input.names, self.input.types, strict=True)
        )
        defines = ", ".join(each.variable for each in self.clause.defines)
        return f"{time}, pattern {self.clause.pattern_text}, {self.clause.skip_text}, defined {defines}, of {names}"

    def build(self) -> Operator:
        """Make the running half."""
        from millstream.table.runtime.match.match_operator import MatchOperator

        return MatchOperator(self)
