"""Keyed state over dicts of live objects: a value, a list or a dict for each key."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

from millstream.common.state import ListState, MapState, ValueState
from millstream.state.kinds import NO_KEY, no_key_error

if TYPE_CHECKING:
    from millstream.common.errors import StateAccessError
    from millstream.state.keyed import HeapKeyedStateBackend

__all__ = ["HeapListState", "HeapMapState", "HeapValueState"]


class _HeapState:
    __slots__ = ("_backend", "_entries", "_name")

    def __init__(self, backend: HeapKeyedStateBackend, name: str, entries: dict[Any, Any]) -> None:
        self._backend = backend
        self._name = name
        self._entries = entries

    def clear(self) -> None:
        """Remove what the current key has."""
        key = self._backend.current_key
        if key is NO_KEY:
            raise self._no_key()
        self._entries.pop(key, None)

    def _no_key(self) -> StateAccessError:
        return no_key_error(self._name, self._backend.operator)


class HeapValueState(_HeapState, ValueState[Any]):
    """Key -> value."""

    __slots__ = ()

    def value(self) -> Any:
        """Return the current key's value, None if there is none."""
        key = self._backend.current_key
        if key is NO_KEY:
            raise self._no_key()
        return self._entries.get(key)

    def update(self, value: Any) -> None:
        """Set the current key's value."""
        key = self._backend.current_key
        if key is NO_KEY:
            raise self._no_key()
        if value is None:
            self._entries.pop(key, None)
        else:
            self._entries[key] = value


class HeapListState(_HeapState, ListState[Any]):
    """Key -> list; a key without elements has no list."""

    __slots__ = ()

    def get(self) -> list[Any]:
        """Return a copy of the current key's list."""
        key = self._backend.current_key
        if key is NO_KEY:
            raise self._no_key()
        elements = self._entries.get(key)
        return [] if elements is None else elements.copy()

    def add(self, value: Any) -> None:
        """Add an element at the end."""
        key = self._backend.current_key
        if key is NO_KEY:
            raise self._no_key()
        elements = self._entries.get(key)
        if elements is None:
            self._entries[key] = [value]
        else:
            elements.append(value)

    def add_all(self, values: Iterable[Any]) -> None:
        """Add elements at the end."""
        key = self._backend.current_key
        if key is NO_KEY:
            raise self._no_key()
        added = list(values)
        if added:
            self._entries.setdefault(key, []).extend(added)

    def update(self, values: Iterable[Any]) -> None:
        """Replace all elements."""
        key = self._backend.current_key
        if key is NO_KEY:
            raise self._no_key()
        elements = list(values)
        if elements:
            self._entries[key] = elements
        else:
            self._entries.pop(key, None)


_NOTHING: dict[Any, Any] = {}


class HeapMapState(_HeapState, MapState[Any, Any]):
    """Key -> dict; a key without entries has no dict."""

    __slots__ = ()

    def _current(self) -> dict[Any, Any]:
        key = self._backend.current_key
        if key is NO_KEY:
            raise self._no_key()
        mapping: dict[Any, Any] = self._entries.get(key, _NOTHING)
        return mapping

    def get(self, key: Any) -> Any:
        """Return the value of `key`, None if there is none."""
        current = self._backend.current_key
        if current is NO_KEY:
            raise self._no_key()
        mapping = self._entries.get(current)
        return None if mapping is None else mapping.get(key)

    def put(self, key: Any, value: Any) -> None:
        """Set the value of `key`."""
        current = self._backend.current_key
        if current is NO_KEY:
            raise self._no_key()
        mapping = self._entries.get(current)
        if mapping is None:
            self._entries[current] = {key: value}
        else:
            mapping[key] = value

    def put_all(self, dict_value: dict[Any, Any]) -> None:
        """Set the values of all keys of a dict."""
        self._current()
        if dict_value:
            self._entries.setdefault(self._backend.current_key, {}).update(dict_value)

    def remove(self, key: Any) -> None:
        """Remove `key`."""
        mapping = self._current()
        mapping.pop(key, None)
        if not mapping:
            self._entries.pop(self._backend.current_key, None)

    def contains(self, key: Any) -> bool:
        """Return whether `key` is there."""
        return key in self._current()

    def items(self) -> Iterable[tuple[Any, Any]]:
        """Return keys with their values, as they are now."""
        return list(self._current().items())

    def keys(self) -> Iterable[Any]:
        """Return the keys, as they are now."""
        return list(self._current())

    def values(self) -> Iterable[Any]:
        """Return the values, as they are now."""
        return list(self._current().values())

    def is_empty(self) -> bool:
        """Return whether there is no key."""
        return not self._current()
