"""Which operator's code is running in this slot's thread: for tagging what it prints and logs."""

from __future__ import annotations

__all__ = ["ORIGIN", "Origin"]


class Origin:
    """The innermost operator that is running; written by the slot's thread only.

    Attributes:
        operator: Its name; empty between operators.
        subtask: Index of the subtask that ran last.
    """

    __slots__ = ("operator", "subtask")

    def __init__(self) -> None:
        self.operator = ""
        self.subtask = 0


ORIGIN = Origin()
"""One for each process: a slot has one thread that runs operators."""
