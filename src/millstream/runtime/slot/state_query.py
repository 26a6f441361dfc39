"""Reads one key of a slot's keyed state, between two epochs, for a query of the running job."""

from __future__ import annotations

from typing import Any

from millstream.base.errors import NotSerializableError, StateQueryError, shorten
from millstream.base.pickling import dump_lasting
from millstream.runtime.protocol.questions import SlotQuestion
from millstream.state.heap import HeapKeyedStateBackend
from millstream.state.keyed import KeyedStateBackend
from millstream.state.keys import canonical_key
from millstream.state.kinds import StateKind, StateSchema
from millstream.state.ttl import drop_expired

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
    schema = backend._schemas.get(question.state)
    if schema is None:
        known = ", ".join(f'"{name}"' for name in backend._schemas) or "none yet"
        raise StateQueryError(
            f'operator "{backend.operator}" has no keyed state "{question.state}"',
            detail=f"It has: {known}. A state is known once a function has asked for it.",
        )
    return _pickle(_entry(backend, schema, question))


def _entry(backend: KeyedStateBackend, schema: StateSchema, question: SlotQuestion) -> Any:
    """Return what a key has, as a program sees it; None if it has nothing, or what it has is expired."""
    if isinstance(backend, HeapKeyedStateBackend):
        # Not by a state object: that would make a table for a namespace that is not there.
        entry = (
            backend._tables.get(question.state, {})
            .get(question.namespace, {})
            .get(canonical_key(question.key))
        )
    else:
        entry = _entry_by_state(backend, schema, question)
    life = backend._lives.get(question.state)
    if entry is not None and life is not None:
        entry = drop_expired(schema.kind, entry, life)
    if entry is None or not schema.timed:
        return entry
    if schema.kind is StateKind.LIST:
        return [value for _, value in entry]
    if schema.kind is StateKind.MAP:
        return {key: value for key, (_, value) in entry.items()}
    return entry[1]


def _entry_by_state(backend: KeyedStateBackend, schema: StateSchema, question: SlotQuestion) -> Any:
    before = backend.current_key  # a function may be in the middle of a record
    backend.set_current_key(question.key)
    try:
        if schema.kind is StateKind.LIST:
            return list(backend._list_state(question.state, question.namespace).get()) or None
        if schema.kind is StateKind.MAP:
            return dict(backend._map_state(question.state, question.namespace).items()) or None
        if schema.kind is StateKind.TABLE:
            return backend.table(question.state).get(backend.current_key)
        return backend._value_state(question.state, question.namespace).value()
    finally:
        backend.current_key = before


def _pickle(entry: Any) -> bytes:
    try:
        return dump_lasting(entry)
    except Exception as error:
        raise NotSerializableError(
            f"the value of a key cannot be pickled: {error}", detail=f"It is {shorten(entry)}."
        ) from error
