"""What binder and planner ask of the world around a query: tables, functions, settings."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol, runtime_checkable

from millstream.table.plan.logical import LogicalNode
from millstream.table.sql import ast

__all__ = ["PlanCatalog", "PlanContext", "ViewDefinition"]


@dataclass(frozen=True)
class ViewDefinition:
    """A view, as the binder wants it.

    Attributes:
        query: Its tree, or the bound node of the Table API.
        columns: New names of its columns; empty keeps them.
        name: Its full name, for messages.
        text: Its text, for messages; empty if it has none.
    """

    query: ast.Query | LogicalNode
    columns: tuple[str, ...] = ()
    name: str = ""
    text: str = ""


@runtime_checkable
class PlanCatalog(Protocol):
    """Finds tables and functions by name, as the session's current catalog and database have them."""

    def find_relation(self, parts: Sequence[str]) -> Any | None:
        """Return the `catalog.ResolvedTable`, a `ViewDefinition`, or a bound `LogicalNode`; None if there is none."""
        ...

    def relation_names(self) -> Sequence[str]:
        """Return names of tables and views that can be seen, for suggestions."""
        ...

    def find_user_function(self, name: str) -> Any | None:
        """Return the definition of a user's function (`functions/user.py`); None if there is none."""
        ...


class EmptyCatalog:
    """Knows nothing; for texts that read no tables."""

    def find_relation(self, parts: Sequence[str]) -> Any | None:
        """Return None."""
        return None

    def relation_names(self) -> Sequence[str]:
        """Return no names."""
        return ()

    def find_user_function(self, name: str) -> Any | None:
        """Return None."""
        return None


@dataclass(frozen=True)
class PlanContext:
    """A query's surroundings.

    Attributes:
        catalog: Finds names.
        options: The session's options (`SET`), as texts.
        batch: Whether results are given once, of bounded inputs.
    """

    catalog: PlanCatalog = field(default_factory=EmptyCatalog)
    options: Mapping[str, str] = field(default_factory=dict)
    batch: bool = False
