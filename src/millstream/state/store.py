"""The getters of keyed state, each with the check that it was given its kind of descriptor."""

from __future__ import annotations

from abc import abstractmethod
from typing import Any

from millstream.base.errors import StateAccessError
from millstream.common.functions import KeyedStateStore
from millstream.common.state import (
    AggregatingState,
    AggregatingStateDescriptor,
    ListState,
    ListStateDescriptor,
    MapState,
    MapStateDescriptor,
    ReducingState,
    ReducingStateDescriptor,
    StateDescriptor,
    ValueState,
    ValueStateDescriptor,
)
from millstream.state.keyed import KeyedStateBackend
from millstream.state.kinds import check_descriptor

__all__ = ["KeyedStateGetters", "NamespacedStore"]


class KeyedStateGetters(KeyedStateStore):
    """Gives each getter to classes that know their backend and namespace."""

    @abstractmethod
    def _state(self, descriptor: Any, wanted: type[StateDescriptor], getter: str) -> Any:
        """Return the state of a descriptor."""

    def get_state(self, state_descriptor: ValueStateDescriptor) -> ValueState[Any]:
        """Return the value state of that name."""
        state: ValueState[Any] = self._state(state_descriptor, ValueStateDescriptor, "get_state")
        return state

    def get_list_state(self, state_descriptor: ListStateDescriptor) -> ListState[Any]:
        """Return the list state of that name."""
        state: ListState[Any] = self._state(state_descriptor, ListStateDescriptor, "get_list_state")
        return state

    def get_map_state(self, state_descriptor: MapStateDescriptor) -> MapState[Any, Any]:
        """Return the map state of that name."""
        state: MapState[Any, Any] = self._state(state_descriptor, MapStateDescriptor, "get_map_state")
        return state

    def get_reducing_state(self, state_descriptor: ReducingStateDescriptor) -> ReducingState[Any]:
        """Return the reducing state of that name."""
        state: ReducingState[Any] = self._state(
            state_descriptor, ReducingStateDescriptor, "get_reducing_state"
        )
        return state

    def get_aggregating_state(
        self, state_descriptor: AggregatingStateDescriptor
    ) -> AggregatingState[Any, Any]:
        """Return the aggregating state of that name."""
        state: AggregatingState[Any, Any] = self._state(
            state_descriptor, AggregatingStateDescriptor, "get_aggregating_state"
        )
        return state


class NamespacedStore(KeyedStateGetters):
    """Keyed state of one namespace, such as a window.

    Args:
        backend: Where it is; None where the stream is not keyed.
        namespace: The namespace; None for the key as a whole.
        operator: The operator's name, for messages.
        subtask: The subtask's index, for messages.
    """

    __slots__ = ("_backend", "_namespace", "_operator", "_subtask")

    def __init__(
        self, backend: KeyedStateBackend | None, namespace: Any, operator: str, subtask: int
    ) -> None:
        self._backend = backend
        self._namespace = namespace
        self._operator = operator
        self._subtask = subtask

    def _state(self, descriptor: Any, wanted: type[StateDescriptor], getter: str) -> Any:
        check_descriptor(descriptor, wanted, getter, self._operator)
        if self._backend is None:
            raise StateAccessError(
                f'state "{descriptor.name}" was asked for on a stream that is not keyed',
                hint="Call key_by(...) before this operator.",
            ).at(self._operator, self._subtask)
        return self._backend.get_state(descriptor, self._namespace)
