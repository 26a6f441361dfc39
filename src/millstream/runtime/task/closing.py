"""Ending many things of which each may fail."""

from __future__ import annotations

from collections.abc import Callable, Iterable

__all__ = ["call_all"]


def call_all(actions: Iterable[Callable[[], object]]) -> None:
    """Call every action, in order, whatever those before raised.

    Raises:
        Exception: The first that was raised, when all have been called.
    """
    failure: Exception | None = None
    for action in actions:
        try:
            action()
        except Exception as error:  # noqa: BLE001 - the others have their turn, then it is raised
            failure = failure or error
    if failure is not None:
        raise failure
