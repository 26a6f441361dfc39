"""Work that can be left in the middle, with its whole stack, and gone on with later.

A flat map of one record to millions, an endless generator, a window that fires for every key: such work is one call
deep inside a chain, and an epoch may have to end before it does. It runs on a stack of its own (a greenlet, on the
same thread), so that it can be left at a safe point and found again. Nothing runs beside it: either the work runs or
whoever runs it, never both.
"""

from __future__ import annotations

import contextvars
from collections.abc import Callable

from greenlet import GreenletExit, getcurrent, greenlet

__all__ = ["WorkStack"]


class WorkStack:
    """Runs one piece of work at a time; one thread calls it.

    Context variables that work sets, such as the precision of decimals, hold for the pieces that follow.
    """

    def __init__(self) -> None:
        self._stack: greenlet | None = None
        self._context: contextvars.Context | None = None

    @property
    def is_suspended(self) -> bool:
        """Whether work was left in the middle."""
        return self._stack is not None

    def run(self, work: Callable[[], None] | None = None) -> None:
        """Begin a piece of work, or go on with the one that was left; return when it has ended or is left again.

        Raises:
            BaseException: What the work raised.
        """
        stack = self._stack
        if stack is None:
            assert work is not None, "there is nothing to go on with"
            if self._context is None:
                self._context = contextvars.copy_context()
            stack = greenlet(work)
            stack.gr_context = self._context
        stack.parent = getcurrent()
        try:
            stack.switch()
        finally:
            self._stack = None if stack.dead else stack

    def leave(self) -> None:
        """Leave the work that is running; returns when it is gone on with."""
        parent = getcurrent().parent
        assert parent is not None, "only work on a stack of its own can be left"
        parent.switch()

    def drop(self) -> None:
        """Give up work that was left: its `finally` blocks run, nothing else does."""
        stack, self._stack = self._stack, None
        if stack is not None:
            stack.parent = getcurrent()
            stack.throw(GreenletExit)
