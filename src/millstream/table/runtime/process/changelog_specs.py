"""The declared halves of TO_CHANGELOG and FROM_CHANGELOG."""

from __future__ import annotations

from dataclasses import dataclass

from millstream.operators.base import Operator, OperatorSpec
from millstream.table.expressions.rex import RowSchema
from millstream.table.runtime.process.changelog_operators import FromChangelogOperator, ToChangelogOperator

__all__ = ["FromChangelogSpec", "ToChangelogSpec"]


@dataclass(frozen=True)
class ToChangelogSpec(OperatorSpec):
    """Declares that changes become rows: the PARTITION BY columns, the kind, the other columns.

    Attributes:
        input: Columns of the input.
        partition: Places of the PARTITION BY columns.
        codes: For each kind its text; None leaves such changes out.
    """

    input: RowSchema
    partition: tuple[int, ...]
    codes: tuple[str | None, str | None, str | None, str | None]
    takes_columns = True
    acts_on_time = False

    def build(self) -> Operator:
        """Make the running half."""
        return ToChangelogOperator(self)


@dataclass(frozen=True)
class FromChangelogSpec(OperatorSpec):
    """Declares that rows become changes: the PARTITION BY columns, then the others without the kind.

    Attributes:
        input: Columns of the input.
        partition: Places of the PARTITION BY columns.
        op: Place of the column with the kind.
        codes: Its texts, and the kind that each means; another text fails the job.
    """

    input: RowSchema
    partition: tuple[int, ...]
    op: int
    codes: tuple[tuple[str, int], ...]
    takes_columns = True
    acts_on_time = False

    def build(self) -> Operator:
        """Make the running half."""
        return FromChangelogOperator(self)
