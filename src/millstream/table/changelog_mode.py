"""Which kinds of change a stream has (PyFlink's `pyflink.table.changelog_mode`)."""

from __future__ import annotations

from millstream.table.plan import changes

__all__ = ["ChangelogMode"]


class ChangelogMode:
    """Kinds of rows of a stream.

    Args:
        mode: What the planner knows them as.
    """

    def __init__(self, mode: changes.ChangelogMode) -> None:
        self.mode = mode

    @staticmethod
    def insert_only() -> ChangelogMode:
        """Rows are only inserted."""
        return ChangelogMode(changes.INSERT_ONLY)

    @staticmethod
    def upsert() -> ChangelogMode:
        """Rows replace those with the same primary key, or delete them."""
        return ChangelogMode(changes.UPSERT)

    @staticmethod
    def all() -> ChangelogMode:
        """All kinds: inserts, the rows before and after updates, deletes."""
        return ChangelogMode(changes.ALL)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, ChangelogMode) and self.mode == other.mode

    def __hash__(self) -> int:
        return hash(self.mode)

    def __repr__(self) -> str:
        return f"ChangelogMode[{self.mode}]"
