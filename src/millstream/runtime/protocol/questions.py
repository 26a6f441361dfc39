"""What a slot is asked of its keyed state, for queries of a running job."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

__all__ = ["AnyQuestion", "AskSlot", "KeysQuestion", "SlotQuestion", "StatesQuestion"]


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


@dataclass(frozen=True, slots=True)
class StatesQuestion:
    """Which states an operator has in a slot: the answer is a list of (name, kind).

    Attributes:
        node_id: The operator.
    """

    node_id: int


@dataclass(frozen=True, slots=True)
class KeysQuestion:
    """Which keys a state has in a slot.

    The answer is a list of (key, namespace or None, value, class of the value), all as text, and whether others follow.

    Attributes:
        node_id: The operator.
        state: The state's name.
        offset: How many keys are left out.
        limit: How many are wanted at most.
    """

    node_id: int
    state: str
    offset: int
    limit: int


AnyQuestion = SlotQuestion | StatesQuestion | KeysQuestion

AskSlot = Callable[[int, AnyQuestion], bytes]
"""Asks a slot, by its index; gives the pickled answer."""
