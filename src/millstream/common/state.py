"""Kinds of state and their descriptors (PyFlink's `pyflink.datastream.state`).

Keyed state is scoped to the key of the record or timer that is being processed; operator state belongs to a
subtask; broadcast state is the same in every subtask. The time to live of state is in
`millstream.common.state_ttl`.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator
from typing import TYPE_CHECKING, Any, Generic, TypeVar

from millstream.base.errors import ConfigurationError, TypeMismatchError, shorten
from millstream.common.functions import AggregateFunction, ReduceFunction
from millstream.common.state_ttl import StateTtlConfig
from millstream.types.typeinfo import Types

if TYPE_CHECKING:
    from millstream.types.typeinfo import TypeInformation

__all__ = [
    "AggregatingState",
    "AggregatingStateDescriptor",
    "AppendingState",
    "BroadcastState",
    "ListState",
    "ListStateDescriptor",
    "MapState",
    "MapStateDescriptor",
    "MergingState",
    "OperatorStateStore",
    "ReadOnlyBroadcastState",
    "ReducingState",
    "ReducingStateDescriptor",
    "State",
    "StateDescriptor",
    "StateTtlConfig",
    "ValueState",
    "ValueStateDescriptor",
]

T = TypeVar("T")
K = TypeVar("K")
V = TypeVar("V")
IN = TypeVar("IN")
OUT = TypeVar("OUT")


class State(ABC):
    """State of one key; scoped to the key of the record or timer that is being processed."""

    @abstractmethod
    def clear(self) -> None:
        """Remove all that is there under the current key."""


class ValueState(State, Generic[T]):
    """One value for each key."""

    @abstractmethod
    def value(self) -> T | None:
        """Return the current key's value, None if there is none."""

    @abstractmethod
    def update(self, value: T | None) -> None:
        """Set the current key's value; None clears it."""


class AppendingState(State, Generic[IN, OUT]):
    """State that elements are added to: kept one by one, or folded into one value."""

    @abstractmethod
    def get(self) -> OUT | None:
        """Return the contents under the current key; None if there is none (an empty list for lists)."""

    @abstractmethod
    def add(self, value: IN) -> None:
        """Add an element under the current key."""


class MergingState(AppendingState[IN, OUT]):
    """Appending state of which two can be combined into one, as when sessions merge."""


class ReducingState(MergingState[T, T]):
    """Elements folded into one of the same type by a `ReduceFunction`."""


class AggregatingState(MergingState[IN, OUT]):
    """Elements folded into an accumulator by an `AggregateFunction`; `get` returns the function's result."""


class ListState(MergingState[T, Iterable[T]]):
    """A list for each key; as operator state, a list for each subtask."""

    @abstractmethod
    def get(self) -> Iterable[T]:
        """Return the elements in order; a copy, so the state may change while it is iterated."""

    @abstractmethod
    def update(self, values: list[T]) -> None:
        """Replace all elements; an empty list clears the state."""

    @abstractmethod
    def add_all(self, values: list[T]) -> None:
        """Add elements at the end."""

    def __iter__(self) -> Iterator[T]:
        return iter(self.get())


class MapState(State, Generic[K, V]):
    """A mapping for each key, with the protocol of a dict.

    `items`, `keys` and `values` show the mapping as it was when they were called, so it may be changed while
    one iterates. The order is the backend's: insertion in memory, sorted by the keys' canonical bytes on disk.
    """

    @abstractmethod
    def get(self, key: K) -> V | None:
        """Return the value of `key`, None if there is none."""

    @abstractmethod
    def put(self, key: K, value: V) -> None:
        """Set the value of `key`."""

    @abstractmethod
    def put_all(self, dict_value: dict[K, V]) -> None:
        """Set the values of all keys of a dict."""

    @abstractmethod
    def remove(self, key: K) -> None:
        """Remove `key`; nothing happens if it is not there."""

    @abstractmethod
    def contains(self, key: K) -> bool:
        """Return whether `key` is there."""

    @abstractmethod
    def items(self) -> Iterable[tuple[K, V]]:
        """Return keys with their values; on disk they are read as one iterates."""

    @abstractmethod
    def keys(self) -> Iterable[K]:
        """Return the keys."""

    @abstractmethod
    def values(self) -> Iterable[V]:
        """Return the values."""

    @abstractmethod
    def is_empty(self) -> bool:
        """Return whether there is no key."""

    def __getitem__(self, key: K) -> V | None:
        return self.get(key)

    def __setitem__(self, key: K, value: V) -> None:
        self.put(key, value)

    def __delitem__(self, key: K) -> None:
        self.remove(key)

    def __contains__(self, key: K) -> bool:
        return self.contains(key)

    def __iter__(self) -> Iterator[K]:
        return iter(self.keys())


class ReadOnlyBroadcastState(State, Generic[K, V]):
    """Broadcast state as the side with the records sees it; its values must not be changed."""

    @abstractmethod
    def get(self, key: K) -> V | None:
        """Return the value of `key`, None if there is none."""

    @abstractmethod
    def contains(self, key: K) -> bool:
        """Return whether `key` is there."""

    @abstractmethod
    def items(self) -> Iterable[tuple[K, V]]:
        """Return keys with their values."""

    @abstractmethod
    def keys(self) -> Iterable[K]:
        """Return the keys."""

    @abstractmethod
    def values(self) -> Iterable[V]:
        """Return the values."""

    @abstractmethod
    def is_empty(self) -> bool:
        """Return whether there is no key."""

    def __getitem__(self, key: K) -> V | None:
        return self.get(key)

    def __contains__(self, key: K) -> bool:
        return self.contains(key)

    def __iter__(self) -> Iterator[K]:
        return iter(self.keys())


class BroadcastState(ReadOnlyBroadcastState[K, V]):
    """A mapping that every subtask holds whole, fed by a broadcast stream.

    Every subtask has to put the same into it, whatever else it sees: after a restore a subtask gets what any
    one of them had.
    """

    @abstractmethod
    def put(self, key: K, value: V) -> None:
        """Set the value of `key`."""

    @abstractmethod
    def put_all(self, dict_value: dict[K, V]) -> None:
        """Set the values of all keys of a dict."""

    @abstractmethod
    def remove(self, key: K) -> None:
        """Remove `key`; nothing happens if it is not there."""

    def __setitem__(self, key: K, value: V) -> None:
        self.put(key, value)

    def __delitem__(self, key: K) -> None:
        self.remove(key)


class OperatorStateStore(ABC):
    """Hands out operator state: of a subtask, not of a key."""

    @abstractmethod
    def get_broadcast_state(self, state_descriptor: MapStateDescriptor) -> BroadcastState[Any, Any]:
        """Return the broadcast state of that name; after a restore every subtask has all of it."""

    @abstractmethod
    def get_list_state(self, state_descriptor: ListStateDescriptor) -> ListState[Any]:
        """Return the list state of that name; its elements are spread over the subtasks after rescaling."""

    @abstractmethod
    def get_union_list_state(self, state_descriptor: ListStateDescriptor) -> ListState[Any]:
        """Return the list state of that name; after a restore every subtask has the elements of all."""


class StateDescriptor(ABC):
    """Names a state and gives the type of its values.

    Descriptors with the same name within one operator are one state. One descriptor may serve any number of
    operators.

    Raises:
        ConfigurationError: If `name` is empty.
    """

    _ttl_config: StateTtlConfig | None = None

    def __init__(self, name: str, type_info: TypeInformation | None = None) -> None:
        if not name:
            raise ConfigurationError("the name of a state descriptor is empty")
        self.name = name
        self.type_info = type_info

    def get_name(self) -> str:
        """Return the state's name."""
        return self.name

    def enable_time_to_live(self, ttl_config: StateTtlConfig) -> None:
        """Have the state expire.

        Raises:
            TypeMismatchError: If it is not a `StateTtlConfig`.
        """
        if not isinstance(ttl_config, StateTtlConfig):
            raise TypeMismatchError(
                f'state "{self.name}" was given {shorten(ttl_config)} as its time to live',
                hint="Build one with StateTtlConfig.new_builder(Time.seconds(...)).build().",
            )
        self._ttl_config = ttl_config

    @property
    def ttl_config(self) -> StateTtlConfig | None:
        """The time to live if there is one and it is not disabled; None otherwise."""
        config = self._ttl_config
        return config if config is not None and config.is_enabled() else None

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.name!r})"


class ValueStateDescriptor(StateDescriptor):
    """Describes a `ValueState`."""

    def __init__(self, name: str, value_type_info: TypeInformation | None = None) -> None:
        super().__init__(name, value_type_info)


class ListStateDescriptor(StateDescriptor):
    """Describes a `ListState`."""

    def __init__(self, name: str, elem_type_info: TypeInformation | None = None) -> None:
        super().__init__(name, None if elem_type_info is None else Types.LIST(elem_type_info))


class MapStateDescriptor(StateDescriptor):
    """Describes a `MapState` or a `BroadcastState`."""

    def __init__(
        self,
        name: str,
        key_type_info: TypeInformation | None = None,
        value_type_info: TypeInformation | None = None,
    ) -> None:
        if key_type_info is None or value_type_info is None:
            super().__init__(name)
        else:
            super().__init__(name, Types.MAP(key_type_info, value_type_info))


class ReducingStateDescriptor(StateDescriptor):
    """Describes a `ReducingState`.

    Args:
        name: The state's name.
        reduce_function: A ReduceFunction, or a callable of what there is and the next element.
        type_info: The type of the elements.

    Raises:
        TypeMismatchError: If it is neither.
    """

    def __init__(
        self,
        name: str,
        reduce_function: ReduceFunction | Callable[[Any, Any], Any],
        type_info: TypeInformation | None = None,
    ) -> None:
        super().__init__(name, type_info)
        if isinstance(reduce_function, ReduceFunction):
            self._reduce_function = reduce_function
        elif callable(reduce_function):
            self._reduce_function = _CallableReduce(reduce_function)
        else:
            raise TypeMismatchError(
                f'state "{name}" was given {shorten(reduce_function)}, which is not a ReduceFunction',
                hint="Give it a ReduceFunction or a callable of two arguments.",
            )

    def get_reduce_function(self) -> ReduceFunction:
        """Return what folds the elements."""
        return self._reduce_function


class _CallableReduce(ReduceFunction):
    def __init__(self, function: Callable[[Any, Any], Any]) -> None:
        self.function = function

    def reduce(self, value1: Any, value2: Any) -> Any:
        return self.function(value1, value2)


class AggregatingStateDescriptor(StateDescriptor):
    """Describes an `AggregatingState`.

    Args:
        name: The state's name.
        agg_function: Folds elements into an accumulator.
        state_type_info: The type of the accumulator.

    Raises:
        TypeMismatchError: If `agg_function` is not an AggregateFunction.
    """

    def __init__(
        self, name: str, agg_function: AggregateFunction, state_type_info: TypeInformation | None = None
    ) -> None:
        super().__init__(name, state_type_info)
        if not isinstance(agg_function, AggregateFunction):
            raise TypeMismatchError(
                f'state "{name}" was given {shorten(agg_function)}, which is not an AggregateFunction'
            )
        self._agg_function = agg_function

    def get_agg_function(self) -> AggregateFunction:
        """Return what folds the elements."""
        return self._agg_function
