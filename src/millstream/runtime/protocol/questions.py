"""What a slot is asked of its keyed state, for queries of a running job."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

__all__ = ["AskSlot", "SlotQuestion"]


@dataclass(frozen=True, slots=True)
class SlotQuestion:
    """What a slot is asked.

    Attributes:
        node_id: The operator.
        state: The state's name.
        key: The key.
        namespace: The window or the like.
    """

    node_id: int
    state: str
    key: Any
    namespace: Any


AskSlot = Callable[[int, SlotQuestion], bytes]
"""Asks a slot, by its index; gives the pickled value."""
