"""Keyed state as live objects in dicts: a value, a list or a dict for each key."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING, Any

from millstream.common.state import ListState, MapState, ValueState
from millstream.state.keyed import KeyedStateBackend
from millstream.state.keys import canonical_key
from millstream.state.kinds import NO_KEY, StateKind, StateSchema, no_key_error
from millstream.state.snapshots import EntriesByGroup, KeyedStateSnapshot, StateChanges, States
from millstream.state.touched import TouchedKeys, pays
from millstream.state.ttl import ProcessingTime, Sweeper, TimeToLive, drop_expired

if TYPE_CHECKING:
    from millstream.base.errors import StateAccessError

__all__ = ["HeapKeyedStateBackend", "entries_of_value_state"]


_TABLE_SCHEMA = StateSchema(StateKind.TABLE)


class HeapKeyedStateBackend(KeyedStateBackend):
    """Live objects in dicts: state name -> namespace -> key -> value.

    Values are handed out as they are, so one that is changed in place is changed in the state.
    """

    def __init__(
        self,
        *,
        operator: str = "",
        time: ProcessingTime | None = None,
        max_parallelism: int = 128,
        tracking: bool = False,
    ) -> None:
        super().__init__(operator=operator, time=time, max_parallelism=max_parallelism, tracking=tracking)
        self._tables: dict[str, dict[Any, dict[Any, Any]]] = {}
        self._namespaced: set[str] = set()

    def table(self, name: str) -> dict[Any, Any]:
        """Return the values of a state by key."""
        self._register(name, _TABLE_SCHEMA)
        return self._table(name, None)

    def clear_namespace(self, namespace: Any, key: Any) -> None:
        """Remove all that `key` has under `namespace`."""
        for by_namespace in self._tables.values():
            table = by_namespace.get(namespace)
            if table is not None:
                table.pop(key, None)
                if not table and namespace is not None:
                    del by_namespace[namespace]

    def snapshot(self, key_groups: range | None = None, *, timers: bool = True) -> KeyedStateSnapshot:
        """Return all state and timers, by key group; one pass over all keys."""
        waiting = self._snapshot_timers(key_groups) if timers else {}
        snapshot = KeyedStateSnapshot(dict(self._schemas), timers=waiting)
        for group, states in self.entries_by_group():
            if key_groups is None or group in key_groups:
                held = snapshot.groups.setdefault(group, {})
                for name, entries in states.items():
                    held.setdefault(name, []).extend(entries)
        return snapshot

    def keys(self, name: str) -> Iterator[tuple[Any, Any]]:
        """Yield (namespace, key) of a state."""
        for namespace, table in self._tables.get(name, {}).items():
            for key in table:
                yield namespace, key

    def entries_by_group(self) -> Iterator[tuple[int, States]]:
        """Yield all entries, some at a time; one pass over all keys."""
        tables = [
            (name, namespace, table)
            for name, by_namespace in self._tables.items()
            for namespace, table in by_namespace.items()
        ]
        gathered = EntriesByGroup(self._max_parallelism, remembers=len(tables) > 1)
        for name, namespace, table in tables:
            yield from gathered.add_all(name, namespace, self._kept(name, table))
        yield from gathered.rest()

    def _kept(self, name: str, table: dict[Any, Any]) -> Iterable[tuple[Any, Any]]:
        """Return what belongs into a snapshot: without what is expired, if so configured."""
        life = self._lives.get(name)
        if life is None or not life.config.get_cleanup_strategies().in_full_snapshot():
            return table.items()
        kind = self._schemas[name].kind
        kept = ((key, drop_expired(kind, entry, life)) for key, entry in table.items())
        return ((key, entry) for key, entry in kept if entry is not None)

    def track(self, keys: TouchedKeys | None = None) -> None:
        """Have keys added to `touched`, if checkpoints are incremental."""
        if self.tracking and (keys is not None or self.touched is None):
            self.touched = TouchedKeys() if keys is None else keys

    def patch(self) -> StateChanges | None:
        """Return what the touched keys have now; None where they are not tracked, or are most of them."""
        touched = self.touched
        if touched is None or touched.too_many:
            return None
        changes = StateChanges(self._max_parallelism)
        for name, by_namespace in self._tables.items():
            if not pays(len(touched), sum(map(len, by_namespace.values()))):
                return None
            if name in self._namespaced:
                for key in touched:
                    changes.clear(name, key)
            for namespace, table in by_namespace.items():
                if name in self._namespaced:
                    # There may be a namespace for each key: one pass over what there is, and not more.
                    for key in touched if len(touched) < len(table) else list(table):
                        if key in table and key in touched:
                            changes.put(name, namespace, key, table[key])
                    continue
                for key in touched:
                    if key in table:
                        changes.put(name, None, key, table[key])
                    else:
                        changes.remove(name, None, key)
        return changes

    def forget_changes(self) -> None:
        """Take what is there now as what is known."""
        if self.touched is not None:
            self.touched.forget()

    def _restore_entries(self, name: str, entries: list[tuple[Any, Any, Any]]) -> None:
        for namespace, key, entry in entries:
            self._table(name, namespace)[key] = entry

    def _peek(self, schema: StateSchema, name: str, key: Any, namespace: Any) -> Any:
        # Not by a state object: that would make a table for a namespace that is not there.
        return self._tables.get(name, {}).get(namespace, {}).get(canonical_key(key))

    def _value_state(self, name: str, namespace: Any) -> ValueState[Any]:
        return _HeapValueState(self, name, self._table(name, namespace))

    def _list_state(self, name: str, namespace: Any) -> ListState[Any]:
        return _HeapListState(self, name, self._table(name, namespace))

    def _map_state(self, name: str, namespace: Any) -> MapState[Any, Any]:
        return _HeapMapState(self, name, self._table(name, namespace))

    def _sweeper(self, name: str, life: TimeToLive) -> Sweeper | None:
        strategy = life.config.get_cleanup_strategies().get_incremental_cleanup_strategy()
        if strategy is None or strategy.get_cleanup_size() == 0:
            return None
        tables = self._tables.setdefault(name, {})
        return Sweeper(tables, self._schemas[name].kind, life, strategy.get_cleanup_size())

    def _table(self, name: str, namespace: Any) -> dict[Any, Any]:
        if namespace is not None:
            self._namespaced.add(name)
        return self._tables.setdefault(name, {}).setdefault(namespace, {})


class _HeapState:
    __slots__ = ("_backend", "_entries", "_name")

    def __init__(self, backend: KeyedStateBackend, name: str, entries: dict[Any, Any]) -> None:
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


class _HeapValueState(_HeapState, ValueState[Any]):
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


def entries_of_value_state(state: Any, backend: KeyedStateBackend) -> dict[Any, Any] | None:
    """Return the values by key of a value state, for hot loops; None of anything but such a state of a backend.

    Args:
        state: Anything.
        backend: Whose states are meant.
    """
    if type(state) is _HeapValueState and state._backend is backend:
        return state._entries
    return None


class _HeapListState(_HeapState, ListState[Any]):
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


class _HeapMapState(_HeapState, MapState[Any, Any]):
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
