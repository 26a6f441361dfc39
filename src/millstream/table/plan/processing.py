"""What a call of a process table function says, bound: what the logical and the physical node have in common."""

from __future__ import annotations

from dataclasses import dataclass

from millstream.table.expressions.rex import Literal, RowExpression, SortKey
from millstream.table.functions.process_signature import Argument, ProcessSignature
from millstream.table.functions.user import UserFunction
from millstream.table.process_functions import ArgumentTrait

__all__ = ["ProcessClause", "TableInput"]


@dataclass(frozen=True)
class TableInput:
    """A table that a function is called with.

    Attributes:
        argument: What the function says of it.
        partition: Places of the PARTITION BY columns.
        order: ORDER BY; the first is the time attribute, ascending.
        time: Place of the column that `on_time` names; None if it names none.
    """

    argument: Argument
    partition: tuple[int, ...] = ()
    order: tuple[SortKey, ...] = ()
    time: int | None = None

    @property
    def key_places(self) -> tuple[int, ...]:
        """Places of the PARTITION BY columns in what the function's rows begin with."""
        return self.partition if self.passes_all else tuple(range(len(self.partition)))

    @property
    def passes_all(self) -> bool:
        """Whether all its columns come before what the function gives."""
        return self.argument.has(ArgumentTrait.PASS_COLUMNS_THROUGH)


@dataclass(frozen=True)
class ProcessClause:
    """A call.

    Attributes:
        function: What is called.
        tables: Its tables, in order.
        values: For each argument its value; None of tables, and of those that were left out.
        uid: What its state is known by.
        on_time: Whether there is an `on_time`, and so a column `rowtime`.
    """

    function: UserFunction
    tables: tuple[TableInput, ...]
    values: tuple[RowExpression | None, ...]
    uid: str
    on_time: bool

    @property
    def signature(self) -> ProcessSignature:
        """What the function takes."""
        found: ProcessSignature = self.function.process
        return found

    @property
    def keyed(self) -> bool:
        """Whether rows belong together by key."""
        return any(each.argument.is_set for each in self.tables)

    def literal(self, place: int) -> object:
        """Return the value of a scalar argument; None if it is no literal."""
        found = self.values[place] if place < len(self.values) else None
        return found.value if isinstance(found, Literal) else None
