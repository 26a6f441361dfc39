"""Reads one key of a slot's keyed state, between two epochs, for a query of the running job."""

from __future__ import annotations

from typing import Any

from millstream.base.errors import NotSerializableError, StateQueryError, shorten
from millstream.base.pickling import dump_lasting
from millstream.runtime.protocol.questions import SlotQuestion
from millstream.state.keyed import KeyedStateBackend

__all__ = ["read_state"]


def read_state(backend: KeyedStateBackend, question: SlotQuestion) -> bytes:
    """Return what a key has in a state, pickled; called by the slot's thread between two epochs.

    Nothing is changed: neither the state, nor the time of its last access, nor the keys that the next checkpoint
    writes. Reducing state gives the value so far, aggregating state the accumulator. A key that has nothing gives
    None, as `value()` does in a function.

    Raises:
        StateQueryError: If there is no such state.
        NotSerializableError: If the value cannot be pickled.
    """
    known = backend.states()
    if question.state not in known:
        listed = ", ".join(f'"{name}"' for name in known) or "none yet"
        raise StateQueryError(
            f'operator "{backend.operator}" has no keyed state "{question.state}"',
            detail=f"It has: {listed}. A state is known once a function has asked for it.",
        )
    return _pickle(backend.look_up(question.state, question.key, question.namespace))


def _pickle(entry: Any) -> bytes:
    try:
        return dump_lasting(entry)
    except Exception as error:
        raise NotSerializableError(
            f"the value of a key cannot be pickled: {error}", detail=f"It is {shorten(entry)}."
        ) from error
