"""Queries of the keyed state of a running job: by operator, state and key, as of the last epoch that has ended.

::

    asker ─► JobControl.queries ─► job master, between two epochs ─► the slot that owns the key ─► asker's future

Nobody waits for an asker: a question is answered with a value or an error, and the job goes on. What is asked for
is not in the state's own hands afterwards: the answer is a copy.
"""

from __future__ import annotations

import ast
import pickle
from collections import deque
from collections.abc import Callable, Mapping
from concurrent.futures import Future, InvalidStateError
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any

from millstream.common.errors import (
    JobExecutionError,
    NotSerializableError,
    StateQueryError,
    shorten,
)
from millstream.common.pickling import dump_lasting
from millstream.common.windows import TimeWindow
from millstream.graph.job_graph import JobGraph
from millstream.graph.stream_graph import StreamNode
from millstream.state.heap import HeapKeyedStateBackend
from millstream.state.key_groups import key_group, subtask_of
from millstream.state.keyed import KeyedStateBackend
from millstream.state.keys import canonical_key
from millstream.state.kinds import StateKind, StateSchema
from millstream.state.ttl import drop_expired

__all__ = [
    "AskSlot",
    "SlotQuestion",
    "StateQuery",
    "answer_queries",
    "answer_request",
    "fail_queries",
    "read_state",
]


@dataclass(frozen=True, slots=True)
class StateQuery:
    """What somebody wants to know.

    Attributes:
        uid: The operator's uid, or its id; its name if it has neither.
        state: The state's name.
        key: The key.
        namespace: The window or the like; None for the key as a whole.
        done: Gets the pickled value, or the error for the asker.
    """

    uid: str
    state: str
    key: Any
    namespace: Any = None
    done: Future[bytes] = field(default_factory=Future)


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


def answer_queries(queries: deque[StateQuery], job_graph: JobGraph, ask_slot: AskSlot) -> None:
    """Answer all that is asked; called by the job master's thread between two epochs. Raises nothing."""
    while queries:
        query = queries.popleft()
        try:
            node = _find_operator(query, job_graph)
            _check_namespace(query)
            group = key_group(query.key, node.max_parallelism)
            slot = subtask_of(group, node.max_parallelism, node.parallelism)
            question = SlotQuestion(node.id, query.state, query.key, query.namespace)
            _settle(query, ask_slot(slot, question), None)
        except Exception as error:  # noqa: BLE001 - whatever it is, the asker gets it, and the job goes on
            _settle(query, None, error)


def fail_queries(queries: deque[StateQuery], reason: str) -> None:
    """Tell all askers that there will be no answer."""
    while queries:
        _settle(queries.popleft(), None, JobExecutionError(f"state was asked for, but {reason}"))


def answer_request(
    ask: Callable[[str, str, Any, Any], Future[bytes]], request: Mapping[str, Any]
) -> dict[str, str]:
    """Answer a question that came as JSON from another process; waits for the job.

    Args:
        ask: Asks the job: uid, state, key, namespace.
        request: `uid`, `state`; `key` as Python writes it, or any other text for that text; `window`, start and end
            in milliseconds, if it is asked for the state of a window.

    Returns:
        `value` as Python writes it, and its `type`.

    Raises:
        MillstreamError: If there is no answer.
    """
    window = request.get("window")
    namespace = None if window is None else TimeWindow(*window)
    future = ask(str(request["uid"]), str(request["state"]), _parse_key(str(request["key"])), namespace)
    value = pickle.loads(future.result())
    return {"value": repr(value), "type": type(value).__name__}


def _parse_key(text: str) -> Any:
    try:
        return ast.literal_eval(text)
    except (ValueError, SyntaxError, MemoryError, RecursionError):
        return text


def _settle(query: StateQuery, value: bytes | None, error: Exception | None) -> None:
    with suppress(InvalidStateError):  # the asker has given up
        if error is not None:
            query.done.set_exception(error)
        elif value is not None:
            query.done.set_result(value)


def _check_namespace(query: StateQuery) -> None:
    try:
        hash(query.namespace)
    except TypeError as error:
        raise StateQueryError(
            f"namespace {shorten(query.namespace)} is not hashable, so nothing is kept by it"
        ) from error


def _find_operator(query: StateQuery, job_graph: JobGraph) -> StreamNode:
    nodes = [node for vertex in job_graph.vertices for node in vertex.nodes]
    for matches in (
        [node for node in nodes if node.uid == query.uid],
        [node for node in nodes if node.operator_id == query.uid],
        [node for node in nodes if node.name == query.uid],
    ):
        if len(matches) == 1:
            break
    else:
        keyed = [f'"{node.uid or node.name}"' for node in nodes if node.spec.is_keyed]
        raise StateQueryError(
            f'the job has no operator with uid "{query.uid}"',
            detail=f"Operators with keyed state: {', '.join(keyed) or 'none'}.",
        )
    if not matches[0].spec.is_keyed:
        raise StateQueryError(f'operator "{query.uid}" has no keyed state: its input is not keyed')
    return matches[0]


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
