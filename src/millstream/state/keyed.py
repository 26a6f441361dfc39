"""Keyed state: what operators see of a backend, and the backend that keeps live objects in dicts."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import Any

from millstream.common.errors import ConfigurationError, StateAccessError
from millstream.common.state import StateDescriptor, ValueState, ValueStateDescriptor
from millstream.state.timers import TimerQueue

__all__ = ["HeapKeyedStateBackend", "KeyedStateBackend"]


class _NoKey:
    def __repr__(self) -> str:
        return "no key"


NO_KEY = _NoKey()


class KeyedStateBackend(ABC):
    """State and timers of one keyed operator in one subtask; the subtask's thread calls it.

    Attributes:
        current_key: The key that state objects act on; hot loops set it directly.
        event_timers: Event-time timers by key.
        processing_timers: Processing-time timers by key.
    """

    current_key: Any
    event_timers: TimerQueue
    processing_timers: TimerQueue

    def set_current_key(self, key: Any) -> None:
        """Choose the key that state objects act on."""
        self.current_key = key

    @abstractmethod
    def get_state(self, descriptor: StateDescriptor, namespace: Any = None) -> ValueState[Any]:
        """Return the state of that name; the same object for the same name and namespace.

        Raises:
            ConfigurationError: If the kind of the descriptor is not a kind of state.
        """

    @abstractmethod
    def table(self, name: str) -> dict[Any, Any]:
        """Return the values of a state by key, as a dict: for operators' own hot loops."""

    @abstractmethod
    def clear_namespace(self, namespace: Any, key: Any) -> None:
        """Remove all that `key` has under `namespace`."""


class HeapKeyedStateBackend(KeyedStateBackend):
    """Live objects in dicts: state name -> namespace -> key -> value."""

    def __init__(self) -> None:
        self.current_key = NO_KEY
        self.event_timers = TimerQueue()
        self.processing_timers = TimerQueue()
        self._tables: dict[str, dict[Any, dict[Any, Any]]] = {}

    def get_state(self, descriptor: StateDescriptor, namespace: Any = None) -> ValueState[Any]:
        """Return the value state of that name."""
        if not isinstance(descriptor, ValueStateDescriptor):
            raise ConfigurationError(
                f"get_state was given a {type(descriptor).__name__}", hint="Give it a ValueStateDescriptor."
            )
        return _HeapValueState(self, descriptor.name, self._table(descriptor.name, namespace))

    def table(self, name: str) -> dict[Any, Any]:
        """Return the values of a state by key."""
        return self._table(name, None)

    def clear_namespace(self, namespace: Any, key: Any) -> None:
        """Remove all that `key` has under `namespace`."""
        for by_namespace in self._tables.values():
            table = by_namespace.get(namespace)
            if table is not None:
                table.pop(key, None)
                if not table and namespace is not None:
                    del by_namespace[namespace]

    def _table(self, name: str, namespace: Any) -> dict[Any, Any]:
        return self._tables.setdefault(name, {}).setdefault(namespace, {})


class _HeapValueState(ValueState[Any]):
    __slots__ = ("_backend", "_name", "_values")

    def __init__(self, backend: HeapKeyedStateBackend, name: str, values: dict[Any, Any]) -> None:
        self._backend = backend
        self._name = name
        self._values = values

    def value(self) -> Any:
        """Return the current key's value, None if there is none."""
        key = self._backend.current_key
        if key is NO_KEY:
            raise self._no_key()
        return self._values.get(key)

    def update(self, value: Any) -> None:
        """Set the current key's value."""
        key = self._backend.current_key
        if key is NO_KEY:
            raise self._no_key()
        if value is None:
            self._values.pop(key, None)
        else:
            self._values[key] = value

    def clear(self) -> None:
        """Remove the current key's value."""
        self._values.pop(self._backend.current_key, None)

    def _no_key(self) -> StateAccessError:
        return StateAccessError(
            f'state "{self._name}" was used while there is no current key',
            detail="Keyed state is there while a record or timer is processed, not in open() or close().",
            hint="Get the state in open(), use it in process_element() or on_timer().",
        )
