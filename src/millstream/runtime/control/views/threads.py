"""What the threads of a job's process do."""

from __future__ import annotations

from dataclasses import dataclass

__all__ = ["ThreadView", "ThreadsView"]


@dataclass(frozen=True, slots=True)
class ThreadView:
    """A thread of Python.

    Attributes:
        name: Its name.
        ident: Its number.
        stack: Its calls as Python writes them, the innermost last.
    """

    name: str
    ident: int
    stack: str


@dataclass(frozen=True, slots=True)
class ThreadsView:
    """All threads of the process that drives a job.

    Attributes:
        pid: The process.
        threads: In no order.
    """

    pid: int = 0
    threads: tuple[ThreadView, ...] = ()
