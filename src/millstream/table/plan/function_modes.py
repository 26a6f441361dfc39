"""Which kinds of change process table functions give, as they say themselves."""

from __future__ import annotations

from typing import Any

from millstream.base.errors import shorten
from millstream.table.changelog_mode import ChangelogMode as PublicMode
from millstream.table.errors import ValidationError
from millstream.table.plan import physical as p
from millstream.table.plan.changes import ALL, INSERT_ONLY, UPSERT, ChangelogMode
from millstream.table.plan.processing import ProcessClause, TableInput
from millstream.table.process_functions import (
    ArgumentTrait,
    ChangelogContext,
    ChangelogFunction,
    TableSemantics,
)
from millstream.types.datatypes import RowField, RowType

__all__ = ["from_mode", "function_mode", "input_needs_before"]


class _Context(ChangelogContext):
    """What a function may ask."""

    def __init__(self, node: p.ProcessTableNode, *, before: bool) -> None:
        self._clause: ProcessClause = node.clause
        self._inputs = node.inputs
        self._required = ALL if before else UPSERT

    def _table(self, pos: int) -> tuple[TableInput, p.PhysicalNode] | None:
        arguments = self._clause.signature.arguments
        if not (0 <= pos < len(arguments)) or not arguments[pos].is_table:
            return None
        place = sum(each.is_table for each in arguments[:pos])
        return self._clause.tables[place], self._inputs[place]

    def get_table_changelog_mode(self, pos: int) -> PublicMode | None:
        """Return which kinds of change a table has."""
        from millstream.table.plan.modes import kinds_of  # modes ask functions in turn

        found = self._table(pos)
        if found is None:
            return None
        return PublicMode(found[1].mode or kinds_of(found[1]))

    def get_required_changelog_mode(self) -> PublicMode:
        """Return which kinds of change are needed."""
        return PublicMode(self._required)

    def get_argument_value(self, pos: int) -> Any:
        """Return the value of a scalar argument."""
        return self._clause.literal(pos)

    def get_table_semantics(self, pos: int) -> TableSemantics | None:
        """Return what is known of a table argument."""
        found = self._table(pos)
        if found is None:
            return None
        table, node = found
        fields = [RowField(*each) for each in zip(node.schema.names, node.schema.types, strict=True)]
        return TableSemantics(
            RowType(fields), table.partition, _time_column=-1 if table.time is None else table.time
        )


def function_mode(node: p.ProcessTableNode, *, before: bool) -> ChangelogMode:
    """Return which kinds of change a function gives.

    Args:
        node: The call.
        before: Whether whoever reads them needs -U.

    Raises:
        ValidationError: If it says what it may not.
    """
    function, clause = node.clause.function.function, node.clause
    if not isinstance(function, ChangelogFunction):
        return INSERT_ONLY
    found = function.get_changelog_mode(_Context(node, before=before))
    if not isinstance(found, PublicMode):
        raise ValidationError(
            f'get_changelog_mode of function "{clause.function.name}" gave {shorten(found)}, which is no ChangelogMode'
        )
    mode = found.mode
    if not mode.insert_only and clause.on_time:
        raise ValidationError(
            f'function "{clause.function.name}" gives updates, and was called with on_time',
            detail="A column rowtime is there for rows that are only inserted.",
        )
    return mode


def input_needs_before(node: p.ProcessTableNode, place: int, keys: frozenset[frozenset[int]]) -> bool:
    """Return whether a table's updates have to come with -U.

    Args:
        node: The call.
        place: The table's number.
        keys: Its upsert keys.
    """
    table = node.clause.tables[place]
    if table.argument.has(ArgumentTrait.REQUIRE_UPDATE_BEFORE) or not table.argument.is_set:
        return True
    return frozenset(table.partition) not in keys


def from_mode(node: p.FromChangelogNode) -> ChangelogMode:
    """Return which kinds of change FROM_CHANGELOG gives."""
    kinds = {kind for _, kind in node.codes}
    return ChangelogMode(updates=bool(kinds & {1, 2}), before=1 in kinds, deletes=3 in kinds)
