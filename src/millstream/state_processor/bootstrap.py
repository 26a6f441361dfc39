"""What a savepoint that is written by hand holds of an operator: state by key, lists, broadcast maps."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from millstream.base.clock import SystemClock
from millstream.base.errors import ConfigurationError, shorten
from millstream.common.state import (
    AppendingState,
    ListState,
    ListStateDescriptor,
    MapState,
    MapStateDescriptor,
    StateDescriptor,
    ValueState,
)
from millstream.operators.base import EpochTime
from millstream.runtime.checkpoint.state_file import ChunkKind, StateFileWriter
from millstream.state.heap import HeapKeyedStateBackend
from millstream.state.keys import canonical_key
from millstream.state.operator_state import OperatorStateBackend, OperatorStateMode
from millstream.state.stores import KeyedStore, TimerStore

__all__ = ["Bootstrap", "BroadcastBootstrap", "Column", "KeyedBootstrap", "ListBootstrap"]

Column = str | int | Callable[[Any], Any]
"""What is taken of a row: a column by name or place, or what a function makes of the row."""


class Bootstrap(ABC):
    """Part of the state of one operator, to be written into a savepoint."""

    is_keyed = False
    is_broadcast = False

    @abstractmethod
    def add_to(
        self, writer: StateFileWriter, operator_id: str, *, operator: str, max_parallelism: int
    ) -> dict[str, str]:
        """Add the state to a file; return the kinds of the states by name, as text.

        Raises:
            ConfigurationError: If a row has no such column, a key no canonical form, a state another name.
        """


@dataclass(frozen=True)
class KeyedBootstrap(Bootstrap):
    """State by key, made of rows.

    What a row adds, by the kind of the descriptor::

        ValueStateDescriptor                  its value; of several rows with a key the last one's
        ListStateDescriptor                   an element, or all of a list
        MapStateDescriptor                    an entry, a pair of key and value, or all of a dict
        Reducing-, AggregatingStateDescriptor an element, folded by the descriptor's function

    None adds nothing.

    Attributes:
        rows: An iterable of dicts, Rows, tuples or whatever objects, a pandas frame, or a Spark DataFrame; rows of
            frames are dicts.
        key: What a row's key is, of the same type as the job's key selector gives.
        states: State name -> (descriptor, what a row adds).
        event_timers: When event-time timers of the row's key are due, epoch milliseconds: one or several, or None.
        processing_timers: The same by the clock.

    Example:
        >>> from millstream.common.state import ListStateDescriptor, ValueStateDescriptor
        >>> from millstream.state_processor import KeyedBootstrap, SavepointWriter
        >>> rows = [{"id": 1, "name": "Ann", "tag": "a"}, {"id": 1, "name": "Anna", "tag": "b"}]
        >>> states = {
        ...     "name": (ValueStateDescriptor("name"), "name"),  # the last row's: Anna
        ...     "tags": (ListStateDescriptor("tags"), lambda row: row["tag"]),  # both
        ... }
        >>> writer = SavepointWriter.new(128).with_operator("people", KeyedBootstrap(rows, "id", states))
    """

    rows: Any
    key: Column
    states: Mapping[str, tuple[StateDescriptor, Column]]
    event_timers: Column | None = None
    processing_timers: Column | None = None
    is_keyed = True

    def __post_init__(self) -> None:
        for name, (descriptor, _) in self.states.items():
            _check_name(name, descriptor)

    def add_to(
        self, writer: StateFileWriter, operator_id: str, *, operator: str, max_parallelism: int
    ) -> dict[str, str]:
        """Add the state of all keys."""
        backend = HeapKeyedStateBackend(
            operator=operator, time=EpochTime(SystemClock().now_ms()), max_parallelism=max_parallelism
        )
        states = [(backend.get_state(descriptor), column) for descriptor, column in self.states.values()]
        timers = [
            (queue, column)
            for queue, column in (
                (backend.event_timers, self.event_timers),
                (backend.processing_timers, self.processing_timers),
            )
            if column is not None
        ]
        for row in _iterate(self.rows):
            key = canonical_key(_take(row, self.key))
            backend.set_current_key(key)
            for state, column in states:
                _add(state, _take(row, column))
            for queue, column in timers:
                for timestamp_ms in _several(_take(row, column)):
                    queue.register(int(timestamp_ms), key)
        keyed = KeyedStore(backend)
        writer.add_all(operator_id, keyed.snapshot())
        writer.add_all(operator_id, TimerStore(backend).snapshot())
        return dict(keyed.describe())


@dataclass(frozen=True)
class ListBootstrap(Bootstrap):
    """Lists of an operator, such as a CheckpointedFunction keeps.

    Attributes:
        states: State name -> (descriptor, elements).
        union: Whether every subtask gets all elements, `get_union_list_state`; otherwise they are dealt out.

    Example:
        >>> from millstream.common.state import ListStateDescriptor
        >>> from millstream.state_processor import ListBootstrap, SavepointWriter
        >>> buffered = ListBootstrap({"buffered": (ListStateDescriptor("buffered"), ["a", "b", "c"])})
        >>> writer = SavepointWriter.new(128).with_operator("buffer", buffered, used_by="map")
    """

    states: Mapping[str, tuple[ListStateDescriptor, Iterable[Any]]]
    union: bool = False

    def __post_init__(self) -> None:
        for name, (descriptor, _) in self.states.items():
            _check_name(name, descriptor)

    def fill(self, backend: OperatorStateBackend) -> None:
        """Put the lists into a backend."""
        get = backend.get_union_list_state if self.union else backend.get_list_state
        for descriptor, elements in self.states.values():
            get(descriptor).add_all(list(elements))

    def add_to(
        self, writer: StateFileWriter, operator_id: str, *, operator: str, max_parallelism: int
    ) -> dict[str, str]:
        """Add the lists."""
        return OperatorStates((self,)).add_to(
            writer, operator_id, operator=operator, max_parallelism=max_parallelism
        )


@dataclass(frozen=True)
class BroadcastBootstrap(Bootstrap):
    """Broadcast maps of an operator: every subtask gets all of them.

    Attributes:
        states: State name -> (descriptor, entries).

    Example:
        >>> from millstream.common.state import MapStateDescriptor
        >>> from millstream.state_processor import BroadcastBootstrap, SavepointWriter
        >>> rules = BroadcastBootstrap({"limits": (MapStateDescriptor("limits"), {"low": 1, "high": 9})})
        >>> writer = SavepointWriter.new(128).with_operator("rules", rules)
    """

    states: Mapping[str, tuple[MapStateDescriptor, Mapping[Any, Any]]]
    is_broadcast = True

    def __post_init__(self) -> None:
        for name, (descriptor, _) in self.states.items():
            _check_name(name, descriptor)

    def fill(self, backend: OperatorStateBackend) -> None:
        """Put the maps into a backend."""
        for descriptor, entries in self.states.values():
            backend.get_broadcast_state(descriptor).put_all(dict(entries))

    def add_to(
        self, writer: StateFileWriter, operator_id: str, *, operator: str, max_parallelism: int
    ) -> dict[str, str]:
        """Add the maps."""
        return OperatorStates((self,)).add_to(
            writer, operator_id, operator=operator, max_parallelism=max_parallelism
        )


@dataclass(frozen=True)
class OperatorStates(Bootstrap):
    """Lists and broadcast maps of one operator together: they are one part of a file.

    Attributes:
        parts: Both kinds.
    """

    parts: tuple[ListBootstrap | BroadcastBootstrap, ...] = field(default=())

    def add_to(
        self, writer: StateFileWriter, operator_id: str, *, operator: str, max_parallelism: int
    ) -> dict[str, str]:
        """Add all of them."""
        backend = OperatorStateBackend(operator)
        for part in self.parts:
            part.fill(backend)
        snapshot = backend.snapshot()
        writer.add(operator_id, ChunkKind.OPERATOR, snapshot)
        return {name: _describe(mode) for name, mode in snapshot.modes.items()}


def _describe(mode: OperatorStateMode) -> str:
    return f"{mode.value} state"


def _check_name(name: str, descriptor: StateDescriptor) -> None:
    if not isinstance(descriptor, StateDescriptor):
        raise ConfigurationError(
            f'state "{name}" was given {shorten(descriptor)}',
            hint="Give each state a pair: its descriptor, and what goes into it.",
        )
    if descriptor.name != name:
        raise ConfigurationError(
            f'state "{name}" has a descriptor of the name "{descriptor.name}"',
            detail="The job finds its state by the descriptor's name.",
        )


def _iterate(rows: Any) -> Iterator[Any]:
    if hasattr(rows, "toLocalIterator"):  # a Spark DataFrame
        return (row.asDict(recursive=True) for row in rows.toLocalIterator())
    if hasattr(rows, "itertuples"):  # a pandas frame
        names = list(rows.columns)
        return (
            dict(zip(names, map(_plain, values), strict=True))
            for values in rows.itertuples(index=False, name=None)
        )
    return iter(rows)


def _plain(value: Any) -> Any:
    """Return a cell of a pandas frame as Python has it: keys have to be the same as the job's."""
    if type(value).__module__.startswith("pandas"):
        if type(value).__name__ in ("NaTType", "NAType"):
            return None
        return value.to_pydatetime() if hasattr(value, "to_pydatetime") else value
    return value.item() if type(value).__module__ == "numpy" and hasattr(value, "item") else value


def _take(row: Any, column: Column) -> Any:
    if callable(column):
        return column(row)
    try:
        return row[column]
    except (KeyError, IndexError, AttributeError, TypeError, ValueError):
        pass
    if isinstance(column, str) and hasattr(row, column):
        return getattr(row, column)
    raise ConfigurationError(
        f"a row has no column {column!r}: {shorten(row)}",
        hint="Give a column it has, or a function of the row.",
    )


def _several(timestamps: Any) -> Iterable[Any]:
    if timestamps is None:
        return ()
    return timestamps if isinstance(timestamps, Iterable) else (timestamps,)


def _add(state: Any, value: Any) -> None:
    if value is None:
        return
    if isinstance(state, ValueState):
        state.update(value)
    elif isinstance(state, MapState):
        state.put_all(value if isinstance(value, dict) else dict([value]))
    elif isinstance(state, ListState):
        state.add_all(value if isinstance(value, list) else [value])
    else:
        assert isinstance(state, AppendingState)
        state.add(value)
