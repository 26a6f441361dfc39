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
from millstream.runtime.control.commands import (
    KeyPage,
    KeyValue,
    ListKeys,
    ListStates,
    OperatorStates,
    QueryState,
    StateAnswer,
    StateName,
    StateNames,
)
from millstream.runtime.protocol.questions import AskSlot, KeysQuestion, SlotQuestion, StatesQuestion
from millstream.runtime.slot.wire import SlotSilentError
from millstream.state.key_groups import key_group, subtask_of

__all__ = [
    "StateListing",
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


@dataclass(frozen=True, slots=True)
class StateListing:
    """What somebody wants listed.

    Attributes:
        command: States, or keys of one.
        done: Gets the outcome, or the error for the asker.
    """

    command: ListStates | ListKeys
    done: Future[Any] = field(default_factory=Future)


Question = StateQuery | StateListing

MOST_LISTED = 10_000
"""So many keys of a subtask can be listed: the job waits while those before a page are counted."""
_LARGEST_PAGE = 500


def answer_queries(queries: deque[Question], job_graph: JobGraph, ask_slot: AskSlot) -> None:
    """Answer all that is asked; called by the job master's thread between two epochs.

    Raises:
        SlotLostError: If a slot is gone; what it was asked waits for the next attempt.
    """
    while queries:
        query = queries.popleft()
        try:
            _settle(query, _answer(query, job_graph, ask_slot), None)
        except SlotLostError as error:
            if not isinstance(error, SlotSilentError):  # that one may be busy
                queries.appendleft(query)
                raise
            _settle(query, None, error)
        except Exception as error:  # noqa: BLE001 - whatever it is, the asker gets it, and the job goes on
            _settle(query, None, error)


def _answer(query: Question, job_graph: JobGraph, ask_slot: AskSlot) -> Any:
    if isinstance(query, StateQuery):
        node = _find_operator(query.uid, job_graph)
        _check_namespace(query)
        group = key_group(query.key, node.max_parallelism)
        slot = subtask_of(group, node.max_parallelism, node.parallelism)
        return ask_slot(slot, SlotQuestion(node.id, query.state, query.key, query.namespace))
    if isinstance(query.command, ListStates):
        return _list_states(job_graph, ask_slot)
    return _list_keys(query.command, job_graph, ask_slot)


def _list_states(job_graph: JobGraph, ask_slot: AskSlot) -> StateNames:
    nodes = [node for vertex in job_graph.vertices for node in vertex.nodes if node.spec.is_keyed]
    found = []
    for node in nodes:
        kinds: dict[str, str] = {}
        for slot in range(node.parallelism):
            kinds |= dict(pickle.loads(ask_slot(slot, StatesQuestion(node.id))))
        states = tuple(StateName(name, kind) for name, kind in sorted(kinds.items()))
        found.append(OperatorStates(node.uid or node.operator_id, node.name, node.parallelism, states))
    return StateNames(tuple(found))


def _list_keys(command: ListKeys, job_graph: JobGraph, ask_slot: AskSlot) -> KeyPage:
    node = _find_operator(command.uid, job_graph)
    if not 0 <= command.subtask < node.parallelism:
        raise StateQueryError(
            f'operator "{command.uid}" has no subtask {command.subtask}',
            detail=f"It has {node.parallelism}, counted from 0.",
        )
    if command.offset < 0 or not 0 < command.limit <= _LARGEST_PAGE:
        raise StateQueryError(
            f"keys were asked for from {command.offset} on, {command.limit} of them",
            detail=f"A page has 1 to {_LARGEST_PAGE} keys, from 0 on.",
        )
    limit = min(command.limit, MOST_LISTED - command.offset)
    if limit <= 0:
        return KeyPage((), more=False, limited=True)
    question = KeysQuestion(node.id, command.state, command.offset, limit)
    found, more = pickle.loads(ask_slot(command.subtask, question))
    is_last = command.offset + limit >= MOST_LISTED
    keys = tuple(KeyValue(*each) for each in found)
    return KeyPage(keys, more=more and not is_last, limited=more and is_last)


def fail_queries(queries: deque[Question], reason: str) -> None:
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


def _settle(query: Question, value: Any, error: Exception | None) -> None:
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


def _find_operator(uid: str, job_graph: JobGraph) -> StreamNode:
    nodes = [node for vertex in job_graph.vertices for node in vertex.nodes]
    for matches in (
        [node for node in nodes if node.uid == uid],
        [node for node in nodes if node.operator_id == uid],
        [node for node in nodes if node.name == uid],
    ):
        if len(matches) == 1:
            break
    else:
        keyed = [f'"{node.uid or node.name}"' for node in nodes if node.spec.is_keyed]
        raise StateQueryError(
            f'the job has no operator with uid "{uid}"',
            detail=f"Operators with keyed state: {', '.join(keyed) or 'none'}.",
        )
    if not matches[0].spec.is_keyed:
        raise StateQueryError(f'operator "{uid}" has no keyed state: its input is not keyed')
    return matches[0]
