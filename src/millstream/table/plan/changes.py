"""Which kinds of change a relation's rows have (Flink's changelog modes)."""

from __future__ import annotations

from dataclasses import dataclass

__all__ = ["ALL", "INSERT_ONLY", "UPSERT", "ChangelogMode"]


@dataclass(frozen=True)
class ChangelogMode:
    """Kinds of change beside inserts.

    Attributes:
        updates: Whether rows are replaced (+U).
        before: Whether the replaced row comes first (-U); without it, updates are by upsert key.
        deletes: Whether rows are deleted (-D).
    """

    updates: bool = False
    before: bool = False
    deletes: bool = False

    @property
    def insert_only(self) -> bool:
        """Whether rows are only added."""
        return not (self.updates or self.deletes)

    def __str__(self) -> str:
        """Return the mode as Flink's EXPLAIN shows it, `I,UB,UA,D`."""
        kinds = ["I"] + ["UB"] * self.before + ["UA"] * self.updates + ["D"] * self.deletes
        return ",".join(kinds)


INSERT_ONLY = ChangelogMode()
UPSERT = ChangelogMode(updates=True, deletes=True)
ALL = ChangelogMode(updates=True, before=True, deletes=True)
