"""Ending many things of which each may fail."""

from __future__ import annotations

from collections.abc import Callable, Iterable

from millstream.base.interrupts import is_interruption

__all__ = ["call_all"]


def call_all(actions: Iterable[Callable[[], object]]) -> None:
    """Call every action, in order, whatever those before raised.

    Raises:
        BaseException: The first that was raised, when all have been called; an interruption at once.
    """
    failure: BaseException | None = None
    for action in actions:
        try:
            action()
        except BaseException as error:
            if is_interruption(error):
                raise
            failure = failure or error
    if failure is not None:
        raise failure
