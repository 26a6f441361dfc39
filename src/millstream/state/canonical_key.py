"""What stands in dicts, timers and files for a key that a dict would not take, or would take for another one."""

from __future__ import annotations

from copy import deepcopy
from datetime import date, datetime, time, timedelta
from decimal import Decimal
from types import NoneType
from typing import Any
from uuid import UUID

__all__ = ["CanonicalKey", "original_key"]

_CONSTANT = frozenset(
    {bool, bytes, complex, date, datetime, Decimal, float, int, NoneType, str, time, timedelta, UUID}
)


class CanonicalKey(tuple[Any, ...]):
    """A key by its exact bytes; compares and hashes as a tuple does, at C's speed.

    Args:
        identity: The key's bytes, from `encode_exactly`.
        original: The key. Of one that can be changed a copy is kept, and given out.
    """

    _original: Any

    def __new__(cls, identity: bytes, original: Any) -> CanonicalKey:
        """Make one; the class itself, as the first element, keeps it apart from every tuple of a user."""
        self = tuple.__new__(cls, (CanonicalKey, identity))
        self._original = original if type(original) in _CONSTANT else deepcopy(original)
        return self

    @property
    def identity(self) -> bytes:
        """The key's exact bytes."""
        identity: bytes = self[1]
        return identity

    @property
    def original(self) -> Any:
        """The key as the user gave it, an object of its own."""
        original = self._original
        return original if type(original) in _CONSTANT else deepcopy(original)

    def __repr__(self) -> str:
        return repr(self._original)

    def __reduce__(self) -> tuple[Any, ...]:
        return CanonicalKey, (self[1], self._original)


def original_key(key: Any) -> Any:
    """Return a key as users know it."""
    return key.original if type(key) is CanonicalKey else key
