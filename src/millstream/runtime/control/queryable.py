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
from concurrent.futures import Future, InvalidStateError
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any

from millstream.base.errors import (
    JobExecutionError,
    SlotLostError,
    StateQueryError,
    shorten,
)
from millstream.common.windows import TimeWindow
from millstream.graph.job_graph import JobGraph
from millstream.graph.stream_graph import StreamNode
from millstream.runtime.control.commands import QueryState, StateAnswer
from millstream.runtime.protocol.questions import AskSlot, SlotQuestion
from millstream.runtime.slot.wire import SlotSilentError
from millstream.state.key_groups import key_group, subtask_of

__all__ = [
    "StateQuery",
    "answer_of",
    "answer_queries",
    "fail_queries",
    "query_of",
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


def answer_queries(queries: deque[StateQuery], job_graph: JobGraph, ask_slot: AskSlot) -> None:
    """Answer all that is asked; called by the job master's thread between two epochs.

    Raises:
        SlotLostError: If a slot is gone; what it was asked waits for the next attempt.
    """
    while queries:
        query = queries.popleft()
        try:
            node = _find_operator(query, job_graph)
            _check_namespace(query)
            group = key_group(query.key, node.max_parallelism)
            slot = subtask_of(group, node.max_parallelism, node.parallelism)
            question = SlotQuestion(node.id, query.state, query.key, query.namespace)
            _settle(query, ask_slot(slot, question), None)
        except SlotLostError as error:
            if not isinstance(error, SlotSilentError):  # that one may be busy
                queries.appendleft(query)
                raise
            _settle(query, None, error)
        except Exception as error:  # noqa: BLE001 - whatever it is, the asker gets it, and the job goes on
            _settle(query, None, error)


def fail_queries(queries: deque[StateQuery], reason: str) -> None:
    """Tell all askers that there will be no answer."""
    while queries:
        _settle(queries.popleft(), None, JobExecutionError(f"state was asked for, but {reason}"))


def query_of(command: QueryState) -> StateQuery:
    """Return the question of a command."""
    namespace = None if command.window is None else TimeWindow(*command.window)
    return StateQuery(command.uid, command.state, _parse_key(command.key), namespace)


def answer_of(pickled: bytes) -> StateAnswer:
    """Return a value as others are told of it."""
    value = pickle.loads(pickled)
    return StateAnswer(repr(value), type(value).__name__)


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
