"""Reads a slot's keyed state, between two epochs, for questions about the running job."""

from __future__ import annotations

import pickle
from itertools import islice
from typing import Any

from millstream.base.errors import NotSerializableError, StateQueryError, shorten
from millstream.base.pickling import dump_lasting
from millstream.runtime.protocol.questions import AnyQuestion, KeysQuestion, SlotQuestion, StatesQuestion
from millstream.state.canonical_key import original_key
from millstream.state.keyed import KeyedStateBackend

__all__ = ["answer_question", "read_state"]

_SHOWN = 500


def answer_question(backend: KeyedStateBackend, question: AnyQuestion) -> bytes:
    """Return the pickled answer to a question about an operator's keyed state.

    Raises:
        StateQueryError: If there is no such state.
        NotSerializableError: If the answer cannot be pickled.
    """
    if isinstance(question, StatesQuestion):
        return pickle.dumps([(name, schema.describe()) for name, schema in backend.schemas.items()])
    if isinstance(question, KeysQuestion):
        return pickle.dumps(_list_keys(backend, question))
    return read_state(backend, question)


def _list_keys(
    backend: KeyedStateBackend, question: KeysQuestion
) -> tuple[list[tuple[str, str | None, str, str]], bool]:
    """Return keys with what they have, as text, and whether others follow; what is expired is left out."""
    _check_known(backend, question.state)
    end = question.offset + question.limit
    places = list(islice(backend.keys(question.state), question.offset, end + 1))
    found = []
    for namespace, key in places[: question.limit]:
        value = backend.look_up(question.state, original_key(key), namespace)
        if value is not None:
            shown = None if namespace is None else shorten(namespace, _SHOWN)
            text = shorten(original_key(key), _SHOWN)
            found.append((text, shown, shorten(value, _SHOWN), type(value).__name__))
    return found, len(places) > question.limit


def read_state(backend: KeyedStateBackend, question: SlotQuestion) -> bytes:
    """Return what a key has in a state, pickled; called by the slot's thread between two epochs.

    Nothing is changed: neither the state, nor the time of its last access, nor the keys that the next checkpoint
    writes. Reducing state gives the value so far, aggregating state the accumulator. A key that has nothing gives
    None, as `value()` does in a function.

    Raises:
        StateQueryError: If there is no such state.
        NotSerializableError: If the value cannot be pickled.
    """
    _check_known(backend, question.state)
    return _pickle(backend.look_up(question.state, question.key, question.namespace))


def _check_known(backend: KeyedStateBackend, state: str) -> None:
    known = backend.states()
    if state not in known:
        listed = ", ".join(f'"{name}"' for name in known) or "none yet"
        raise StateQueryError(
            f'operator "{backend.operator}" has no keyed state "{state}"',
            detail=f"It has: {listed}. A state is known once a function has asked for it.",
        )


def _pickle(entry: Any) -> bytes:
    try:
        return dump_lasting(entry)
    except Exception as error:
        raise NotSerializableError(
            f"the value of a key cannot be pickled: {error}", detail=f"It is {shorten(entry)}."
        ) from error
