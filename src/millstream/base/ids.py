"""Where random ids come from: the only place, so that a simulation can have the same ones again."""

from __future__ import annotations

import uuid
from random import Random

__all__ = ["new_id", "set_id_source"]

_source: Random | None = None


def new_id() -> str:
    """Return 32 hexadecimal digits that nobody has had before.

    >>> len(new_id()), new_id() == new_id()
    (32, False)
    """
    if _source is None:
        return uuid.uuid4().hex
    return f"{_source.getrandbits(128):032x}"


def set_id_source(source: Random | None) -> Random | None:
    """Have this process's ids made by a seeded generator, None for true randomness; return the one before."""
    global _source
    before, _source = _source, source
    return before
