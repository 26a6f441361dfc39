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
    """State of one key; scoped to the key of the record or timer that is being processed.

    Example:
        >>> from millstream.datastream.functions import KeyedProcessFunction
        >>> from millstream.datastream.state import State, ValueStateDescriptor
        >>> from millstream.testing import OperatorHarness
        >>> count = ValueStateDescriptor("count")
        >>> class CountUntilReset(KeyedProcessFunction):
        ...     def open(self, runtime_context):
        ...         self.count = runtime_context.get_state(count)
        ...     def process_element(self, value, ctx):
        ...         if value[1] == "reset":
        ...             self.count.clear()
        ...         else:
        ...             self.count.update((self.count.value() or 0) + 1)
        >>> harness = OperatorHarness(lambda rows: rows.key_by(lambda row: row[0]).process(CountUntilReset()))
        >>> for row in ("ann", "click"), ("bob", "click"), ("ann", "reset"):
        ...     harness.push(row)
        >>> harness.state(count, key="ann").value(), harness.state(count, key="bob").value()
        (None, 1)
    """

    @abstractmethod
    def clear(self) -> None:
        """Remove all that is there under the current key."""


class ValueState(State, Generic[T]):
    """One value for each key.

    Example:
        >>> from millstream.datastream.functions import KeyedProcessFunction
        >>> from millstream.datastream.state import ValueStateDescriptor
        >>> from millstream.testing import OperatorHarness
        >>> class Change(KeyedProcessFunction):
        ...     def open(self, runtime_context):
        ...         self.last = runtime_context.get_state(ValueStateDescriptor("last"))
        ...     def process_element(self, value, ctx):
        ...         if self.last.value() is not None:
        ...             yield value[0], value[1] - self.last.value()
        ...         self.last.update(value[1])
        >>> harness = OperatorHarness(lambda prices: prices.key_by(lambda price: price[0]).process(Change()))
        >>> for price in ("tea", 3), ("cake", 5), ("tea", 4):
        ...     harness.push(price)
        >>> harness.take()
        [('tea', 1)]
    """

    @abstractmethod
    def value(self) -> T | None:
        """Return the current key's value, None if there is none."""

    @abstractmethod
    def update(self, value: T | None) -> None:
        """Set the current key's value; None clears it."""


class AppendingState(State, Generic[IN, OUT]):
    """State that elements are added to: kept one by one, or folded into one value.

    Example:
        >>> from millstream.datastream.functions import KeyedProcessFunction
        >>> from millstream.datastream.state import AppendingState, ListStateDescriptor
        >>> from millstream.testing import OperatorHarness
        >>> class Together(KeyedProcessFunction):
        ...     def open(self, runtime_context):
        ...         self.seen: AppendingState = runtime_context.get_list_state(ListStateDescriptor("seen"))
        ...     def process_element(self, value, ctx):
        ...         self.seen.add(value[1])
        ...         yield value[0], list(self.seen.get())
        >>> harness = OperatorHarness(lambda rows: rows.key_by(lambda row: row[0]).process(Together()))
        >>> harness.push(("ann", "tea")); harness.push(("ann", "cake"))
        >>> harness.take()
        [('ann', ['tea']), ('ann', ['tea', 'cake'])]
    """

    @abstractmethod
    def get(self) -> OUT | None:
        """Return the contents under the current key; None if there is none (an empty list for lists)."""

    @abstractmethod
    def add(self, value: IN) -> None:
        """Add an element under the current key."""


class MergingState(AppendingState[IN, OUT]):
    """Appending state of which two can be combined into one, as when sessions merge.

    Example:
        >>> from millstream.datastream.state import ListState, MergingState, ReducingState, ValueState
        >>> [issubclass(state, MergingState) for state in (ListState, ReducingState, ValueState)]
        [True, True, False]
    """


class ReducingState(MergingState[T, T]):
    """Elements folded into one of the same type by a `ReduceFunction`.

    Example:
        >>> from millstream.datastream.functions import KeyedProcessFunction
        >>> from millstream.datastream.state import ReducingStateDescriptor
        >>> from millstream.testing import OperatorHarness
        >>> class Highest(KeyedProcessFunction):
        ...     def open(self, runtime_context):
        ...         self.highest = runtime_context.get_reducing_state(ReducingStateDescriptor("highest", max))
        ...     def process_element(self, value, ctx):
        ...         self.highest.add(value[1])
        ...         yield value[0], self.highest.get()
        >>> harness = OperatorHarness(lambda bids: bids.key_by(lambda bid: bid[0]).process(Highest()))
        >>> harness.push(("vase", 50)); harness.push(("vase", 70)); harness.push(("vase", 60))
        >>> harness.take()
        [('vase', 50), ('vase', 70), ('vase', 70)]
    """


class AggregatingState(MergingState[IN, OUT]):
    """Elements folded into an accumulator by an `AggregateFunction`; `get` returns the function's result.

    Example:
        >>> from millstream.datastream.functions import AggregateFunction, KeyedProcessFunction
        >>> from millstream.datastream.state import AggregatingStateDescriptor
        >>> from millstream.testing import OperatorHarness
        >>> class Average(AggregateFunction):
        ...     def create_accumulator(self):
        ...         return 0, 0
        ...     def add(self, value, accumulator):
        ...         return accumulator[0] + value, accumulator[1] + 1
        ...     def get_result(self, accumulator):
        ...         return accumulator[0] / accumulator[1]
        ...     def merge(self, acc_a, acc_b):
        ...         return acc_a[0] + acc_b[0], acc_a[1] + acc_b[1]
        >>> class AverageSoFar(KeyedProcessFunction):
        ...     def open(self, runtime_context):
        ...         descriptor = AggregatingStateDescriptor("average", Average())
        ...         self.average = runtime_context.get_aggregating_state(descriptor)
        ...     def process_element(self, value, ctx):
        ...         self.average.add(value[1])
        ...         yield value[0], self.average.get()
        >>> harness = OperatorHarness(lambda rows: rows.key_by(lambda row: row[0]).process(AverageSoFar()))
        >>> harness.push(("door", 20)); harness.push(("door", 23))
        >>> harness.take()
        [('door', 20.0), ('door', 21.5)]
    """


class ListState(MergingState[T, Iterable[T]]):
    """A list for each key; as operator state, a list for each subtask.

    Example:
        >>> from millstream.datastream.functions import KeyedProcessFunction
        >>> from millstream.datastream.state import ListStateDescriptor
        >>> from millstream.testing import OperatorHarness
        >>> class LastTwo(KeyedProcessFunction):
        ...     def open(self, runtime_context):
        ...         self.last = runtime_context.get_list_state(ListStateDescriptor("last"))
        ...     def process_element(self, value, ctx):
        ...         self.last.update([*self.last.get(), value[1]][-2:])
        ...         yield value[0], list(self.last.get())
        >>> harness = OperatorHarness(lambda rows: rows.key_by(lambda row: row[0]).process(LastTwo()))
        >>> for page in "home", "shop", "cart":
        ...     harness.push(("ann", page))
        >>> harness.take()[-1]
        ('ann', ['shop', 'cart'])
    """

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

    Example:
        >>> from millstream.datastream.functions import KeyedProcessFunction
        >>> from millstream.datastream.state import MapStateDescriptor
        >>> from millstream.testing import OperatorHarness
        >>> class Basket(KeyedProcessFunction):
        ...     def open(self, runtime_context):
        ...         self.things = runtime_context.get_map_state(MapStateDescriptor("things"))
        ...     def process_element(self, value, ctx):
        ...         self.things[value[1]] = (self.things.get(value[1]) or 0) + 1
        ...         yield value[0], dict(self.things.items())
        >>> harness = OperatorHarness(lambda rows: rows.key_by(lambda row: row[0]).process(Basket()))
        >>> for thing in "tea", "cake", "tea":
        ...     harness.push(("ann", thing))
        >>> harness.take()[-1]
        ('ann', {'tea': 2, 'cake': 1})
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
    """Broadcast state as the side with the records sees it; its values must not be changed.

    Example:
        >>> from millstream.datastream.functions import BroadcastProcessFunction
        >>> from millstream.datastream.state import MapStateDescriptor
        >>> from millstream.testing import OperatorHarness
        >>> blocked = MapStateDescriptor("blocked")
        >>> class Allowed(BroadcastProcessFunction):
        ...     def process_broadcast_element(self, value, ctx):
        ...         ctx.get_broadcast_state(blocked).put(value, True)
        ...     def process_element(self, value, ctx):
        ...         if not ctx.get_broadcast_state(blocked).contains(value):  # here it can be read only
        ...             yield value
        >>> harness = OperatorHarness(
        ...     lambda names, bad: names.connect(bad.broadcast(blocked)).process(Allowed()), inputs=2
        ... )
        >>> harness.push("eve", input=1)
        >>> harness.push("ann"); harness.push("eve")
        >>> harness.take()
        ['ann']
    """

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

    Example:
        >>> from millstream.datastream.functions import BroadcastProcessFunction
        >>> from millstream.datastream.state import MapStateDescriptor
        >>> from millstream.testing import OperatorHarness
        >>> rates = MapStateDescriptor("rates")
        >>> class Converted(BroadcastProcessFunction):
        ...     def process_broadcast_element(self, value, ctx):
        ...         state = ctx.get_broadcast_state(rates)  # every subtask gets every rate
        ...         state.put(*value) if value[1] else state.remove(value[0])
        ...     def process_element(self, value, ctx):
        ...         rate = ctx.get_broadcast_state(rates).get(value[0])
        ...         if rate is not None:
        ...             yield value[1] * rate
        >>> harness = OperatorHarness(
        ...     lambda amounts, changes: amounts.connect(changes.broadcast(rates)).process(Converted()),
        ...     inputs=2,
        ... )
        >>> harness.push(("USD", 2), input=1); harness.push(("USD", 10))
        >>> harness.push(("USD", None), input=1); harness.push(("USD", 30))
        >>> harness.take()
        [20]
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
    """Hands out operator state: of a subtask, not of a key.

    Example:
        >>> from millstream.datastream.functions import CheckpointedFunction, MapFunction
        >>> from millstream.datastream.state import ListStateDescriptor
        >>> from millstream.testing import OperatorHarness
        >>> class Numbered(MapFunction, CheckpointedFunction):
        ...     def initialize_state(self, context):
        ...         store = context.get_operator_state_store()
        ...         self.numbers = store.get_list_state(ListStateDescriptor("numbers"))
        ...     def snapshot_state(self, context):
        ...         pass
        ...     def map(self, value):
        ...         self.numbers.add(value)
        ...         return sum(self.numbers.get())
        >>> harness = OperatorHarness(lambda numbers: numbers.map(Numbered()))
        >>> harness.push(3); harness.push(4)
        >>> harness.take()
        [3, 7]
    """

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

    Example:
        >>> from millstream.common import Time, Types
        >>> from millstream.datastream.state import StateTtlConfig, ValueStateDescriptor
        >>> descriptor = ValueStateDescriptor("last login", Types.LONG())
        >>> descriptor.enable_time_to_live(StateTtlConfig.new_builder(Time.days(30)).build())
        >>> descriptor.get_name(), descriptor.ttl_config.get_ttl()
        ('last login', Time(2592000000 ms))
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
    """Describes a `ValueState`.

    Example:
        >>> from millstream.common import Types
        >>> from millstream.datastream.state import ValueStateDescriptor
        >>> ValueStateDescriptor("total", Types.LONG()).get_name()
        'total'
    """

    def __init__(self, name: str, value_type_info: TypeInformation | None = None) -> None:
        super().__init__(name, value_type_info)


class ListStateDescriptor(StateDescriptor):
    """Describes a `ListState`.

    Example:
        >>> from millstream.common import Types
        >>> from millstream.datastream.state import ListStateDescriptor
        >>> ListStateDescriptor("pages", Types.STRING()).get_name()
        'pages'
    """

    def __init__(self, name: str, elem_type_info: TypeInformation | None = None) -> None:
        super().__init__(name, None if elem_type_info is None else Types.LIST(elem_type_info))


class MapStateDescriptor(StateDescriptor):
    """Describes a `MapState` or a `BroadcastState`.

    Example:
        >>> from millstream.common import Types
        >>> from millstream.datastream.state import MapStateDescriptor
        >>> MapStateDescriptor("basket", Types.STRING(), Types.INT()).get_name()
        'basket'
    """

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

    Example:
        >>> from millstream.common import Types
        >>> from millstream.datastream.state import ReducingStateDescriptor
        >>> descriptor = ReducingStateDescriptor("total", lambda one, other: one + other, Types.LONG())
        >>> descriptor.get_reduce_function().reduce(3, 4)
        7
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

    Example:
        >>> from millstream.datastream.functions import AggregateFunction
        >>> from millstream.datastream.state import AggregatingStateDescriptor
        >>> class Count(AggregateFunction):
        ...     def create_accumulator(self):
        ...         return 0
        ...     def add(self, value, accumulator):
        ...         return accumulator + 1
        ...     def get_result(self, accumulator):
        ...         return accumulator
        ...     def merge(self, acc_a, acc_b):
        ...         return acc_a + acc_b
        >>> descriptor = AggregatingStateDescriptor("count", Count())
        >>> descriptor.get_name(), descriptor.get_agg_function().add("tea", 2)
        ('count', 3)
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
