"""Versions of what sources and sinks put into checkpoints (Flink's `SimpleVersionedSerializer`).

A checkpoint holds what a connector gave, pickled, and the number of its form. A connector that changes the form counts
its number up, and makes the new form of older ones itself::

    savepoint of a job with form 1 ─► unpickled ─► upgrade_snapshot(1, snapshot) ─► form 2 ─► build_enumerator

What is pickled should be plain (dicts, tuples, numbers, text): then no class has to stay where it was.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NoReturn

from millstream.base.errors import StateIncompatibleError

__all__ = ["FIRST_VERSION", "bring_up", "refuse_version"]

FIRST_VERSION = 1
"""Of a connector that says nothing, and of checkpoints that do not tell."""


def bring_up(kept: Any, version: int, current: int, upgrade: Callable[[int, Any], Any], *, what: str) -> Any:
    """Return something from a checkpoint in the form that a connector reads today.

    Args:
        kept: What the checkpoint holds.
        version: Of which form it is.
        current: Of which form the connector is.
        upgrade: Makes one of the other.
        what: What it is, for messages: `snapshot of source "Letters"`.

    Raises:
        StateIncompatibleError: If it is of a newer form, or the connector does not upgrade it.

    >>> bring_up({"a": 1}, 1, 2, lambda version, offsets: list(offsets.items()), what="a snapshot")
    [('a', 1)]
    """
    if version == current:
        return kept
    if version > current:
        raise StateIncompatibleError(
            f"the {what} has version {version}, this program reads versions up to {current}",
            detail="It was made by a newer version of the connector.",
            hint="Install that version, or a newer one; or go on from an older checkpoint.",
        )
    return upgrade(version, kept)


def refuse_version(what: str, version: int, current: int, method: str) -> NoReturn:
    """Raise that a connector does not upgrade what it is given: the default of its methods.

    Raises:
        StateIncompatibleError: Always.
    """
    raise StateIncompatibleError(
        f"the {what} has version {version}, this program reads version {current}",
        detail=f"The connector has no {method} that makes one of the other.",
        hint=f"Override {method}(version, ...), or run the job with the version of the connector that made it; "
        "or give the operator another uid and drop what it holds: --allow-non-restored-state.",
    )
