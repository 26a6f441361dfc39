"""State entries of process table functions, over the state of the operator's backend.

An object is kept as the dict of its fields, a Row as a tuple: state then does not depend on where a class is defined.
What has only NULLs is not kept. Lists and maps are views: their elements are read and written one by one.
"""

from __future__ import annotations

import dataclasses
import datetime
import pickle
from abc import ABC, abstractmethod
from collections.abc import Iterable, Iterator
from typing import Any

from millstream.common.state import (
    ListState,
    ListStateDescriptor,
    MapState,
    MapStateDescriptor,
    StateDescriptor,
    ValueState,
    ValueStateDescriptor,
)
from millstream.common.state_ttl import StateTtlConfig
from millstream.state.keyed import KeyedStateBackend
from millstream.table.data_view import ListView, MapView
from millstream.table.functions.process_signature import StateEntry, StateForm
from millstream.types.row import Row

__all__ = ["KeptEntry", "open_entry"]


class KeptEntry(ABC):
    """A state entry: read before a call, written behind it.

    Attributes:
        name: Its name.
        cleared: Whether the function emptied it in this call.
    """

    def __init__(self, name: str) -> None:
        self.name = name
        self.cleared = False

    @abstractmethod
    def read(self) -> Any:
        """Return what the function gets, for the current key."""

    @abstractmethod
    def write(self) -> None:
        """Keep what the function made of it."""


class _ObjectEntry(KeptEntry):
    """A value: an object of a class, or a Row."""

    def __init__(self, entry: StateEntry, state: ValueState[Any], timed: bool) -> None:
        super().__init__(entry.name)
        self._entry = entry
        self._state = state
        self._timed = timed
        self._given: Any = None
        self._kept: Any = None

    def read(self) -> Any:
        """Return an object with what is kept; one that is empty if nothing is."""
        kept = self._state.value()
        self.cleared = False
        # What does not change does not live longer: the text of what is kept tells.
        self._kept = pickle.dumps(kept) if self._timed else kept
        if self._entry.form is StateForm.ROW:
            names = self._entry.make
            values = list(kept or ())[: len(names)]
            self._given = Row.of(names, [*values, *[None] * (len(names) - len(values))])
        else:
            self._given = self._entry.make()
            for name, value in (kept or {}).items():
                object.__setattr__(self._given, name, value)
        return self._given

    def write(self) -> None:
        """Keep its fields, if it is not empty."""
        if self.cleared:
            self._state.clear()
            return
        made: Any = tuple(self._given) if isinstance(self._given, Row) else _fields(self._given)
        values = made if isinstance(made, tuple) else made.values()
        if all(each is None for each in values):
            self._state.clear()
        elif not self._timed or pickle.dumps(made) != self._kept:
            self._state.update(made)


def _fields(given: Any) -> dict[str, Any]:
    if dataclasses.is_dataclass(given):
        return {each.name: getattr(given, each.name) for each in dataclasses.fields(given)}
    return dict(vars(given))


class _ViewEntry(KeptEntry):
    """A list or a map, whose state is written as the function goes."""

    def __init__(self, name: str, view: Any) -> None:
        super().__init__(name)
        self._view = view

    def read(self) -> Any:
        """Return the view."""
        self.cleared = False
        return self._view

    def write(self) -> None:
        """Empty it if the function said so."""
        if self.cleared:
            self._view.clear()


class _KeptList(ListView[Any]):
    """A list in state."""

    def __init__(self, state: ListState[Any]) -> None:
        self._state = state

    def get(self) -> Iterable[Any]:
        """Return the elements in order."""
        return list(self._state.get() or ())

    def get_list(self) -> list[Any]:
        """Return the elements in order."""
        return list(self._state.get() or ())

    def set_list(self, values: Iterable[Any]) -> None:
        """Replace all elements."""
        self._state.update(list(values))

    def add(self, value: Any) -> None:
        """Append an element."""
        self._state.add(value)

    def add_all(self, values: list[Any]) -> None:
        """Append elements."""
        self._state.add_all(list(values))

    def remove(self, value: Any) -> bool:
        """Remove the first element that is equal; return whether there was one."""
        values = self.get_list()
        if value not in values:
            return False
        values.remove(value)
        self._state.update(values)
        return True

    def clear(self) -> None:
        """Remove all elements."""
        self._state.clear()

    def __iter__(self) -> Iterator[Any]:
        return iter(self.get())

    __hash__ = None  # type: ignore[assignment]


class _KeptMap(MapView[Any, Any]):
    """A map in state; a key that is not there gives None."""

    def __init__(self, state: MapState[Any, Any]) -> None:
        self._state = state

    def get(self, key: Any) -> Any:
        """Return the value of a key; None if there is none."""
        return self._state.get(key)

    def put(self, key: Any, value: Any) -> None:
        """Set the value of a key."""
        self._state.put(key, value)

    def put_all(self, dict_value: dict[Any, Any]) -> None:
        """Set the values of keys."""
        self._state.put_all(dict(dict_value))

    def remove(self, key: Any) -> None:
        """Remove a key; nothing happens if it is not there."""
        self._state.remove(key)

    def contains(self, key: Any) -> bool:
        """Return whether a key is there."""
        return self._state.contains(key)

    def items(self) -> Iterable[tuple[Any, Any]]:
        """Return keys with values."""
        return list(self._state.items())

    def keys(self) -> Iterable[Any]:
        """Return the keys."""
        return [key for key, _ in self._state.items()]

    def values(self) -> Iterable[Any]:
        """Return the values."""
        return [value for _, value in self._state.items()]

    def is_empty(self) -> bool:
        """Return whether there is no key."""
        return self._state.is_empty()

    def clear(self) -> None:
        """Remove all keys."""
        self._state.clear()


def open_entry(entry: StateEntry, backend: KeyedStateBackend, ttl_ms: int | None) -> KeptEntry:
    """Return a state entry of an operator.

    Args:
        entry: As it was declared.
        backend: The operator's state.
        ttl_ms: How long it is kept if it says nothing itself; None for ever.
    """
    length_ms = ttl_ms if entry.ttl_ms is None else entry.ttl_ms
    descriptor: StateDescriptor
    if entry.form is StateForm.LIST:
        descriptor = ListStateDescriptor(entry.name)
    elif entry.form is StateForm.MAP:
        descriptor = MapStateDescriptor(entry.name)
    else:
        descriptor = ValueStateDescriptor(entry.name)
    if length_ms:
        descriptor.enable_time_to_live(
            StateTtlConfig.new_builder(datetime.timedelta(milliseconds=length_ms)).build()
        )
    state = backend.get_state(descriptor)
    if entry.form is StateForm.LIST:
        return _ViewEntry(entry.name, _KeptList(state))
    if entry.form is StateForm.MAP:
        return _ViewEntry(entry.name, _KeptMap(state))
    return _ObjectEntry(entry, state, bool(length_ms))
